//! A broker that speaks Kafka, as a contender.

use super::compare::Contender;
use super::fill::fill;
use super::load::{Load, Workload};
use super::spots::{Spot, grouped, works};
use crate::client::{Address, Admin, Leader, Security, Topic};
use crate::load::Job;
use crate::load::{Answers, Cursor, Identity, Reader, Stop, Until, Watched, Work};
use crate::pin;
use crate::problem::Problem;
use crate::usage;

/// How a broker is reached, and what is used of it.
#[derive(Clone, Debug)]
pub struct TargetSettings {
    /// What it is called.
    pub name: String,
    /// Where it listens: one address, or several with commas.
    pub addresses: String,
    /// How connections are secured, one after the other: several users take turns.
    pub securities: Vec<Security>,
    /// The topic; `{user}` stands for the user's name.
    pub topic: String,
    /// Whether a topic that is missing is made.
    pub may_create: bool,
    /// With how many replicas; -1: as the broker likes.
    pub replication: i16,
    /// Its process, if it is on this machine.
    pub pid: Option<u32>,
    /// The processors it runs on, if that is known; on this machine, else, it may be any.
    pub cpus: Vec<usize>,
}

/// A broker. Its topic is looked up in its first turn.
#[derive(Debug)]
pub struct Target {
    settings: TargetSettings,
    pid: Option<u32>,
    users: Vec<User>,
    /// By place: where reading begins.
    filled_from: Vec<i64>,
}

/// One of those who use it.
#[derive(Debug)]
struct User {
    admin: Admin,
    topic: Topic,
    security: Security,
}

impl Target {
    /// Not reached yet.
    ///
    /// # Panics
    /// Nobody uses it.
    #[must_use]
    pub fn new(settings: TargetSettings) -> Self {
        assert!(!settings.securities.is_empty());
        let pid = settings.pid.or_else(|| local_pid(&settings.addresses));
        Self {
            settings,
            pid,
            users: Vec::new(),
            filled_from: Vec::new(),
        }
    }

    /// The topic's name as the user sees it.
    fn topic_of(&self, security: &Security) -> String {
        let user = security
            .sasl
            .as_ref()
            .map_or("", |credential| credential.user.as_str());
        self.settings.topic.replace("{user}", user)
    }

    /// How long the name of the topic is, for floors that are to get as many bytes.
    #[must_use]
    pub fn topic_bytes(&self) -> usize {
        self.topic_of(&self.settings.securities[0]).len()
    }

    /// Reaches the broker and its topic, once.
    ///
    /// # Errors
    /// It is not there, is no broker that we can use, or has no such topic.
    pub fn reach(&mut self, load: &Load) -> Result<(), Problem> {
        let name = self.settings.name.clone();
        let told = |problem: Problem| Problem::new(format!("{name}: {problem}"));
        self.reach_all(load.partitions, load.is_idempotent)
            .map_err(told)
    }

    fn reach_all(&mut self, partitions: usize, is_idempotent: bool) -> Result<(), Problem> {
        if !self.users.is_empty() {
            return Ok(());
        }
        let wanted = i32::try_from(partitions)
            .map_err(|_| Problem::new(format!("{partitions} partitions are too many")))?;
        let mut users = Vec::new();
        for security in &self.settings.securities {
            let mut admin = Admin::connect(&self.settings.addresses, security)?;
            admin.check_apis()?;
            let (may_create, replication) = (self.settings.may_create, self.settings.replication);
            if is_idempotent {
                // Before anything is measured, rather than in its first turn.
                admin.producer_id()?;
            }
            let topic = admin.topic(&self.topic_of(security), wanted, may_create, replication)?;
            users.push(User {
                admin,
                topic,
                security: security.clone(),
            });
        }
        self.users = users;
        Ok(())
    }

