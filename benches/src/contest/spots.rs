//! Partitions with their leaders, and the connections that a load opens to them.

use super::load::Load;
use crate::client::{Address, Security, Stream};
use crate::load::{
    Answers, Asker, Asking, Batches, Identity, Link, Pace, PartitionChooser, Place, Until, Work,
};
use crate::problem::Problem;

/// A partition, and how its leader is reached.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) leader: Address,
    pub(super) security: Security,
    /// Which of the users it is reached as.
    pub(super) user: usize,
}

impl Spot {
    pub(super) fn open(&self) -> Result<Link, Problem> {
        let stream = Stream::open(&self.leader.host, self.leader.port, &self.security)?;
        Ok(Link::new(stream))
    }

    fn is_reached_as(&self, other: &Self) -> bool {
        self.leader == other.leader && self.user == other.user
    }
}

/// What each thread does, without consumers: its connections that produce are open. `identify`
/// gives each an identity, if it is to have one.
pub(super) fn works(
    load: &Load,
    spots: &[Spot],
    answers: Answers,
    until: Until,
    identify: &mut dyn FnMut(&Spot) -> Result<Option<Identity>, Problem>,
) -> Result<Vec<Work>, Problem> {
    assert_eq!(spots.len(), load.partitions);
    let shares = load.shares()?;
    let threads = shares.len();
    let all: usize = shares.iter().map(Vec::len).sum();
    let mut works = Vec::new();
    for (number, (places, cpu)) in shares.iter().zip(&load.cpus).enumerate() {
        // Rounded so that all threads together open as many as were asked for.
        let part = |places_before: usize| load.connections * places_before / all;
        let before: usize = shares[..number].iter().map(Vec::len).sum();
        let connections = part(before + places.len()) - part(before);
        let mut seed = fastrand::Rng::with_seed(load.seed ^ number as u64);
        let mut askers = Vec::new();
        let divided = match load.connections {
            0 => Vec::new(),
            _ => divided(places, spots, connections),
        };
        for places in divided {
            let spot = &spots[places[0]];
            let chooser = PartitionChooser::new(&load.recipe.skew, &places, load.partitions);
            askers.push(Asker::new(spot.open()?, places, chooser, identify(spot)?));
        }
        // Threads that have the same partition share its part of the load.
        let sharing = shares.iter().filter(|others| *others == places).count();
        #[expect(clippy::cast_precision_loss, reason = "threads are few")]
        let (phase, sharing) = (number as f64 / threads as f64, sharing as f64);
        let part = load.recipe.share(places, load.partitions) / sharing;
        let rate = load
            .requests_per_second()
            .map(|rate| rate * part)
            .filter(|rate| *rate > 0.0);
        works.push(Work {
            cpu: *cpu,
            waiting: load.waiting,
            pace: rate.map(|rate| Pace::new(rate, load.arrivals, phase, seed.u64(..))),
            is_paced: load.rate.is_some(),
            asking: Asking {
                places: spots.iter().map(place).collect(),
                acks: load.acks,
                answers,
                until,
                in_flight_max: load.in_flight_max,
            },
            askers,
            readers: Vec::new(),
            sinks: Vec::new(),
            batches: Batches::make(&load.recipe, places, load.partitions, &mut seed)?,
            chooser: Some((
                places.clone(),
                PartitionChooser::new(&load.recipe.skew, places, load.partitions),
            )),
            random: seed,
        });
    }
    Ok(works)
}

fn place(spot: &Spot) -> Place {
    Place {
        topic: spot.topic.clone(),
        partition: spot.partition,
    }
}

/// Which places each of so many connections serves. All of a connection have one leader and one
/// user, and each place has a connection, so there may be more of them than asked for, or fewer
/// where they do not divide.
fn divided(places: &[usize], spots: &[Spot], connections: usize) -> Vec<Vec<usize>> {
    if connections >= places.len() {
        return (0..connections)
            .map(|number| vec![places[number % places.len()]])
            .collect();
    }
    let mut divided = Vec::new();
    for group in grouped(places, spots) {
        let count = (connections * group.len() / places.len()).max(1);
        divided.extend((0..count).map(|number| {
            group
                .iter()
                .copied()
                .skip(number)
                .step_by(count)
                .collect::<Vec<_>>()
        }));
    }
    divided
}

/// Places by leader and user.
pub(super) fn grouped(places: &[usize], spots: &[Spot]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for place in places {
        let is_like = |group: &&mut Vec<usize>| spots[group[0]].is_reached_as(&spots[*place]);
        match groups.iter_mut().find(is_like) {
            Some(group) => group.push(*place),
            None => groups.push(vec![*place]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spots(leaders: &[u16]) -> Vec<Spot> {
        let spot = |port: &u16| Spot {
            topic: "t".to_owned(),
            partition: 0,
            leader: Address {
                host: "localhost".to_owned(),
                port: *port,
            },
            security: Security::default(),
            user: 0,
        };
        leaders.iter().map(spot).collect()
    }

    #[test]
    fn each_place_has_a_connection_to_its_leader() {
        let spots = spots(&[1, 2, 1, 2, 1]);
        let all = [0, 1, 2, 3, 4];
        assert_eq!(divided(&all, &spots, 1), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(divided(&all, &spots, 4), [vec![0, 4], vec![2], vec![1, 3]]);
        assert_eq!(divided(&all, &spots, 6).len(), 6);
        assert_eq!(divided(&[1], &spots, 3), [vec![1], vec![1], vec![1]]);
    }
}
