//! One client beside peers that mean it no good: what it waits for its acknowledgements, as a
//! multiple of what it waits when it is alone with the broker's core.

mod besieged;
mod peer;
mod pressing;
mod priority;
mod stalls;
mod wire;

pub use peer::PEERS;

use crate::broker::{FreshBroker, FreshStream};
use crate::client::{Security, TlsConfig, Trust};
use crate::contest::{Contender, Load, Progress, Target, TargetSettings, Workload, compare};
use crate::found::{Comparison, Figure, Findings};
use crate::load::{Stop, Timing};
use crate::problem::Problem;
use besieged::Besieged;
use peer::{Peer, Place};
use std::path::PathBuf;
use std::time::Duration;

/// Requests a second of the client that is measured.
const RATE: f64 = 2_000.0;

/// Partitions of the topic that peers ask for all at once: as many as a topic may have.
const MANY: usize = 1_024;

/// What a shard keeps of what peers write.
const RETENTION_BYTES: &str = "67108864";

/// Answers are waited for so long after the end of a turn.
const GRACE: Duration = Duration::from_secs(10);

/// What is run, and where.
#[derive(Clone, Debug)]
pub struct Siege {
    /// Turns of each side.
    pub rounds: usize,
    /// How long each turn is measured.
    pub turn: Duration,
    /// The names of the peers, of [`PEERS`]; all of them if empty.
    pub only: Vec<String>,
    /// The listener has TLS, and so has the client.
    pub has_tls: bool,
    /// The broker's executable.
    pub binary: PathBuf,
    /// Where its data lies meanwhile.
    pub dir: PathBuf,
    /// The processor of the broker's only core.
    pub broker_cpu: usize,
    /// The processor of the client, and of the peers, who leave it to the client whenever it wants
    /// it.
    pub client_cpu: usize,
}

impl Siege {
    /// Runs it, or as much as there is time for until it is stopped.
    ///
    /// # Errors
    /// The broker cannot be started, or a client fails. What was found before stays in `findings`.
    pub fn run(
        &self,
        findings: &mut Findings,
        stop: &Stop,
        progress: &Progress,
    ) -> Result<(), Problem> {
        progress.say("siege: starting a fresh broker");
        let streams = streams();
        let broker = FreshBroker::start(
            &self.binary,
            &self.dir,
            &[self.broker_cpu],
            &streams,
            &self.settings(),
        )?;
        // It is our own broker, of a moment ago.
        let tls = self.has_tls.then(|| TlsConfig::new(&Trust::Anybody, None));
        let tls = tls.transpose()?;
        // After the broker, which would have it as well.
        findings.settings.push(priority::first_of_all());
        let place = Place {
            address: broker.address(),
            large: streams[1].topic(),
            many: streams[2].topic(),
            partitions: MANY,
            cpu: self.client_cpu,
            tls: tls.clone(),
        };
        let target = || {
            Target::new(TargetSettings {
                name: "calm".to_owned(),
                addresses: broker.address().to_string(),
                securities: vec![Security {
                    tls: tls.clone(),
                    ..Security::default()
                }],
                topic: streams[0].topic(),
                may_create: false,
                replication: -1,
                pid: Some(broker.pid()),
                cpus: vec![self.broker_cpu],
            })
        };
        let http_port = broker.http_port();
        let peers = Peer::named(&self.only, self.has_tls);
        let peers = [None].into_iter().chain(peers.into_iter().map(Some));
        let mut sides: Vec<_> = peers
            .map(|peer| Besieged::new(target(), peer, place.clone(), http_port))
            .collect();
        let mut contenders: Vec<&mut dyn Contender> = Vec::new();
        for side in &mut sides {
            contenders.push(side);
        }
        let (load, rounds) = (self.load(), self.rounds);
        let done = compare(
            findings,
            comparison(),
            &load,
            &mut contenders,
            rounds,
            stop,
            progress,
        );
        for side in &sides {
            findings.settings.push(side.stalls());
        }
        done
    }

    /// Or peers would fill the disk.
    fn settings(&self) -> Vec<(String, String)> {
        let mut settings = vec![
            ("FELIX_DURABLE_RETENTION_BYTES", RETENTION_BYTES),
            ("FELIX_DURABLE_RETENTION_INTERVAL_SECONDS", "1"),
        ];
        if self.has_tls {
            settings.push(("FELIX_KAFKA_TLS", "true"));
        }
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        settings.into_iter().map(owned).collect()
    }

    fn load(&self) -> Load {
        let warm_up = (self.turn / 5).clamp(Duration::from_millis(300), Duration::from_secs(2));
        Load {
            rate: Some(RATE),
            cpus: vec![self.client_cpu],
            timing: Timing::new(warm_up, self.turn, GRACE),
            ..Load::of(Workload::Produce)
        }
    }
}

/// The client's, and two of its peers.
fn streams() -> [FreshStream; 3] {
    [
        FreshStream::new("calm", 1, "periodic"),
        FreshStream::new("large", 1, "periodic"),
        FreshStream::new("many", MANY, "periodic"),
    ]
}

fn comparison() -> Comparison {
    Comparison {
        name: "siege".to_owned(),
        what: "from when a request is due to its acknowledgement; one record of 1 KiB a request, \
               acks=all, one connection; beside it, on the same core of the broker, peers as named"
            .to_owned(),
        figure: Figure::Latency,
        offered: Some(RATE),
        sides: Vec::new(),
    }
}
