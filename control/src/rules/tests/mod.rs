//! What edits make of a catalog, without any store.

mod catalog;
mod random;
mod shards;

use super::{check_room, decide};
use crate::catalog::floor::since_2020;
use crate::catalog::{
    CachePath, Consistency, Key, NamespacePath, Node, Quota, Record, State, StreamPath,
    StreamSettings, TenantName,
};
use crate::edit::{Opening, Reassignment};
use crate::limits::{EDIT_SHARDS_MAX, GRACE, GRACE_MAX, RECORDS_MAX};
use crate::refusal::{Conflict, Invalid, Limit};
use crate::{Change, Edit, EditId, Op, Proposal, Refusal, Version};
use felix_core::{BrokerId, Generation, ShardId, StreamId, Timestamp};
use std::time::Duration;

/// The first of December 2026.
const NOW: Timestamp = Timestamp(1_796_083_200_000);

/// A catalog and a clock.
struct Desk {
    state: State,
    now: Timestamp,
    edits: u128,
}

impl Desk {
    /// With tenant `t1`, its namespace `default`, and nothing in it.
    fn new() -> Self {
        let mut desk = Self {
            state: State::founded(NOW),
            now: NOW,
            edits: 0,
        };
        let edit = Edit::CreateTenant {
            name: tenant(),
            display_name: String::new(),
        };
        desk.make(edit).unwrap();
        desk
    }

    fn make(&mut self, edit: Edit) -> Result<Vec<Change>, Refusal> {
        self.edits += 1;
        let proposal = Proposal {
            id: EditId(self.edits),
            at: self.now,
            edit,
        };
        let steps = decide(&self.state, &proposal)?;
        let mut changes = Vec::new();
        for (op, record) in steps {
            let (sequence, edit) = (self.state.sequence().next(), proposal.id);
            let change = Change {
                sequence,
                at: self.now,
                edit,
                op,
                record,
            };
            self.state.apply(&change);
            changes.push(change);
        }
        Ok(changes)
    }

    fn refusal(&mut self, edit: Edit) -> Refusal {
        let before = self.state.sequence();
        let refusal = self.make(edit).unwrap_err();
        assert_eq!(
            self.state.sequence(),
            before,
            "a refused edit changes nothing"
        );
        assert!(!refusal.to_string().is_empty());
        refusal
    }

    fn create(&mut self, name: &str, id: u128) -> Result<Vec<Change>, Refusal> {
        let settings = StreamSettings {
            shards: 3,
            ..StreamSettings::default()
        };
        self.make(Edit::CreateStream {
            path: path(name),
            id: StreamId(id),
            settings,
        })
    }

    fn version(&self, name: &str) -> Version {
        self.state.stream_named(&path(name)).unwrap().0
    }

    fn floor_of(&self, name: &str) -> u32 {
        self.state
            .stream_named(&path(name))
            .unwrap()
            .1
            .generation_floor
            .get()
    }

    fn delete(&mut self, name: &str) -> Version {
        let based_on = self.version(name);
        self.make(Edit::DeleteStream {
            path: path(name),
            based_on,
            grace: GRACE,
        })
        .unwrap();
        Version::from(self.state.sequence())
    }

    fn wait(&mut self, time: Duration) {
        self.now.0 += i64::try_from(time.as_millis()).unwrap();
    }

    fn purge(&mut self, id: u128) -> Result<Vec<Change>, Refusal> {
        let id = StreamId(id);
        let (based_on, _) = self.state.stream(id).unwrap();
        self.make(Edit::PurgeStream {
            id,
            based_on,
            early: false,
        })
    }

    fn node(&mut self, id: u32) {
        let node = node(id, &format!("host-{id}:9092"));
        self.make(Edit::RegisterNode {
            node,
            based_on: None,
        })
        .unwrap();
    }

    fn lead(&mut self, id: u128, index: u32, leader: Option<u32>) -> Result<u32, Refusal> {
        let shard = shard(id, index);
        let known = self.state.assignment(shard);
        let based_on = known.map(|(version, _)| version);
        let leader = leader.map(BrokerId);
        self.make(Edit::AssignShards(vec![Reassignment {
            shard,
            leader,
            based_on,
        }]))?;
        Ok(self.state.assignment(shard).unwrap().1.generation.get())
    }
}

fn tenant() -> TenantName {
    TenantName::new("t1").unwrap()
}

fn namespace(name: &str) -> NamespacePath {
    NamespacePath::new("t1", name).unwrap()
}

fn path(name: &str) -> StreamPath {
    StreamPath::parse("t1", "default", name).unwrap()
}

fn shard(id: u128, index: u32) -> ShardId {
    ShardId {
        stream: StreamId(id),
        index,
    }
}

fn node(id: u32, kafka: &str) -> Node {
    Node {
        id: BrokerId(id),
        cores: 2,
        native: None,
        native_cores: Vec::new(),
        kafka: Some(kafka.parse().unwrap()),
        kafka_cores: Vec::new(),
        rack: None,
    }
}
