//! One offsets message at its owner core: from the marks of shards, or by searching their logs
//! without holding the core.

use crate::event::step_aside;
use crate::log::Wanted;
use crate::message::Offsets;
use crate::owner::Owner;
use crate::requester::Requester;
use felix_core::shards::{OffsetAnswer, OffsetQuery, OffsetSpec};
use felix_core::{Offset, ShardError};
use std::rc::Rc;

/// Queries answered from marks in one go: more would hold the core for longer than a task may.
const MARKS_AT_ONCE_MAX: usize = 256;

impl Owner {
    /// Finds offsets; the answer goes to `requester` at once, or when logs have been searched.
    pub(crate) fn offsets(
        self: &Rc<Self>,
        queries: Vec<OffsetQuery>,
        requester: Requester<Offsets>,
    ) {
        let marks_tell = queries.iter().all(|query| wanted(query.spec).is_none());
        if marks_tell && queries.len() <= MARKS_AT_ONCE_MAX {
            requester.answer(queries.iter().map(|query| self.mark(*query)).collect());
            return;
        }
        requester.queued();
        let owner = Rc::clone(self);
        self.tasks().spawn("searches", async move {
            let mut found = Vec::with_capacity(queries.len());
            for query in queries {
                if found.len() % MARKS_AT_ONCE_MAX == MARKS_AT_ONCE_MAX - 1 {
                    step_aside().await;
                }
                // A search may wait in line for long: whoever asked may have gone.
                match owner.find(query, &requester).await {
                    Some(answer) => found.push(answer),
                    None => return owner.abandon(requester),
                }
            }
            requester.answer(found);
        });
    }

    /// The offset that the marks alone tell.
    fn mark(&self, query: OffsetQuery) -> Result<OffsetAnswer, ShardError> {
        let shard = self.shard(query.shard)?;
        let marks = shard.marks(query.generation)?;
        let (offset, generation): (Option<Offset>, _) = match query.spec {
            // Of the first record: a client compares it with what it reads there.
            OffsetSpec::Earliest => (Some(marks.log_start), shard.generation_at(marks.log_start)?),
            OffsetSpec::Latest => (Some(marks.visible_end), marks.generation),
            OffsetSpec::MaxTimestamp | OffsetSpec::AtOrAfter(_) => (None, marks.generation),
        };
        Ok(OffsetAnswer {
            found: offset.map(|offset| (offset, None)),
            generation,
        })
    }

    /// `None`: nobody wants to know any more.
    async fn find(
        &self,
        query: OffsetQuery,
        requester: &Requester<Offsets>,
    ) -> Option<Result<OffsetAnswer, ShardError>> {
        if !requester.is_wanted() {
            return None;
        }
        let Some(wanted) = wanted(query.spec) else {
            return Some(self.mark(query));
        };
        let shard = match self.shard(query.shard) {
            Ok(shard) => shard,
            Err(error) => return Some(Err(error)),
        };
        let _permits = self.cold_read(&shard).await;
        if !requester.is_wanted() {
            return None;
        }
        Some(self.search(query, wanted).await)
    }

    /// With a permit for cold reads.
    async fn search(&self, query: OffsetQuery, wanted: Wanted) -> Result<OffsetAnswer, ShardError> {
        let shard = self.shard(query.shard)?;
        let marks = shard.marks(query.generation)?;
        let search = shard.search(wanted, marks.visible_end)?;
        let result = search.run().await;
        // The shard may have failed, closed or changed its leader meanwhile.
        self.shard(query.shard)?.marks(Some(marks.generation))?;
        let found = result.map_err(|error| self.read_failed(&shard, &error))?;
        Ok(match found {
            Some((offset, timestamp, generation)) => OffsetAnswer {
                found: Some((offset, Some(timestamp))),
                generation,
            },
            None => OffsetAnswer {
                found: None,
                generation: marks.generation,
            },
        })
    }
}

/// What has to be searched for; `None` where the marks tell.
fn wanted(spec: OffsetSpec) -> Option<Wanted> {
    match spec {
        OffsetSpec::Earliest | OffsetSpec::Latest => None,
        OffsetSpec::MaxTimestamp => Some(Wanted::Greatest),
        OffsetSpec::AtOrAfter(timestamp) => Some(Wanted::AtOrAfter(timestamp)),
    }
}
