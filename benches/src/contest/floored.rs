//! A floor that answers over connections, as a contender.

use super::compare::Contender;
use super::load::{Load, Workload};
use super::spots::{Spot, works};
use crate::client::{Address, Security};
use crate::floor::{Floor, FloorKind, FloorSettings};
use crate::load::Job;
use crate::load::{Answers, Until, Watched};
use crate::problem::Problem;
use crate::usage;

/// What requests to a floor carry for a topic's name; as long as those of a broker, so that both
/// get the same bytes.
const TOPIC_LETTER: &str = "t";

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

    /// One that runs somewhere already.
    #[must_use]
    pub fn at(name: &str, kind: FloorKind, address: Address, topic_bytes: usize) -> Self {
        let pid = usage::listener_pid(address.port);
        let topic = TOPIC_LETTER.repeat(topic_bytes);
        Self {
            name: name.to_owned(),
            kind,
            address,
            topic,
            cpus: Vec::new(),
            pid,
            _ours: None,
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

    fn jobs(&mut self, load: &Load) -> Result<Vec<Job>, Problem> {
        let spot = Spot {
            topic: self.topic.clone(),
            partition: 0,
            leader: self.address.clone(),
            security: Security::default(),
            user: 0,
        };
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
        }
    }
}
