//! One shard on the core that owns it: whether it is open, its log, what awaits its commit, and
//! what waits for room.
//!
//! Nothing here awaits. What has to happen elsewhere in the core afterwards is returned as
//! [`Effects`].

mod age;
mod applying;
mod duties;
mod effects;
mod failure;
mod flushing;
mod parking;
mod parting;
mod preparing;
mod producing;
mod repeats;
mod rolling;
mod saving;
mod upkeep;
mod writer;
mod writing;

pub(crate) use duties::{Duties, Flushing};
pub(crate) use effects::Effects;
pub(crate) use failure::Failure;
pub(crate) use producing::Cut;
pub(crate) use repeats::Repeats;
pub(crate) use upkeep::Owed;
pub(crate) use writer::Writer;
pub(crate) use writing::{Aside, Unwritten};

use crate::call::{Uncommitted, Unplaced};
use crate::device::{Device, Room, Unflushed};
use crate::event::Credits;
use crate::log::{FailureNote, Log, LogError, Read, Search, Wanted};
use crate::producer_memory::ProducerShare;
use crate::settling;
use crate::spec::ShardSpec;
use crate::suspect::Suspect;
use failure::Failed;
use felix_core::limits::{
    BATCH_BYTES_MAX, COLD_READS_IN_FLIGHT_PER_SHARD_MAX, SHARD_UNCOMMITTED_BYTES_MAX,
};
use felix_core::shards::{Appended, ShardState};
use felix_core::{Batch, Generation, Monotonic, Offset, ShardError, ShardId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(crate) struct Shard {
    spec: ShardSpec,
    suspect: Arc<Suspect>,
    segment_bytes_max: u64,
    phase: RefCell<Phase>,
    /// Appends that are no part of the phase any more, and whose callers are still to be told.
    owed: RefCell<VecDeque<settling::Owed>>,
    /// That of its last opening since the broker started; 0: there was none.
    generation: Cell<Generation>,
    /// What tasks of the core are at with it.
    pub(crate) duties: Duties,
    /// What it has written to its device, as far as appends wait because of that.
    pub(crate) unflushed: Unflushed,
    /// Its share of the core's cold reads: readers of a device that is stuck leave others some.
    pub(crate) cold_reads: Credits,
    pub(crate) heavy_searches: Credits,
    /// Word of a failure of its log, until it is taken to be left beside it.
    failure_note: RefCell<Option<FailureNote>>,
}

#[derive(Debug)]
enum Phase {
    Opening,
    Open(Box<Open>),
    Failed(Box<Failed>),
    Closed,
}

#[derive(Debug)]
struct Open {
    log: Log,
    /// The high watermark.
    mark: Offset,
    /// Kept, because every read asks for it.
    visible_end: Offset,
    /// Bytes written since the first opening.
    written: u64,
    /// Those of them below the high watermark.
    committed: u64,
    /// Appends to an on_commit shard that are not answered; in offset order.
    waiting: VecDeque<Waiting>,
    /// How many of `waiting`, from the front, are committed and only have to be told.
    due: usize,
    /// Batches sent again while the ones they repeat wait.
    repeats: Repeats,
    /// What is known of producers, as this core counts it.
    producers: ProducerShare,
    /// A batch is being completed, or written beside the core, and nothing is taken until it is.
    suspended: bool,
    /// One that is to be completed, until it is taken to be cut.
    cut: Option<Cut>,
    /// One that is to be written, until it is taken for that.
    aside: Option<Aside>,
    /// Bytes of one that is being written, or waits for it.
    writing_bytes: u64,
    /// Appends that wait for room, in the order they came. While there is one, none overtakes it.
    parked: VecDeque<Entry>,
}

/// A batch that was placed, and who waits for its commit.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) end: Offset,
    /// Bytes written since the opening, up to its end.
    written: u64,
    pub(crate) appended: Appended,
    pub(crate) caller: Uncommitted,
    pub(crate) arrived: Monotonic,
}

/// A batch and who waits for it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) batch: Batch,
    pub(crate) caller: Unplaced,
    /// When this core was asked.
    pub(crate) arrived: Monotonic,
    /// If it has no place by then it is refused.
    pub(crate) deadline: Option<Monotonic>,
}

