//! What happens once, before the load: it waits for every answer.

use super::answer::{Described, Refusal};
use super::api::{Served, check_served};
use super::exchange::Exchange;
use super::request::NewTopic;
use super::{Address, Api, Leader, Problem, Security, Stream, Topic, answer, error_code, request};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than a healthy broker takes for any of it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Longer than a healthy cluster takes to choose leaders.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);

/// What a cluster comes to by itself can only be asked for, not awaited.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Kafka's own bound.
const TOPIC_NAME_BYTES_MAX: usize = 249;

/// Asks a broker, and those it names, one question after the other.
#[derive(Debug)]
pub struct Admin {
    security: Security,
    /// The one we were told of.
    first: Address,
    /// One to each broker that was asked.
    exchanges: Vec<Exchange>,
    served: Vec<Served>,
}

impl Admin {
    /// Connects to the first of `addresses` (`host:port`, separated by commas) that answers, and
    /// asks what it serves.
    ///
    /// # Errors
    /// None of them answers; the reason is that of the last one.
    pub fn connect(addresses: &str, security: &Security) -> Result<Self, Problem> {
        let mut last = Problem::new("no address of a broker was given");
        for address in addresses.split(',') {
            match Self::connect_one(address.trim().parse()?, security) {
                Ok(admin) => return Ok(admin),
                Err(problem) => last = problem,
            }
        }
        Err(last)
    }

    fn connect_one(address: Address, security: &Security) -> Result<Self, Problem> {
        let mut admin = Self {
            security: security.clone(),
            first: address.clone(),
            exchanges: Vec::new(),
            served: Vec::new(),
        };
        let frame = admin.ask(&address, Api::ApiVersions, request::api_versions)?;
        admin.served = answer::versions(frame)?.map_err(|refusal| {
            Problem::new(format!(
                "{address} does not say what it serves: {}",
                refusal.told()
            ))
        })?;
        Ok(admin)
    }

    /// Fails with a sentence unless the broker serves all that a measurement needs.
    ///
    /// # Errors
    /// What it lacks.
    pub fn check_apis(&self) -> Result<(), Problem> {
        let mut needed = Api::NEEDED.into_iter();
        needed
            .try_for_each(|api| check_served(api, &self.served))
            .map_err(|problem| self.about(&problem))
    }

    /// A topic of at least that many partitions, as soon as all of them have leaders. Where it is
    /// missing and `may_create`, it is made, each partition with that many replicas (-1: the
    /// broker's default).
    ///
    /// # Errors
    /// It is missing and may not or cannot be made, has too few partitions, or gets no leaders.
    pub fn topic(
        &mut self,
        name: &str,
        partitions_wanted: i32,
        may_create: bool,
        replication: i16,
    ) -> Result<Topic, Problem> {
        check_name(name)?;
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        let mut is_created = false;
        loop {
            let described = self.describe(name)?;
            if described.error == error_code::UNKNOWN_TOPIC_OR_PARTITION && !is_created {
                let topic = NewTopic {
                    name,
                    partitions: partitions_wanted,
                    replication,
                };
                self.create(topic, may_create, &described)?;
                is_created = true;
            } else if described.error == 0 || is_transient(described.error) {
                if let Some(topic) = with_leaders(name, &described, partitions_wanted)? {
                    if is_created {
                        self.await_open(&topic)?;
                    }
                    return Ok(topic);
                }
            } else {
                return Err(self.about(&format!(
                    "says of topic `{name}`: {}",
                    super::error_name(described.error)
                )));
            }
            if Instant::now() >= deadline {
                return Err(self.about(&format!(
                    "names no leader for {} within {SETTLE_TIMEOUT:?}; look at the broker's log",
                    leaderless(name, &described)
                )));
            }
            thread::sleep(ASK_AGAIN);
        }
    }