    /// The partitions in use. Several users take turns: with topics of their own each has its part
    /// of the places.
    fn spots(&self, partitions: usize) -> Vec<Spot> {
        let spot = |place: usize| {
            let user = place % self.users.len();
            let used = &self.users[user];
            let leader = &used.topic.partitions[place % used.topic.partitions.len()];
            Spot {
                topic: used.topic.name.clone(),
                partition: leader.index,
                leader: Address {
                    host: leader.host.clone(),
                    port: leader.port,
                },
                security: used.security.clone(),
                user,
            }
        };
        (0..partitions).map(spot).collect()
    }

    fn end_offset(&mut self, spot: &Spot) -> Result<i64, Problem> {
        let leader = Leader {
            index: spot.partition,
            host: spot.leader.host.clone(),
            port: spot.leader.port,
        };
        self.users[spot.user].admin.end_offset(&spot.topic, &leader)
    }

    /// Adds the consumers to what threads do.
    fn read(&mut self, load: &Load, spots: &[Spot], works: &mut [Work]) -> Result<(), Problem> {
        for (work, places) in works.iter_mut().zip(load.shares()?) {
            let mut cursors = Vec::new();
            for group in grouped(&places, spots) {
                let mut cursor = Vec::new();
                for place in group {
                    let spot = &spots[place];
                    let (next, again_from) = match load.workload {
                        Workload::Fetch => {
                            let from = self.filled_from[place];
                            (from, Some(from))
                        }
                        Workload::Produce | Workload::EndToEnd => (self.end_offset(spot)?, None),
                    };
                    cursor.push(Cursor {
                        index: spot.partition,
                        place,
                        next,
                        again_from,
                    });
                }
                cursors.push(cursor);
            }
            for _ in 0..load.consumers {
                for cursor in &cursors {
                    let spot = &spots[cursor[0].place];
                    let (link, topic) = (spot.open()?, spot.topic.clone());
                    work.readers
                        .push(Reader::new(link, topic, cursor.clone(), load.bounds));
                }
            }
        }
        Ok(())
    }
}

impl Contender for Target {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn is_floor(&self) -> bool {
        false
    }

    fn jobs(&mut self, load: &Load, stop: &Stop) -> Result<Vec<Job>, Problem> {
        self.reach(load)?;
        let spots = self.spots(load.partitions);
        if load.workload == Workload::Fetch && self.filled_from.is_empty() {
            let ends = spots.iter().map(|spot| self.end_offset(spot));
            self.filled_from = ends.collect::<Result<_, _>>()?;
            fill(load, &spots, stop)?;
        }
        let answers = match load.acks {
            0 => Answers::Nobody,
            _ => Answers::Kafka,
        };
        let (until, connections) = match load.workload {
            Workload::Produce => (Until::Acknowledged, load.connections),
            Workload::EndToEnd => (Until::Delivered, load.connections),
            Workload::Fetch => (Until::Fetched, 0),
        };
        let users = &mut self.users;
        let mut identify = |spot: &Spot| match load.is_idempotent {
            true => {
                let (id, epoch) = users[spot.user].admin.producer_id()?;
                Ok(Some(Identity { id, epoch }))
            }
            false => Ok(None),
        };
        let producing = Load {
            connections,
            ..load.clone()
        };
        let mut works = works(&producing, &spots, answers, until, &mut identify)?;
        if load.workload != Workload::Produce {
            self.read(load, &spots, &mut works)?;
        }
        Ok(works.into_iter().map(job).collect())
    }

    fn watched(&self) -> Watched {
        let cpus = match (self.pid, self.settings.cpus.as_slice()) {
            // It is here, and may be on any of them.
            (Some(_), []) => pin::allowed(),
            (_, cpus) => cpus.to_vec(),
        };
        Watched {
            pid: self.pid,
            cpus,
            ..Watched::default()
        }
    }
}

/// What a thread does, as a job.
pub(super) fn job(work: Work) -> Job {
    Box::new(move |begin, timing, stops| work.run(begin, timing, stops))
}

/// The process behind a listener of this machine.
fn local_pid(addresses: &str) -> Option<u32> {
    let first: Address = addresses.split(',').next()?.trim().parse().ok()?;
    usage::listener_pid(first.port).filter(|_| first.is_here())
}
