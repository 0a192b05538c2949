//! What clients of a story do.

use super::story::{PRODUCERS, Story};
use crate::log::ApplyError;
use crate::tests::batches;
use crate::{Core, Router, runtime};
use bytes::BytesMut;
use felix_core::batch::Place;
use felix_core::shards::{Acks, Append, Appended};
use felix_core::{Monotonic, Offset, ShardError, Shards, Timestamps, placement};
use futures_util::future::join_all;
use std::rc::Rc;
use std::time::Duration;

impl Story {
    /// Appends, reads and rests for a while.
    pub(super) async fn client(&self, router: Router, cores: Rc<Vec<Core>>) {
        let steps = self.simulation.draw(|random| random.u32(1..30));
        for _ in 0..steps {
            let index = self
                .simulation
                .draw(|random| random.usize(..self.shards.len()));
            match self.simulation.draw(|random| random.u8(..9)) {
                0 => {
                    // Sometimes so long that a shard that failed is opened again.
                    let has_failed = self.generation(&router, index).is_none();
                    let of = if has_failed { 2 } else { 8 };
                    let pause = self.simulation.draw(|random| match random.u8(..of) {
                        0 => random.u64(..1_500_000),
                        _ => random.u64(..4000),
                    });
                    runtime::sleep(Duration::from_micros(pause)).await;
                }
                1 | 2 => self.look(&router, index).await,
                3 | 4 => self.produce(&router, &cores, index).await,
                5 => self.follow(&router, &cores, index),
                _ => self.append(&router, index).await,
            }
        }
    }

    async fn append(&self, router: &Router, index: usize) {
        let wait = self
            .simulation
            .draw(|random| (random.u8(..4) == 0).then(|| random.u64(..30)));
        let now = Monotonic(self.simulation.now());
        let deadline = wait.map(|wait| now.after(Duration::from_millis(wait)));
        let answer = self.append_until(router, index, deadline).await;
        // Some clients have several requests in flight.
        if self.simulation.draw(fastrand::Rng::bool) {
            answer.await;
        } else {
            runtime::spawn_local(answer).detach();
        }
    }