    /// Drops a topic.
    ///
    /// # Errors
    /// The broker does not serve it, or says no.
    pub fn delete_topic(&mut self, name: &str) -> Result<(), Problem> {
        check_name(name)?;
        check_served(Api::DeleteTopics, &self.served).map_err(|problem| self.about(&problem))?;
        let described = self.describe(name)?;
        let controller = self.controller(&described);
        let frame = self.ask(&controller, Api::DeleteTopics, |out, correlation| {
            request::delete_topic(out, correlation, name, millis(ANSWER_TIMEOUT));
        })?;
        answer::deleted(frame)?.map_err(|refusal| {
            self.about(&format!("did not drop topic `{name}`: {}", refusal.told()))
        })
    }

    /// The offset that the partition's next record gets, as its leader knows it.
    ///
    /// # Errors
    /// The leader says no, or not in time.
    pub fn end_offset(&mut self, topic: &str, leader: &Leader) -> Result<i64, Problem> {
        let address = Address {
            host: leader.host.clone(),
            port: leader.port,
        };
        let index = leader.index;
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        loop {
            let frame = self.ask(&address, Api::ListOffsets, |out, correlation| {
                request::list_end(out, correlation, topic, index);
            })?;
            match answer::end_offset(frame)? {
                Ok(offset) => return Ok(offset),
                Err(refusal) if is_transient(refusal.error) && Instant::now() < deadline => {
                    thread::sleep(ASK_AGAIN);
                }
                Err(refusal) => {
                    return Err(Problem::new(format!(
                        "{address} does not tell the end of partition {index} of `{topic}`: {}",
                        refusal.told()
                    )));
                }
            }
        }
    }

    /// Id and epoch for an idempotent producer.
    ///
    /// # Errors
    /// The broker has none to give, which the sentence says.
    pub fn producer_id(&mut self) -> Result<(i64, i16), Problem> {
        let address = self.first.clone();
        check_served(Api::InitProducerId, &self.served).map_err(|problem| self.about(&problem))?;
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        loop {
            let frame = self.ask(&address, Api::InitProducerId, request::init_producer_id)?;
            match answer::producer_id(frame)? {
                Ok(given) => return Ok(given),
                Err(refusal) if is_transient(refusal.error) && Instant::now() < deadline => {
                    thread::sleep(ASK_AGAIN);
                }
                Err(refusal) => return Err(self.about(&no_producer_id(&refusal))),
            }
        }
    }

    fn describe(&mut self, topic: &str) -> Result<Described, Problem> {
        let address = self.first.clone();
        let frame = self.ask(&address, Api::Metadata, |out, correlation| {
            request::metadata(out, correlation, topic);
        })?;
        answer::metadata(frame)
    }

    fn create(
        &mut self,
        topic: NewTopic<'_>,
        may_create: bool,
        described: &Described,
    ) -> Result<(), Problem> {
        let name = topic.name;
        if check_served(Api::CreateTopics, &self.served).is_err() {
            return Err(self.about(&format!(
                "has no topic `{name}` and makes none on request; add it where the broker's \
                 topics are listed (of Felix: the file of FELIX_CATALOG_FILE, where \
                 `<namespace>.<name>` is a [[stream]])"
            )));
        }
        if !may_create {
            return Err(self.about(&format!(
                "has no topic `{name}`, and felix-bench was not allowed to make it; make it, or \
                 allow it"
            )));
        }
        let controller = self.controller(described);
        let frame = self.ask(&controller, Api::CreateTopics, |out, correlation| {
            request::create_topic(out, correlation, topic, millis(ANSWER_TIMEOUT));
        })?;
        match answer::created(frame)? {
            Ok(()) => Ok(()),
            // Somebody else was faster.
            Err(refusal) if refusal.error == error_code::TOPIC_ALREADY_EXISTS => Ok(()),
            Err(refusal) => Err(Problem::new(format!(
                "{controller} did not make topic `{name}`: {}",
                refusal.told()
            ))),
        }
    }

    /// Whether a leader has opened its partition shows when it is asked about it.
    fn await_open(&mut self, topic: &Topic) -> Result<(), Problem> {
        topic
            .partitions
            .iter()
            .try_for_each(|leader| self.end_offset(&topic.name, leader).map(|_| ()))
    }

