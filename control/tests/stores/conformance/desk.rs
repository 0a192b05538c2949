//! Somebody who works with a store.

use felix_control::catalog::{NamespacePath, Node, Stream, StreamPath, StreamSettings, TenantName};
use felix_control::edit::{Reassignment, draw_stream_id};
use felix_control::limits::GRACE;
use felix_control::{
    Change, CommitError, Committed, Edit, Page, Position, Proposal, Refusal, Snapshot, Store,
    Version,
};
use felix_core::{BrokerId, ShardId, StreamId, Timestamp};
use std::sync::Arc;

/// The first of December 2026.
pub(crate) const NOW: Timestamp = Timestamp(1_796_083_200_000);

/// Somebody who works with a store.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) now: Timestamp,
}

impl Desk {
    pub(crate) fn at(store: Arc<dyn Store>) -> Self {
        Self { store, now: NOW }
    }

    /// Makes the tenant that the cases work in.
    pub(crate) async fn with_tenant(self) -> Self {
        let name = TenantName::new("t1").unwrap();
        self.commit(Edit::CreateTenant {
            name,
            display_name: "One".into(),
        })
        .await;
        self
    }

    pub(crate) fn proposal(&self, edit: Edit) -> Proposal {
        Proposal::new(edit, self.now).unwrap()
    }

    pub(crate) async fn propose(&self, edit: Edit) -> Result<Committed, CommitError> {
        self.store.commit(self.proposal(edit)).await
    }

    pub(crate) async fn commit(&self, edit: Edit) -> Committed {
        self.propose(edit).await.expect("the edit can be made")
    }

    pub(crate) async fn refusal(&self, edit: Edit) -> Refusal {
        match self.propose(edit).await {
            Err(CommitError::Refused(refusal)) => refusal,
            other => panic!("it should have been refused: {other:?}"),
        }
    }

    pub(crate) async fn snapshot(&self) -> Snapshot {
        self.store.snapshot().await.expect("the store answers")
    }

    pub(crate) async fn stream(&self, name: &str) -> Option<(Version, Stream)> {
        let snapshot = self.snapshot().await;
        let found = snapshot.state.stream_named(&path(name));
        found.map(|(version, stream)| (version, stream.clone()))
    }

    pub(crate) async fn version(&self, name: &str) -> Version {
        self.stream(name).await.expect("the stream is there").0
    }

    /// Makes a stream of three shards.
    pub(crate) async fn create(&self, name: &str) -> StreamId {
        let (id, edit) = creation(name);
        self.commit(edit).await;
        id
    }

    /// Deletes it; the version of what can be restored.
    pub(crate) async fn delete(&self, name: &str) -> Version {
        let based_on = self.version(name).await;
        let edit = Edit::DeleteStream {
            path: path(name),
            based_on,
            grace: GRACE,
        };
        self.commit(edit).await.sequence.into()
    }

    pub(crate) async fn node(&self, id: u32) {
        let node = Node {
            id: BrokerId(id),
            cores: 2,
            native: Some(format!("host-{id}:5000").parse().unwrap()),
            native_cores: Vec::new(),
            kafka: Some(format!("host-{id}:9092").parse().unwrap()),
            kafka_cores: Vec::new(),
            rack: Some("r1".into()),
        };
        self.commit(Edit::RegisterNode {
            node,
            based_on: None,
        })
        .await;
    }

    /// Gives shard 0 of a stream a leader; its generation.
    pub(crate) async fn lead(&self, stream: StreamId, leader: u32) -> u32 {
        let shard = ShardId { stream, index: 0 };
        let known = |snapshot: &Snapshot| {
            let known = snapshot.state.assignment(shard);
            known.map(|(version, of)| (version, of.generation.get()))
        };
        let based_on = known(&self.snapshot().await).map(|(version, _)| version);
        let leader = Some(BrokerId(leader));
        let edit = Edit::AssignShards(vec![Reassignment {
            shard,
            leader,
            based_on,
        }]);
        self.commit(edit).await;
        known(&self.snapshot().await).expect("it is led").1
    }
}

pub(crate) fn path(name: &str) -> StreamPath {
    StreamPath::parse("t1", "default", name).unwrap()
}

pub(crate) fn namespace() -> NamespacePath {
    NamespacePath::new("t1", "default").unwrap()
}

/// What makes a stream of three shards, and its identity.
pub(crate) fn creation(name: &str) -> (StreamId, Edit) {
    let id = draw_stream_id().unwrap();
    let settings = StreamSettings {
        shards: 3,
        ..StreamSettings::default()
    };
    (
        id,
        Edit::CreateStream {
            path: path(name),
            id,
            settings,
        },
    )
}

/// All changes from a position up to another, page by page, waiting where there are none yet.
pub(crate) async fn follow(store: &dyn Store, from: Position, to: Position) -> Vec<Arc<Change>> {
    let mut at = from;
    let mut seen = Vec::new();
    while at.sequence < to.sequence {
        match store.changes(at, 7).await.expect("the store answers") {
            Page::Changes(changes) if changes.is_empty() => store.changed(at).await.unwrap(),
            Page::Changes(changes) => {
                for change in changes {
                    assert_eq!(change.sequence, at.sequence.next(), "no change is left out");
                    at.sequence = change.sequence;
                    seen.push(change);
                }
            }
            Page::StartOver => panic!("{at:?} has left the window"),
        }
    }
    seen
}
