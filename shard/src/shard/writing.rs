//! Writing batches to the log: what is small on the core, what is large beside it. While a large one is
//! being written its shard takes nothing, so that what follows it follows it.

use super::{Effects, Entry, Open, Phase, Shard, Waiting, Writer, byte_count, producing};
use crate::call::Unplaced;
use crate::log::{LogError, Writing, Written};
use felix_core::producers::{Landed, Verdict};
use felix_core::{Durability, Generation, Monotonic, ShardError};

/// A batch that is to be written beside the core.
#[derive(Debug)]
pub(crate) struct Aside {
    pub(crate) writing: Writing,
    pub(crate) rest: Unwritten,
}

/// What is kept of a batch while it is being written.
#[derive(Debug)]
pub(crate) struct Unwritten {
    caller: Unplaced,
    arrived: Monotonic,
    /// Where its first records are, if it is what is left of one that was sent again.
    landed: Option<Landed>,
    records: u64,
    size: usize,
    /// When it was begun with, if that is not when its core took it up again.
    begun: Option<Monotonic>,
    /// The segment before it is full.
    rolled: bool,
    /// The file of the next one was made.
    is_ahead: bool,
    /// It did not fit the space that was prepared.
    is_unprepared: bool,
    /// It is refused if its writing has not begun by then.
    deadline: Option<Monotonic>,
    /// The opening that it came to.
    generation: Generation,
}

impl Unwritten {
    /// It is refused if its writing has not begun by then.
    pub(crate) fn deadline(&self) -> Option<Monotonic> {
        self.deadline
    }

    /// The batch is refused after all.
    pub(crate) fn refuse(self, error: ShardError) {
        self.caller.refuse(error);
    }
}

impl Shard {
    /// Places a batch, unless its producer sent it before.
    pub(super) fn write(
        &self,
        open: &mut Open,
        entry: Entry,
        writer: &Writer<'_>,
    ) -> Result<Effects, LogError> {
        #[cfg(debug_assertions)]
        crate::tripwire::touch(&self.spec.name);
        match open.log.judge(entry.batch.header()) {
            Ok(Verdict::New) => return self.place(open, entry, None, writer),
            Ok(Verdict::Duplicate(landed)) => self.repeat(open, entry, landed, writer),
            Ok(Verdict::Partial { present, landed }) => {
                open.suspended = true;
                let generation = open.log.generation();
                open.cut = Some(producing::Cut::new(entry, present, landed, generation));
                return Ok(Effects {
                    cut: true,
                    ..Effects::default()
                });
            }
            Err(refusal) => {
                writer.metrics.refused_sequence(refusal);
                let error = producing::refused(refusal, open.log.start());
                entry.caller.refuse(error);
            }
        }
        Ok(Effects::default())
    }

    /// Places a batch that is new, or what is new of one whose first records have `landed`.
    pub(super) fn place(
        &self,
        open: &mut Open,
        entry: Entry,
        landed: Option<Landed>,
        writer: &Writer<'_>,
    ) -> Result<Effects, LogError> {
        let Entry {
            batch,
            caller,
            arrived,
            deadline,
        } = entry;
        let (size, records) = (batch.size(), batch.offsets());
        if let Err(full) = writer.space.admit(byte_count(size)) {
            writer.refuse(caller, full);
            return Ok(Effects::default());
        }
        let is_unprepared = open.log.prepared_bytes() < byte_count(size);
        let sealed_before = open.log.sealed();
        let timestamps = self.spec.timestamps;
        let writing = match open.log.begin_append(batch, timestamps, writer.now) {
            Ok(writing) => writing,
            Err(error) => {
                writer.wrote(&self.spec);
                return writer.not_placed(caller, error);
            }
        };
        let mut rest = Unwritten {
            caller,
            arrived,
            landed,
            records,
            size,
            begun: None,
            rolled: open.log.sealed() > sealed_before,
            is_ahead: open.log.is_rolled_ahead(),
            is_unprepared,
            deadline,
            generation: open.log.generation(),
        };
        if size <= writer.on_core_bytes_max {
            return self.placed(open, writing.on_core(), rest, writer);
        }
        let [begun, _] = writer.wrote(&self.spec);
        rest.begun = Some(begun);
        open.suspended = true;
        open.aside = Some(Aside { writing, rest });
        // Counted from here on, or many would be written beyond the bound.
        open.writing_bytes = byte_count(size);
        let presses = self.spec.durability != Durability::OnCommit
            && self.unflushed.wrote(open.writing_bytes);
        Ok(Effects {
            aside: true,
            presses,
            ..Effects::default()
        })
    }

