//! Who takes turns in `felix-bench run`: brokers, and the floor.

use super::security::securities;
use super::value::{self, chosen};
use crate::client::Address;
use crate::contest::{Contender, Floored, Load, Target, TargetSettings, Workload};
use crate::floor::{FloorKind, FloorSettings};
use crate::pin;
use crate::problem::Problem;
use clap::{Arg, ArgAction, ArgMatches};

/// The arguments for it.
pub(super) fn arguments() -> Vec<Arg> {
    vec![
        Arg::new("target")
            .long("target")
            .value_name("[NAME=]HOST:PORT,...[/TOPIC]")
            .action(ArgAction::Append)
            .help(
                "A broker; several with names of their own take turns, such as two brokers, or one \
                 with two topics; without one the floor is measured alone",
            ),
        Arg::new("topic")
            .long("topic")
            .value_name("NAME")
            .default_value("felix-bench")
            .help(
                "The topic, which is made where it is missing and the broker allows it; of Felix \
                   it is NAMESPACE.STREAM and must exist; {user} stands for the user's name",
            ),
        Arg::new("no-create")
            .long("no-create")
            .action(ArgAction::SetTrue)
            .help("Makes no topic"),
        Arg::new("replication")
            .long("replication")
            .value_name("N")
            .value_parser(value::number(1, 1000))
            .help("Replicas of a topic that is made; default: as the broker likes"),
        Arg::new("pid")
            .long("pid")
            .value_name("N")
            .value_parser(value::number(1, u64::from(u32::MAX)))
            .help(
                "The broker's process, whose processor time and memory are shown; default: whoever \
                   listens, if that is here",
            ),
    ]
}

/// The arguments for the floor.
pub(super) fn floor_arguments() -> Vec<Arg> {
    vec![
        Arg::new("floor")
            .long("floor")
            .value_name("WHAT")
            .default_value("auto")
            .help(
                "auto: a floor beside us if the broker is on this machine; none; or HOST:PORT of \
                   a `felix-bench floor` on the broker's machine",
            ),
        Arg::new("floor-kind")
            .long("floor-kind")
            .value_name("KIND")
            .default_value("echo")
            .value_parser(["echo", "loop-echo"])
            .help(
                "The floor of everything but fetch, whose floor is send; see `felix-bench floor`",
            ),
        Arg::new("floor-cpu")
            .long("floor-cpu")
            .value_name("N")
            .value_parser(value::number(0, 4095))
            .help(
                "The processor of the floor, which should be the broker's; default: the first \
                   that is allowed and not the client's",
            ),
        Arg::new("floor-spin-us")
            .long("floor-spin-us")
            .value_name("US")
            .default_value("0")
            .value_parser(value::number(0, 1_000_000))
            .help("How long the floor looks for more before it sleeps; as the broker does"),
    ]
}

/// Who takes turns.
#[derive(Debug)]
pub(super) struct Sides {
    targets: Vec<Target>,
    floor: Floor,
    floor_kind: FloorKind,
    running: Option<Floored>,
}

#[derive(Debug)]
enum Floor {
    None,
    Here { cpu: usize, spin_us: u64 },
    At(Address),
}