/// The marks of an open shard at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Marks {
    pub(crate) generation: Generation,
    pub(crate) log_start: Offset,
    pub(crate) log_end: Offset,
    pub(crate) visible_end: Offset,
    /// Bytes committed since the opening.
    pub(crate) level: u64,
}

impl Shard {
    /// A shard that is still to be opened.
    pub(crate) fn opening(spec: ShardSpec, segment_bytes_max: u64) -> Self {
        Self {
            suspect: Suspect::new(&spec.name, &spec.directory),
            spec,
            segment_bytes_max: segment_bytes_max.min(BATCH_BYTES_MAX as u64),
            phase: RefCell::new(Phase::Opening),
            owed: RefCell::default(),
            generation: Cell::default(),
            duties: Duties::default(),
            unflushed: Unflushed::default(),
            cold_reads: Credits::new(COLD_READS_IN_FLIGHT_PER_SHARD_MAX),
            heavy_searches: Credits::new(1),
            failure_note: RefCell::default(),
        }
    }

    pub(crate) fn id(&self) -> ShardId {
        self.spec.id
    }

    pub(crate) fn spec(&self) -> &ShardSpec {
        &self.spec
    }

    /// Whom to blame for a panic while a thread is at work for it.
    pub(crate) fn suspect(&self) -> &Arc<Suspect> {
        &self.suspect
    }

    /// The log is open, for the first time or again: everything it holds is durable and was flushed
    /// before this.
    pub(crate) fn opened(&self, log: Log, producers: ProducerShare, device: Rc<Device>) {
        // Goes on from where it was, so that who waits for bytes of an earlier opening has them.
        let written = match &*self.phase.borrow() {
            Phase::Failed(failed) => failed.written,
            Phase::Opening | Phase::Open(_) | Phase::Closed => 0,
        };
        self.duties.unflushed.set(0);
        self.duties.age.forget();
        self.unflushed.lies_on(device);
        self.generation.set(log.generation());
        let mark = log.end();
        let visible_end = log.visible_end(mark);
        let mut open = Open {
            log,
            mark,
            visible_end,
            written,
            committed: written,
            waiting: VecDeque::new(),
            due: 0,
            repeats: Repeats::default(),
            producers,
            suspended: false,
            cut: None,
            aside: None,
            writing_bytes: 0,
            parked: VecDeque::new(),
        };
        open.count_producers();
        open.check();
        self.phase.replace(Phase::Open(Box::new(open)));
    }

    /// What the tables of the cores say of it.
    pub(crate) fn state(&self) -> ShardState {
        match &*self.phase.borrow() {
            Phase::Opening => ShardState::Opening,
            Phase::Open(open) => ShardState::Open(open.log.generation()),
            Phase::Failed(_) | Phase::Closed => ShardState::Failed,
        }
    }

    /// The marks, if the shard is open and the caller believes in no other leader.
    pub(crate) fn marks(&self, believed: Option<Generation>) -> Result<Marks, ShardError> {
        let phase = self.phase.borrow();
        let open = phase.open()?;
        let current = open.log.generation();
        // KIP-320: a client behind must ask for metadata, one ahead must wait for this broker.
        match believed {
            Some(believed) if believed < current => {
                return Err(ShardError::FencedGeneration { current });
            }
            Some(believed) if believed > current => {
                return Err(ShardError::UnknownGeneration { current });
            }
            Some(_) | None => {}
        }
        Ok(Marks {
            generation: current,
            log_start: open.log.start(),
            log_end: open.log.end(),
            visible_end: open.visible_end,
            level: open.committed,
        })
    }

    /// Bytes committed since the opening; `None` where the shard is not served.
    pub(crate) fn level(&self) -> Option<u64> {
        Some(self.phase.borrow().open().ok()?.committed)
    }

    /// A read of the log; see [`Log::read`].
    pub(crate) fn read(
        &self,
        from: Offset,
        below: Offset,
        bytes_max: usize,
    ) -> Result<Read, ShardError> {
        Ok(self.phase.borrow().open()?.log.read(from, below, bytes_max))
    }

    /// A search of the log; see [`Log::search`].
    pub(crate) fn search(&self, wanted: Wanted, below: Offset) -> Result<Search, ShardError> {
        Ok(self.phase.borrow().open()?.log.search(wanted, below))
    }