    /// Who makes and drops topics, or else the one we know.
    fn controller(&self, described: &Described) -> Address {
        let mut brokers = described.brokers.iter();
        let found = brokers.find(|(id, _)| *id == described.controller);
        found.map_or_else(|| self.first.clone(), |(_, address)| address.clone())
    }

    fn ask(
        &mut self,
        address: &Address,
        api: Api,
        write: impl FnOnce(&mut Vec<u8>, i32),
    ) -> Result<&[u8], Problem> {
        let known = self
            .exchanges
            .iter()
            .position(|exchange| exchange.address() == address);
        let place = match known {
            Some(place) => place,
            None => {
                let stream = Stream::open(&address.host, address.port, &self.security)?;
                self.exchanges.push(Exchange::new(stream, address.clone()));
                self.exchanges.len() - 1
            }
        };
        let exchange = self.exchanges.get_mut(place).expect("found or added above");
        exchange.ask(api, Instant::now() + ANSWER_TIMEOUT, write)
    }

    fn about(&self, what: &dyn std::fmt::Display) -> Problem {
        Problem::new(format!("{}: {what}", self.first))
    }
}

fn check_name(name: &str) -> Result<(), Problem> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_topic = (1..=TOPIC_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(is_allowed)
        && name != "."
        && name != "..";
    if is_topic {
        return Ok(());
    }
    Err(Problem::new(format!(
        "`{name}` is no name of a topic: letters, digits, dots, underscores and hyphens are, at \
         most {TOPIC_NAME_BYTES_MAX} of them"
    )))
}

/// The topic, if every partition has a leader whose address is known.
fn with_leaders(
    name: &str,
    described: &Described,
    partitions_wanted: i32,
) -> Result<Option<Topic>, Problem> {
    let mut partitions = Vec::new();
    for partition in &described.partitions {
        let mut brokers = described.brokers.iter();
        let Some((_, address)) = brokers.find(|(id, _)| *id == partition.leader) else {
            return Ok(None);
        };
        partitions.push(Leader {
            index: partition.index,
            host: address.host.clone(),
            port: address.port,
        });
    }
    if partitions.is_empty() {
        return Ok(None);
    }
    let present = partitions.len();
    if i32::try_from(present).is_ok_and(|present| present < partitions_wanted) {
        return Err(Problem::new(format!(
            "topic `{name}` has {present} partitions, and {partitions_wanted} were asked for; ask \
             for fewer, or name another topic"
        )));
    }
    partitions.sort_unstable_by_key(|leader| leader.index);
    Ok(Some(Topic {
        name: name.to_owned(),
        partitions,
    }))
}

fn leaderless(name: &str, described: &Described) -> String {
    let mut partitions = described.partitions.iter();
    match partitions.find(|partition| partition.leader < 0 || partition.error != 0) {
        Some(partition) => format!(
            "partition {} of topic `{name}` ({})",
            partition.index,
            super::error_name(partition.error)
        ),
        None => format!("topic `{name}` ({})", super::error_name(described.error)),
    }
}

fn no_producer_id(refusal: &Refusal) -> String {
    let told = refusal.told();
    if refusal.error == error_code::CLUSTER_AUTHORIZATION_FAILED {
        format!(
            "gave no producer id: {told}; it wants somebody who is authenticated, or a permission \
             for them; measure without idempotence"
        )
    } else {
        format!("gave no producer id: {told}; measure without idempotence")
    }
}

/// Whether waiting is all that is needed.
const fn is_transient(error: i16) -> bool {
    matches!(
        error,
        error_code::UNKNOWN_TOPIC_OR_PARTITION
            | error_code::LEADER_NOT_AVAILABLE
            | error_code::NOT_LEADER_OR_FOLLOWER
            | error_code::COORDINATOR_LOAD_IN_PROGRESS
            | error_code::COORDINATOR_NOT_AVAILABLE
            | error_code::OFFSET_NOT_AVAILABLE
    )
}

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).expect("timeouts are seconds")
}