impl Sides {
    pub(super) fn of(matches: &ArgMatches, load: &Load) -> Result<Self, Problem> {
        let securities = securities(matches)?;
        if securities.len() > load.partitions {
            return Err(Problem::new(format!(
                "{} users need as many --partitions, since they take turns",
                securities.len()
            )));
        }
        let texts: Vec<&String> = matches.get_many("target").into_iter().flatten().collect();
        let mut targets: Vec<Target> = Vec::new();
        for text in &texts {
            let (name, addresses) = match text.split_once('=') {
                Some((name, addresses)) => (name, addresses),
                None => ("broker", text.as_str()),
            };
            if name.is_empty() || FloorKind::of(name).is_some() {
                return Err(Problem::new(format!(
                    "{text:?} needs a name of its own that is no floor's, as in felix=HOST:PORT"
                )));
            }
            let (addresses, topic) = match addresses.split_once('/') {
                Some((addresses, topic)) => (addresses, topic),
                None => (addresses, chosen::<String>(matches, "topic").as_str()),
            };
            for address in addresses.split(',') {
                address.trim().parse::<Address>()?;
            }
            if targets.iter().any(|target| target.name() == name) {
                return Err(Problem::new(format!(
                    "two targets are called {name}; call them --target a=HOST:PORT --target b=..."
                )));
            }
            let replication = matches.get_one::<u64>("replication");
            let pid = matches.get_one::<u64>("pid").filter(|_| texts.len() == 1);
            targets.push(Target::new(TargetSettings {
                name: name.to_owned(),
                addresses: addresses.to_owned(),
                securities: securities.clone(),
                topic: topic.to_owned(),
                may_create: !matches.get_flag("no-create"),
                replication: replication.map_or(-1, |n| i16::try_from(*n).unwrap_or(i16::MAX)),
                pid: pid.and_then(|pid| u32::try_from(*pid).ok()),
                cpus: Vec::new(),
            }));
        }
        let floor = floor(matches, load, &targets)?;
        if targets.is_empty() && (matches!(floor, Floor::None) || load.acks == 0) {
            return Err(Problem::new(
                "there is nobody to measure; name a broker with --target HOST:PORT, or leave the \
                 floor its --acks, a processor and --floor auto",
            ));
        }
        Ok(Self {
            targets,
            floor,
            floor_kind: match chosen::<String>(matches, "floor-kind").as_str() {
                "loop-echo" => FloorKind::LoopEcho,
                _ => FloorKind::Echo,
            },
            running: None,
        })
    }

    /// Reaches the brokers, so that what is wrong with one is told before others are measured.
    pub(super) fn reach(&mut self, load: &Load) -> Result<(), Problem> {
        self.targets
            .iter_mut()
            .try_for_each(|target| target.reach(load))
    }

    /// Floor first.
    pub(super) fn contenders(&mut self, load: &Load) -> Result<Vec<&mut dyn Contender>, Problem> {
        let kind = match load.workload {
            Workload::Fetch => FloorKind::Send,
            Workload::Produce | Workload::EndToEnd => self.floor_kind,
        };
        let topic = self.targets.first().map_or(1, Target::topic_bytes);
        let topic = "t".repeat(topic);
        let can_answer = load.acks != 0;
        match &self.floor {
            _ if self.running.is_some() || !can_answer => {}
            Floor::None => {}
            Floor::Here { cpu, spin_us } => {
                let settings = FloorSettings {
                    cpu: *cpu,
                    spin_us: *spin_us,
                    answer_bytes: load.answer_bytes(&topic)?,
                    ..FloorSettings::default()
                };
                self.running = Some(Floored::start(kind.word(), kind, &settings, topic.len())?);
            }
            Floor::At(address) => {
                let (address, topic) = (address.clone(), topic.len());
                self.running = Some(Floored::at(kind, address, topic, load)?);
            }
        }
        let floor = self
            .running
            .iter_mut()
            .map(|floor| -> &mut dyn Contender { floor });
        let targets = self
            .targets
            .iter_mut()
            .map(|target| -> &mut dyn Contender { target });
        Ok(floor.chain(targets).collect())
    }
}

fn floor(matches: &ArgMatches, load: &Load, targets: &[Target]) -> Result<Floor, Problem> {
    let spin_us = *matches
        .get_one::<u64>("floor-spin-us")
        .expect("it has a default");
    let wanted = matches
        .get_one::<String>("floor")
        .expect("it has a default");
    match wanted.as_str() {
        "none" => Ok(Floor::None),
        "auto" => {
            let is_here = targets.iter().all(|target| target.watched().pid.is_some());
            let others = pin::allowed()
                .into_iter()
                .find(|cpu| !load.cpus.contains(cpu));
            let asked = matches.get_one::<u64>("floor-cpu");
            let asked = asked.and_then(|cpu| usize::try_from(*cpu).ok());
            match (is_here, asked.or(others)) {
                (true, Some(cpu)) => {
                    pin::check(cpu)?;
                    Ok(Floor::Here { cpu, spin_us })
                }
                _ => Ok(Floor::None),
            }
        }
        address => Ok(Floor::At(address.parse()?)),
    }
}
