//! One offsets message at its owner core: from the marks of shards, or by searching their logs
//! without holding the core.

use crate::log::Wanted;
use crate::message::Offsets;
use crate::owner::Owner;
use crate::requester::Requester;
use felix_core::shards::{OffsetAnswer, OffsetQuery, OffsetSpec};
use felix_core::{Offset, ShardError};
use std::rc::Rc;

impl Owner {
    /// Finds offsets; the answer goes to `requester` at once, or when logs have been searched.
    pub(crate) fn offsets(
        self: &Rc<Self>,
        queries: Vec<OffsetQuery>,
        requester: Requester<Offsets>,
    ) {
        if queries.iter().all(|query| wanted(query.spec).is_none()) {
            requester.answer(queries.iter().map(|query| self.mark(*query)).collect());
            return;
        }
        requester.queued();
        let owner = Rc::clone(self);
        self.tasks().spawn("searches", async move {
            let mut found = Vec::with_capacity(queries.len());
            for query in queries {
                found.push(owner.find(query).await);
            }
            requester.answer(found);
        });
    }

    /// The offset that the marks alone tell.
    fn mark(&self, query: OffsetQuery) -> Result<OffsetAnswer, ShardError> {
        let marks = self.shard(query.shard)?.marks(query.generation)?;
        let offset: Option<Offset> = match query.spec {
            OffsetSpec::Earliest => Some(marks.log_start),
            OffsetSpec::Latest => Some(marks.visible_end),
            OffsetSpec::MaxTimestamp | OffsetSpec::AtOrAfter(_) => None,
        };
        Ok(OffsetAnswer {
            found: offset.map(|offset| (offset, None)),
            generation: marks.generation,
        })
    }

    async fn find(&self, query: OffsetQuery) -> Result<OffsetAnswer, ShardError> {
        let Some(wanted) = wanted(query.spec) else {
            return self.mark(query);
        };
        let shard = self.shard(query.shard)?;
        let marks = shard.marks(query.generation)?;
        let search = shard.search(wanted, marks.visible_end)?;
        self.cold_reads().acquire().await;
        let result = search.run().await;
        self.cold_reads().release();
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
