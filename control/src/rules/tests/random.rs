//! What holds whatever is done, by anybody, in any order, with a clock that jumps.

use super::*;
use std::collections::HashMap;

/// Few of everything, so that they meet.
const NAMES: [&str; 3] = ["a", "b", "c"];
const NODES: u32 = 2;
const EDITS: u32 = 3_000;

/// The state as it was some edits ago is where stale versions come from.
fn any_edit(desk: &Desk, seen: &State, random: &mut fastrand::Rng) -> Edit {
    let path = path(NAMES[random.usize(..NAMES.len())]);
    let (version, id) = match seen.stream_named(&path) {
        Some((version, stream)) => (version, stream.id),
        None => (Version::new(0), StreamId(7)),
    };
    let deleted: Vec<_> = seen
        .deleted_streams()
        .map(|(of, stream)| (of, stream.id))
        .collect();
    let (gone, gone_id) = *random.choice(&deleted).unwrap_or(&(version, id));
    let settings = StreamSettings {
        shards: random.u32(1..5),
        ..StreamSettings::default()
    };
    let shard = shard(id.0, random.u32(..4));
    match random.u8(..8) {
        0 => Edit::CreateStream {
            path,
            id: StreamId(u128::from(random.u32(..)) + 100),
            settings,
        },
        1 => Edit::AlterStream {
            path,
            based_on: version,
            settings,
        },
        2 => Edit::DeleteStream {
            path,
            based_on: version,
            grace: Duration::from_secs(random.u64(..100)),
        },
        3 => Edit::RestoreStream {
            id: gone_id,
            based_on: gone,
        },
        4 => Edit::PurgeStream {
            id: gone_id,
            based_on: gone,
            early: random.bool(),
        },
        5 => Edit::NoteGenerations {
            leader: BrokerId(random.u32(1..=NODES)),
            openings: vec![Opening {
                shard,
                generation: Generation::new(
                    desk.floor_now(shard).get() + random.u32(..4) * random.u32(..1000),
                ),
            }],
        },
        _ => Edit::AssignShards(vec![Reassignment {
            shard,
            leader: random.bool().then_some(BrokerId(random.u32(1..=NODES))),
            based_on: seen.assignment(shard).map(|(version, _)| version),
        }]),
    }
}

impl Desk {
    fn floor_now(&self, shard: ShardId) -> Generation {
        let known = self.state.assignment(shard);
        known.map_or(Generation::FIRST, |(_, of)| of.generation)
    }
}

/// What nobody may ever see otherwise.
#[derive(Default)]
struct Seen {
    /// The greatest generation under each name.
    generations: HashMap<StreamPath, Generation>,
    /// The name of each identity.
    names: HashMap<StreamId, StreamPath>,
}

impl Seen {
    fn look(&mut self, changes: &[Change], state: &State) {
        for change in changes {
            match &change.record {
                Record::Stream(stream) => {
                    let name = self
                        .names
                        .entry(stream.id)
                        .or_insert_with(|| stream.path.clone());
                    assert_eq!(*name, stream.path, "an identity is one stream's for good");
                    if change.op == Op::Created {
                        let seen = self.generations.get(&stream.path);
                        assert!(seen <= Some(&stream.generation_floor), "{change:?}");
                    }
                }
                Record::Assignment(of) => {
                    let (_, stream) = state.stream(of.shard.stream).unwrap();
                    assert!(of.generation >= stream.generation_floor);
                    let seen = self.generations.entry(stream.path.clone());
                    let seen = seen.or_insert(of.generation);
                    *seen = of.generation.max(*seen);
                }
                _ => {}
            }
        }
    }
}

/// What has to be right in every state.
fn check(state: &State) {
    let again = State::of(state.sequence(), state.entries().cloned());
    assert!(again.entries().eq(state.entries()));
    assert!(again.live_streams().eq(state.live_streams()));
    assert!(again.deleted_streams().eq(state.deleted_streams()));
    for (_, of) in state.assignments() {
        let (_, stream) = state
            .stream(of.shard.stream)
            .expect("no shard without its stream");
        assert!(stream.has(of.shard));
    }
    for (version, stream) in state.live_streams() {
        assert!(stream.is_live() && version.get() <= state.sequence().get());
        assert_eq!(state.stream_named(&stream.path).unwrap().1, stream);
    }
}

#[test]
fn whatever_is_done_generations_grow_names_are_unique_and_records_say_it_all() {
    let seed = std::env::var("FELIX_TESTS_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("FELIX_TESTS_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut desk = Desk::new();
    desk.node(1);
    desk.node(2);
    let (mut seen, mut before, mut made) = (Seen::default(), desk.state.clone(), 0);
    for _ in 0..EDITS {
        if random.u8(..10) == 0 {
            before = desk.state.clone();
        }
        let steps = i64::from(random.i32(-200_000..220_000));
        desk.now.0 += steps;
        let old = if random.u8(..4) == 0 {
            &before
        } else {
            &desk.state
        };
        let edit = any_edit(&desk, old, &mut random);
        if let Ok(changes) = desk.make(edit) {
            made += changes.len();
            seen.look(&changes, &desk.state);
            check(&desk.state);
        }
    }
    assert!(made > 100, "most of it was refused: {made}");
}
