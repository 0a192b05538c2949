//! One offsets message at its owner core: from the marks of shards, or by searching their logs
//! without holding the core. What is heavy goes to the threads for that, one search at a time.

use crate::event::{Permit, step_aside};
use crate::log::{Found, LogError, Search, Searched, Wanted};
use crate::message::Offsets;
use crate::owner::Owner;
use crate::requester::Requester;
use crate::shard::Shard;
use crate::suspect::carry;
use felix_core::blocking;
use felix_core::shards::{OffsetAnswer, OffsetQuery, OffsetSpec};
use felix_core::{Offset, ShardError};
use std::rc::Rc;
use std::sync::Arc;

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
            OffsetSpec::EndOf(asked) => match shard.generation_end(asked)? {
                // What lies above the visible end is not shown: a control batch that begins a
                // generation, and records that are not committed.
                Some((found, end)) => (Some(end.min(marks.visible_end)), found),
                None => (None, marks.generation),
            },
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
        match self.search(query, wanted, requester).await {
            Ok(Some(answer)) => Some(Ok(answer)),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// `None`: nobody wants to know any more.
    async fn search(
        &self,
        query: OffsetQuery,
        wanted: Wanted,
        requester: &Requester<Offsets>,
    ) -> Result<Option<OffsetAnswer>, ShardError> {
        let shard = self.shard(query.shard)?;
        let permits = self.cold_read(&shard).await;
        if !requester.is_wanted() {
            return Ok(None);
        }
        let marks = self.shard(query.shard)?.marks(query.generation)?;
        let search = shard.search(wanted, marks.visible_end)?;
        let work = self.run_search(&shard, permits, search, requester);
        let result = Arc::clone(shard.suspect()).doing(work).await;
        // The shard may have failed, closed or changed its leader meanwhile.
        self.shard(query.shard)?.marks(Some(marks.generation))?;
        let found = result.map_err(|error| self.read_failed(&shard, &error))?;
        Ok(found.map(|found| match found {
            Some((offset, timestamp, generation)) => OffsetAnswer {
                found: Some((offset, Some(timestamp))),
                generation,
            },
            None => OffsetAnswer {
                found: None,
                generation: marks.generation,
            },
        }))
    }

    /// With permits for cold reads, which are given back while others do the work: whoever reads
    /// the shard does not wait for that. `None`: nobody wants to know any more.
    async fn run_search<'permit>(
        &'permit self,
        shard: &'permit Shard,
        mut permits: [Permit<'permit>; 2],
        mut search: Search,
        requester: &Requester<Offsets>,
    ) -> Result<Option<Option<Found>>, LogError> {
        loop {
            let batch = match search.step().await? {
                Searched::Done(found) => return Ok(Some(found)),
                Searched::Heavy(batch) => batch,
            };
            drop(permits);
            let holding = self.heavy_search(shard).await;
            // Each wait in line may have been a long one.
            if !requester.is_wanted() {
                return Ok(None);
            }
            permits = self.cold_read(shard).await;
            let look = batch.read().await?;
            drop(permits);
            let job = self.heavy_search_jobs().permit().await;
            if !requester.is_wanted() {
                return Ok(None);
            }
            let found = blocking::run(self.heavy(), carry(move || look.run())).await;
            drop((job, holding));
            if let Some(found) = search.looked(&batch, found)? {
                return Ok(Some(found));
            }
            permits = self.cold_read(shard).await;
        }
    }
}

/// What has to be searched for; `None` where the marks tell.
fn wanted(spec: OffsetSpec) -> Option<Wanted> {
    match spec {
        OffsetSpec::Earliest | OffsetSpec::Latest | OffsetSpec::EndOf(_) => None,
        OffsetSpec::MaxTimestamp => Some(Wanted::Greatest),
        OffsetSpec::AtOrAfter(timestamp) => Some(Wanted::AtOrAfter(timestamp)),
    }
}