    /// A batch was written to its place, or could not be.
    fn placed(
        &self,
        open: &mut Open,
        written: Written,
        rest: Unwritten,
        writer: &Writer<'_>,
    ) -> Result<Effects, LogError> {
        let placed = open.log.written(written, writer.now);
        let [begun, now] = writer.wrote(&self.spec);
        let placed = match placed {
            Ok(placed) => placed,
            Err(error) => return writer.not_placed(rest.caller, error),
        };
        assert!(placed.next_offset() == open.log.end());
        let begun = rest.begun.unwrap_or(begun);
        writer.metrics.appended(rest.records, rest.size, begun, now);
        self.duties.unflushed.set(self.duties.unflushed.get() + 1);
        let (rolled, is_unprepared) = (rest.rolled, rest.is_unprepared);
        writer
            .metrics
            .prepared(rolled, rest.is_ahead, is_unprepared);
        if placed.header().has_producer_id() {
            open.count_producers();
        }
        if rest.landed.is_some() {
            writer.metrics.completed_batches.increment();
        }
        let landed = rest.landed.unwrap_or_else(|| producing::landing(&placed));
        let appended = self.landed(open, landed);
        let end = placed.next_offset();
        writer.tail.borrow_mut().push(self.spec.id, &placed);
        open.written += byte_count(rest.size);
        let uncounted = if rest.begun.is_some() { 0 } else { rest.size };
        let waiting = Waiting {
            end,
            written: open.written,
            appended,
            caller: rest.caller.placed(),
            arrived: rest.arrived,
        };
        match self.spec.durability {
            Durability::OnCommit => {
                open.waiting.push_back(waiting);
                Ok(Effects {
                    dirty: true,
                    ..self.ahead(&open.log)
                })
            }
            Durability::Periodic | Durability::None => {
                open.committed = open.written;
                let moved = open.advance(end);
                writer.metrics.commit_us.record(rest.arrived, now);
                waiting.caller.settle(Ok(appended));
                Ok(Effects {
                    moved,
                    ..self.wrote(open, uncounted, rolled, now)
                })
            }
        }
    }

    /// The batch that is to be written beside the core, once.
    pub(crate) fn take_aside(&self) -> Option<Aside> {
        match &mut *self.phase.borrow_mut() {
            Phase::Open(open) => open.aside.take(),
            Phase::Opening | Phase::Failed(_) | Phase::Closed => None,
        }
    }

    /// Whether the batch is still to be written: its log is open as it was when it came.
    pub(crate) fn awaits(&self, rest: &Unwritten) -> bool {
        let phase = self.phase.borrow();
        let open = phase.open();
        open.is_ok_and(|open| open.log.generation() == rest.generation)
    }

    /// Takes a batch back that was written beside the core, and takes further ones.
    pub(crate) fn written_aside(
        &self,
        written: Written,
        rest: Unwritten,
        writer: &Writer<'_>,
    ) -> Effects {
        let mut phase = self.phase.borrow_mut();
        let Phase::Open(open) = &mut *phase else {
            // It failed meanwhile, and could not be opened again before this.
            rest.refuse(phase.refusal().expect("a shard that is not open refuses"));
            return Effects::default();
        };
        open.resume();
        let placed = self.placed(open, written, rest, writer);
        if placed.is_err() {
            return self.effects_of(phase, placed);
        }
        if self.spec.durability != Durability::OnCommit {
            self.unflushed.update(open.log.dirty_bytes());
        }
        let room = self.has_room_for_parked(open);
        Effects {
            room,
            ..self.effects_of(phase, placed)
        }
    }

    /// Gives up a batch of which nothing was written, or is left, and takes further ones.
    pub(crate) fn unwritten(&self, rest: Unwritten, error: ShardError) -> Effects {
        let mut phase = self.phase.borrow_mut();
        let open = match &mut *phase {
            Phase::Open(open) if open.log.generation() == rest.generation => open,
            Phase::Open(_) => {
                // It was opened again meanwhile.
                rest.refuse(ShardError::NotLeader);
                return Effects::default();
            }
            Phase::Opening | Phase::Failed(_) | Phase::Closed => {
                rest.refuse(phase.refusal().expect("a shard that is not open refuses"));
                return Effects::default();
            }
        };
        open.resume();
        open.log.abandon();
        if self.spec.durability != Durability::OnCommit {
            self.unflushed.update(open.log.dirty_bytes());
        }
        rest.refuse(error);
        Effects {
            room: self.has_room_for_parked(open),
            ..Effects::default()
        }
    }
}

impl Open {
    /// Nothing is being written beside the core any more.
    fn resume(&mut self) {
        self.suspended = false;
        self.writing_bytes = 0;
    }

    /// Bytes that a flush is to make durable, or that are being written.
    pub(super) fn unflushed_bytes(&self) -> u64 {
        self.log.dirty_bytes() + self.writing_bytes
    }
}