    /// Sends a batch. Its answer is then to be awaited.
    pub(super) async fn append_until(
        &self,
        router: &Router,
        index: usize,
        deadline: Option<Monotonic>,
    ) -> impl Future<Output = ()> + use<> + 'static {
        let (id, batch) = self.simulation.draw(|random| {
            let mut model = self.models[index].borrow_mut();
            model.send(random, self.wall(), |_| None)
        });
        let shard = self.shards[index];
        let acks = match self.simulation.draw(fastrand::Rng::bool) {
            true => Acks::All,
            false => Acks::Leader,
        };
        let appends = vec![Append { shard, batch }];
        let committed = router.append_until(appends, acks, deadline).await;
        let story = self.clone();
        async move {
            let answer = committed.await.remove(0);
            story.say(|| format!("shard {index}, batch {id}: {answer:?}"));
            let mut model = story.models[index].borrow_mut();
            match answer {
                Ok(appended) => model.acknowledged(id, &appended, story.simulation.now()),
                Err(error) => {
                    if let ShardError::NoRoomInTime | ShardError::DiskFull { .. } = &error {
                        model.refused(id);
                    }
                    drop(model);
                    story.failed(index, &error);
                }
            }
        }
    }

    /// An idempotent producer sends what was not answered, and more, several batches at once. Sometimes
    /// it sends what was answered again, as if the answers had not reached it.
    async fn produce(&self, router: &Router, cores: &[Core], index: usize) {
        let number = self.simulation.draw(|random| random.usize(..PRODUCERS));
        let producer = &self.producers[index][number];
        let model = &self.models[index];
        let repeats = self.simulation.draw(|random| match random.u8(..8) {
            0 => usize::MAX,
            1 | 2 => random.usize(1..5),
            _ => 0,
        });
        let Some(again) = producer.borrow_mut().begin(repeats) else {
            return;
        };
        let mut sent: Vec<_> = again
            .into_iter()
            .map(|id| {
                let mut model = model.borrow_mut();
                (id, model.promised(id), model.send_again(id))
            })
            .collect();
        let more = self.simulation.draw(|random| match random.u8(..8) {
            0 => random.usize(..16),
            _ => random.usize(..3),
        });
        for _ in 0..more {
            let place = |records| Some(producer.borrow_mut().place(records));
            let (id, batch) = self
                .simulation
                .draw(|random| model.borrow_mut().send(random, self.wall(), place));
            // Another log may have had no more than its first records. Those would be there before
            // what is sent again, whose places may be the last that are remembered.
            let is_cut = sent.is_empty() && producer.borrow().is_in_step();
            let has_head = is_cut
                && self.simulation.draw(fastrand::Rng::bool)
                && self.place_head(router, cores, index, id);
            producer.borrow_mut().sends(id, has_head);
            sent.push((id, None, batch));
        }
        let shard = self.shards[index];
        let mut answers = Vec::new();
        for (id, promised, batch) in sent {
            let committed = router
                .append(vec![Append { shard, batch }], Acks::All)
                .await;
            answers.push(async move { (id, promised, committed.await.remove(0)) });
        }
        let mut outcomes = Vec::new();
        for (id, promised, answer) in join_all(answers).await {
            self.say(|| format!("shard {index}, produced batch {id}: {answer:?}"));
            if let Ok(appended) = &answer {
                let now = self.simulation.now();
                model.borrow_mut().acknowledged(id, appended, now);
            }
            if let Some(promised) = promised {
                self.repeated(router, index, promised, &answer).await;
            }
            if let Err(error) = &answer {
                self.failed(index, error);
            }
            outcomes.push((id, answer.map(|_| ())));
        }
        producer.borrow_mut().answered(&outcomes);
    }

    /// Places the first records of a batch that is about to be sent. Whether there are any.
    fn place_head(&self, router: &Router, cores: &[Core], index: usize, id: u64) -> bool {
        let model = &self.models[index];
        let head = self
            .simulation
            .draw(|random| model.borrow_mut().head(random, id));
        self.place(router, cores, index, head.as_slice());
        head.is_some()
    }

    /// The shard follows another log for a moment.
    fn follow(&self, router: &Router, cores: &[Core], index: usize) {
        let count = self.simulation.draw(|random| random.usize(1..=3));
        let send = |_| {
            let mut model = self.models[index].borrow_mut();
            let sent = self
                .simulation
                .draw(|random| model.send(random, self.wall(), |_| None));
            sent.0
        };
        let batches: Vec<u64> = (0..count).map(send).collect();
        self.place(router, cores, index, &batches);
    }

    /// Places batches at the end of the log, as if they came from another one.
    fn place(&self, router: &Router, cores: &[Core], index: usize, batches: &[u64]) {
        let shard = self.shards[index];
        let owner = placement::owner(shard, self.rig.cores);
        let core = &cores[usize::from(owner.0)];
        let now = self.simulation.now();
        let mut model = self.models[index].borrow_mut();
        let Some(generation) = self.generation(router, index) else {
            batches.iter().for_each(|id| model.refused(*id));
            return;
        };
        let mut end = model.span().1;
        for _ in 0..2 {
            let mut bytes = BytesMut::new();
            let mut placed = Vec::new();
            for id in batches {
                let base_offset = placed.last().map_or(end, |(_, _, next)| *next);
                let batch = model.sent(*id).place(Place {
                    base_offset,
                    generation,
                    append_time: (self.rig.timestamps == Timestamps::Append).then(|| self.wall()),
                });
                bytes.extend_from_slice(batch.bytes());
                placed.push((*id, base_offset, batch.next_offset()));
            }
            let applied = core.apply(shard, bytes.freeze());
            self.say(|| format!("shard {index}, placed batches {placed:?}: {applied:?}"));
            match applied {
                Ok(reached) => {
                    for (id, offset, next) in placed {
                        if next <= reached {
                            model.placed(id, offset, true, now);
                        } else {
                            model.refused(id);
                        }
                    }
                    return;
                }
                Err(ApplyError::Gap { owed, .. }) => end = owed,
                Err(ApplyError::Log(error)) if !error.is_full() => {
                    for (id, offset, _) in placed {
                        model.placed(id, offset, false, now);
                    }
                    return;
                }
                Err(_) => break,
            }
        }
        batches.iter().for_each(|id| model.refused(*id));
    }

    /// A batch that was promised to be at that offset was sent again. It is the last but few of its
    /// producer, who is known as long as one record is.
    async fn repeated(
        &self,
        router: &Router,
        index: usize,
        promised: Offset,
        answer: &Result<Appended, ShardError>,
    ) {
        match answer {
            Ok(appended) => {
                let is_forgotten = promised < appended.log_start;
                let is_repeated = appended.base_offset == promised;
                assert!(is_repeated || is_forgotten, "it was promised at {promised}");
                self.told.borrow_mut().repeated += u64::from(is_repeated);
            }
            Err(ShardError::UnknownProducer { log_start }) => {
                assert!(*log_start > promised, "who wrote at {promised} is known");
            }
            Err(
                error @ (ShardError::OutOfOrderSequence { .. }
                | ShardError::OldProducerEpoch { .. }
                | ShardError::DuplicateSequence),
            ) => {
                let start = self.earliest(router, index).await;
                let is_deleted = start.is_none_or(|start| start > promised);
                assert!(is_deleted, "{error}, though it is at {promised}");
            }
            // It may be asked again.
            Err(_) => {}
        }
    }

    async fn look(&self, router: &Router, index: usize) {
        let known = self.models[index].borrow().span();
        let from = self
            .simulation
            .draw(|random| random.u64(known.0.get()..=known.1.get()));
        let from = Offset::new(from);
        match self.read(router, index, from).await {
            Ok(fetched) => {
                let mut model = self.models[index].borrow_mut();
                model.bounds(known, (fetched.log_start, fetched.visible_end));
                model.shown(from, &batches(&fetched), self.simulation.now());
            }
            Err(error) => self.failed(index, &error),
        }
    }
}
