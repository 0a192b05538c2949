//! A floor that answers over connections, as a contender.

use super::compare::Contender;
use super::load::{Load, Workload};
use super::spots::{Spot, works};
use crate::client::{Address, Security};
use crate::floor::{Floor, FloorKind, FloorSettings};
use crate::load::Job;
use crate::load::{Answers, Stop, Until, Watched};
use crate::problem::Problem;
use crate::usage;
use std::time::{Duration, Instant};

/// What requests to a floor carry for a topic's name; as long as those of a broker, so that both
/// get the same bytes.
const TOPIC_LETTER: &str = "t";

/// How long a floor is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// So much has come once bytes flow.
const FLOW_BYTES: usize = 256 << 10;

/// A floor, in a process of its own or on another machine.
#[derive(Debug)]
pub struct Floored {
    name: String,
    kind: FloorKind,
    address: Address,
    topic: String,
    cpus: Vec<usize>,
    pid: Option<u32>,
    _ours: Option<Floor>,
}

impl Floored {
    /// Starts one beside us. Its requests are as long as those to a topic with a name of
    /// `topic_bytes`.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(
        name: &str,
        kind: FloorKind,
        settings: &FloorSettings,
        topic_bytes: usize,
    ) -> Result<Self, Problem> {
        let floor = Floor::start(kind, settings)?;
        let address = Address {
            host: floor.address().ip().to_string(),
            port: floor.port(),
        };
        Ok(Self {
            name: name.to_owned(),
            kind,
            address,
            topic: TOPIC_LETTER.repeat(topic_bytes),
            cpus: vec![settings.cpu],
            pid: Some(floor.pid()),
            _ours: Some(floor),
        })
    }

    /// One that runs somewhere already. It is asked once, to see that it does what it should.
    ///
    /// # Errors
    /// It is not there, or answers otherwise than a broker would.
    pub fn at(
        kind: FloorKind,
        address: Address,
        topic_bytes: usize,
        load: &Load,
    ) -> Result<Self, Problem> {
        let is_here = address.is_here();
        let floored = Self {
            name: kind.word().to_owned(),
            kind,
            pid: usage::listener_pid(address.port).filter(|_| is_here),
            address,
            topic: TOPIC_LETTER.repeat(topic_bytes),
            cpus: Vec::new(),
            _ours: None,
        };
        floored.probe(load)?;
        Ok(floored)
    }

    fn spot(&self) -> Spot {
        Spot {
            topic: self.topic.clone(),
            partition: 0,
            leader: self.address.clone(),
            security: Security::default(),
            user: 0,
        }
    }

    fn probe(&self, load: &Load) -> Result<(), Problem> {
        let (address, word) = (&self.address, self.kind.word());
        let wanted = match self.kind {
            FloorKind::Send => FLOW_BYTES,
            _ => load.answer_bytes(&self.topic)?,
        };
        let mut link = self.spot().open()?;
        let request = load.request(&self.topic)?;
        link.queue(|out, _| out.extend_from_slice(&request));
        let begun = Instant::now();
        let mut found = 0;
        while begun.elapsed() < PATIENCE {
            link.push()?;
            if !link.pull()? {
                std::thread::sleep(Duration::from_millis(1));
            } else if self.kind == FloorKind::Send {
                found += link.drain();
            } else if let Some(frame) = link.frame()? {
                found = frame.len() + 4;
            }
            if found > 0 && (self.kind != FloorKind::Send || found >= wanted) {
                break;
            }
        }
        match found {
            0 => Err(Problem::new(format!(
                "the floor at {address} does not answer; start it there with `felix-bench floor {word}`"
            ))),
            found if found == wanted || (self.kind == FloorKind::Send && found > wanted) => Ok(()),
            found => Err(Problem::new(format!(
                "the floor at {address} answers {found} bytes where a broker would answer {wanted}; \
                 start it with `felix-bench floor {word} --answer-bytes {wanted}`"
            ))),
        }
    }
}

impl Contender for Floored {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_floor(&self) -> bool {
        true
    }

    fn jobs(&mut self, load: &Load, _stop: &Stop) -> Result<Vec<Job>, Problem> {
        let spot = self.spot();
        let spots = vec![spot.clone(); load.partitions];
        let is_flow = self.kind == FloorKind::Send;
        assert_eq!(
            is_flow,
            load.workload == Workload::Fetch,
            "floors are chosen by their workload"
        );
        // Bytes that flow are not asked for.
        let connections = if is_flow { 0 } else { load.connections };
        let load = Load {
            connections,
            ..load.clone()
        };
        let until = Until::Acknowledged;
        let mut works = works(&load, &spots, Answers::Echo, until, &mut |_| Ok(None))?;
        if is_flow {
            for work in &mut works {
                let sinks = (0..load.consumers).map(|_| spot.open());
                work.sinks = sinks.collect::<Result<_, _>>()?;
            }
        }
        Ok(works.into_iter().map(super::target::job).collect())
    }

    fn watched(&self) -> Watched {
        Watched {
            pid: self.pid,
            cpus: self.cpus.clone(),
            ..Watched::default()
        }
    }
}