    /// Appends that wait for room.
    pub(crate) fn parked(&self) -> usize {
        self.phase
            .borrow()
            .open()
            .map_or(0, |open| open.parked.len())
    }

    /// Places a batch, or parks it where the shard has no room.
    pub(crate) fn append(&self, entry: Entry, writer: &Writer<'_>) -> Effects {
        let _at_work = self.suspect.enter();
        let mut phase = self.phase.borrow_mut();
        let open = match &mut *phase {
            Phase::Open(open) => open,
            Phase::Opening | Phase::Failed(_) | Phase::Closed => {
                let error = phase.refusal().expect("a shard that is not open refuses");
                entry.caller.refuse(error);
                return Effects::default();
            }
        };
        if let Some(error) = self.too_large(&entry.batch) {
            entry.caller.refuse(error);
            return Effects::default();
        }
        if !open.parked.is_empty() {
            return open.park(entry, writer);
        }
        let room = self.room_in_line(open, entry.batch.size());
        if room != Room::Free {
            let parked = open.park(entry, writer);
            return self.wait(room, false, parked);
        }
        let written = self.write(open, entry, writer);
        self.effects_of(phase, written)
    }

    /// Places the first parked append if there is room for it; the bytes it took.
    pub(crate) fn unpark(&self, writer: &Writer<'_>) -> (usize, Effects) {
        let _at_work = self.suspect.enter();
        let mut phase = self.phase.borrow_mut();
        let Phase::Open(open) = &mut *phase else {
            return (0, Effects::default());
        };
        let Some(next) = open.parked.front() else {
            return (0, Effects::default());
        };
        let room = self.room(open, next.batch.size());
        if room != Room::Free {
            let deadline = open.first_deadline();
            let waits = Effects {
                deadline,
                ..Effects::default()
            };
            return (0, self.wait(room, true, waits));
        }
        let entry = open.parked.pop_front().expect("there is room for one");
        let size = entry.batch.size();
        let written = self.write(open, entry, writer);
        (size, self.effects_of(phase, written))
    }

    fn effects_of(
        &self,
        phase: std::cell::RefMut<'_, Phase>,
        written: Result<Effects, LogError>,
    ) -> Effects {
        drop(phase);
        written.unwrap_or_else(|error| self.fail(error.into()))
    }
}

fn byte_count(size: usize) -> u64 {
    u64::try_from(size).expect("a size fits 64 bits")
}

impl Phase {
    fn open(&self) -> Result<&Open, ShardError> {
        match self {
            Self::Open(open) => Ok(open),
            Self::Opening => Err(ShardError::Opening),
            Self::Failed(failed) => Err(ShardError::Storage(failed.reason().to_owned())),
            Self::Closed => Err(ShardError::ShuttingDown),
        }
    }

    fn refusal(&self) -> Option<ShardError> {
        self.open().err()
    }
}

impl Open {
    /// Whether `bytes` more may await their commit. One batch always may, however large, unless one is
    /// being completed or written.
    fn has_room(&self, bytes: usize) -> bool {
        if self.suspended || !self.log.is_saved() {
            return false;
        }
        let uncommitted =
            usize::try_from(self.written - self.committed).expect("it was all in memory");
        uncommitted == 0 || uncommitted + bytes <= SHARD_UNCOMMITTED_BYTES_MAX
    }

    /// Commits the appends below the high watermark, however many, at no cost for each. How many.
    fn commit(&mut self) -> usize {
        let mark = self.mark;
        let due = self.waiting.partition_point(|waiting| waiting.end <= mark);
        let committed = due - self.due;
        self.due = due;
        if let Some(last) = due.checked_sub(1).and_then(|last| self.waiting.get(last)) {
            self.committed = last.written;
        }
        if mark == self.log.end() {
            // Those that were applied have nobody who waits.
            self.committed = self.written;
        }
        committed
    }

    /// Moves the high watermark. Whether readers see more.
    fn advance(&mut self, mark: Offset) -> bool {
        self.mark = mark;
        let before = self.visible_end;
        self.visible_end = self.log.visible_end(mark);
        self.check();
        assert!(before <= self.visible_end);
        before < self.visible_end
    }

    fn check(&self) {
        assert!(self.log.start() <= self.visible_end);
        assert!(self.visible_end <= self.mark);
        assert!(self.mark <= self.log.end());
    }
}
