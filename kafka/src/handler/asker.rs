//! Who asks, and which shards are meant: found out in turns with other tasks, since a request may
//! name tens of thousands of partitions.

use super::Scope;
use super::plan::Plan;
use crate::codec::{ErrorCode, Topic};
use crate::context::Context;
use crate::topics::{Topics, check_cost};
use crate::turn::Turn;
use felix_core::{Action, Catalog, Principal, ShardId, Stream};
use std::collections::HashSet;
use std::rc::Rc;

/// What a topic, beside the grants that are looked at for it, and a partition cost of a turn, in
/// bytes.
const TOPIC_COST: usize = 64;
const PARTITION_COST: usize = 32;

/// What a handler keeps that goes on after its turn.
pub(super) struct Asker<S> {
    pub(super) context: Rc<Context<S>>,
    principal: Option<Principal>,
    turn: Turn,
}

/// What is meant by each partition of a topic, in the order asked.
pub(super) type Meant = Vec<Result<ShardId, ErrorCode>>;

impl<S> Asker<S> {
    /// Who asks in this scope.
    pub(super) fn of(scope: &Scope<'_, S>) -> Self {
        Self {
            context: Rc::clone(scope.context),
            principal: scope.session.principal.clone(),
            turn: scope.turn.clone(),
        }
    }

    /// The shards of `topics`, each a name and partition numbers, that the peer may do `action`
    /// with. A shard that the request names more than once, under whatever name, is refused every
    /// time: each mention costs as much as the first and none has a use, and clients look their
    /// answers up by partition, so that one answer would stand for all.
    pub(super) async fn meant<'t>(
        &self,
        action: Action,
        topics: impl Iterator<Item = (&'t str, impl Iterator<Item = i32>)>,
    ) -> Vec<Meant> {
        let catalog = self.context.catalog.current();
        let mut seen = HashSet::new();
        let mut repeated = HashSet::new();
        let mut meant = Vec::new();
        let topic_cost = TOPIC_COST + self.principal.as_ref().map_or(0, check_cost);
        for (topic, partitions) in topics {
            // Also for one that is named without partitions.
            self.turn.spend(topic_cost);
            self.turn.room().await;
            let access = self.access(&catalog, topic, action);
            let mut shards = Vec::new();
            for partition in partitions {
                let shard = access.shard(partition);
                if let Ok(shard) = shard
                    && !seen.insert(shard)
                {
                    repeated.insert(shard);
                }
                shards.push(shard);
                self.step().await;
            }
            meant.push(shards);
        }
        if repeated.is_empty() {
            return meant;
        }
        for shard in meant.iter_mut().flatten() {
            if shard.is_ok_and(|shard| repeated.contains(&shard)) {
                *shard = Err(ErrorCode::InvalidRequest);
            }
            self.step().await;
        }
        meant
    }

    /// What is asked of the shard of each partition by a peer that reads, in the order asked, and what
    /// is refused at once. `ask` makes what the plan keeps of a partition, and what its shard is asked.
    pub(super) async fn plan<P, A, Q, R>(
        &self,
        topics: &[Topic<'_, P>],
        index: fn(&P) -> i32,
        ask: impl Fn(ShardId, &P) -> Result<(A, Q), ErrorCode>,
        refuse: fn(i32, ErrorCode) -> R,
    ) -> (Plan<R, A>, Vec<Q>) {
        let named = (topics.iter()).map(|topic| (topic.name, topic.partitions.iter().map(index)));
        let meant = self.meant(Action::Subscribe, named).await;
        let mut plan = Plan::new();
        let mut questions = Vec::new();
        for (topic, meant) in topics.iter().zip(meant) {
            plan.topic(topic.name);
            self.step().await;
            for (partition, shard) in topic.partitions.iter().zip(meant) {
                let asked = shard.and_then(|shard| ask(shard, partition));
                plan.partition(match asked {
                    Ok((asked, question)) => {
                        questions.push(question);
                        Ok(asked)
                    }
                    Err(code) => Err(refuse(index(partition), code)),
                });
                self.step().await;
            }
        }
        (plan, questions)
    }

    /// One topic or partition is done with; lets others have their turn where there were many.
    pub(super) async fn step(&self) {
        self.turn.spend(PARTITION_COST);
        self.turn.room().await;
    }

    fn access<'c>(&self, catalog: &'c Catalog, topic: &str, action: Action) -> Access<'c> {
        let Some(principal) = &self.principal else {
            return Access::Refused(ErrorCode::TopicAuthorizationFailed);
        };
        let topics = Topics::new(&self.context, catalog, principal);
        match topics.by_name(topic) {
            None => Access::Refused(ErrorCode::UnknownTopicOrPartition),
            Some(stream) if topics.allows(action, stream) => Access::Granted(stream),
            Some(_) => Access::Refused(ErrorCode::TopicAuthorizationFailed),
        }
    }
}

/// Whether a topic may be used.
#[derive(Clone, Copy, Debug)]
enum Access<'c> {
    Granted(&'c Stream),
    Refused(ErrorCode),
}

impl Access<'_> {
    /// The shard of a partition number.
    fn shard(self, partition: i32) -> Result<ShardId, ErrorCode> {
        match self {
            Self::Granted(stream) => stream
                .shard(partition)
                .ok_or(ErrorCode::UnknownTopicOrPartition),
            Self::Refused(code) => Err(code),
        }
    }
}
