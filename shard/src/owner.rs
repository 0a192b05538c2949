//! The CPU core that owns shards: it decides and stores, for its own connections and for other
//! cores.

mod closing;
mod numbers;

use crate::call::Caller;
use crate::completing::complete;
use crate::cpu_core::CoreConfig;
use crate::device::Devices;
use crate::event::{Credits, Event, Permit, Tasks, step_aside};
use crate::flusher::Flusher;
use crate::keeper::Keeper;
use crate::log::FailureNote;
use crate::message::{Body, Parts, ReadRequest, Request};
use crate::metrics::CoreMetrics;
use crate::opening::Openings;
use crate::placing::Backlog;
use crate::port::Port;
use crate::producer_memory::ProducerMemory;
use crate::reading::{Next, Reading};
use crate::reopening::Reopenings;
use crate::requester::{PeerSlot, Requester};
use crate::shard::{Effects, Shard, Writer};
use crate::space::{Kept, Space};
use crate::table::Table;
use crate::tail::Tail;
use crate::watches::{Sleepers, WatchKey, Watches};
use felix_core::limits::{
    COLD_READS_IN_FLIGHT_MAX, HEAVY_SEARCH_JOBS_PER_CORE_MAX, HEAVY_SEARCHES_IN_FLIGHT_MAX,
    PRODUCER_BYTES_PER_CORE_MAX,
};
use felix_core::shards::ShardState;
use felix_core::{Blocking, Clock, CpuId, Generation, Monotonic, ShardError, ShardId, Stalls};
use futures_util::FutureExt;
use std::cell::{Cell, OnceCell, Ref, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// Producers that are forgotten in one go: more than one append brings.
const PRODUCERS_FORGOTTEN_AT_ONCE_MAX: usize = 16;

/// Told of a shard that was opened again, and of its generation.
type Reopened = Box<dyn Fn(ShardId, Generation)>;

/// See the module. Lives on its core.
pub(crate) struct Owner {
    core: CpuId,
    pub(crate) config: CoreConfig,
    clock: Rc<dyn Clock>,
    stalls: Rc<Stalls>,
    /// This core's end of its lanes, one per peer.
    ports: Rc<[Rc<Port>]>,
    table: Rc<Table>,
    sleepers: Rc<Sleepers>,
    metrics: Rc<CoreMetrics>,
    pub(crate) shards: RefCell<HashMap<ShardId, Rc<Shard>>>,
    tail: RefCell<Tail>,
    flusher: Flusher,
    devices: Devices,
    keeper: Keeper,
    producers: Rc<ProducerMemory>,
    pub(crate) backlog: Backlog,
    pub(crate) watches: RefCell<Watches>,
    /// A task is telling watches.
    pub(crate) firing: Cell<bool>,
    cold_reads: Credits,
    heavy: Rc<dyn Blocking>,
    heavy_searches: Credits,
    heavy_search_jobs: Credits,
    tasks: Rc<Tasks>,
    closing: Cell<bool>,
    pub(crate) opening: Openings,
    closed: Event,
    space: Space,
    pub(crate) reopenings: Reopenings,
    /// Who is told of shards that were opened again, if anybody is.
    when_reopened: OnceCell<Reopened>,
}

impl Owner {
    pub(crate) fn new(
        core: CpuId,
        config: CoreConfig,
        clock: Rc<dyn Clock>,
        stalls: Rc<Stalls>,
        heavy: Rc<dyn Blocking>,
        ports: Rc<[Rc<Port>]>,
    ) -> Self {
        let metrics: Rc<CoreMetrics> = Rc::default();
        let cores = u16::try_from(ports.len() + 1).expect("cores are counted in 16 bits");
        let memory = ProducerMemory::new(PRODUCER_BYTES_PER_CORE_MAX, Rc::clone(&metrics));
        Self {
            core,
            clock,
            ports,
            table: Rc::default(),
            sleepers: Rc::default(),
            metrics,
            shards: RefCell::default(),
            tail: RefCell::new(Tail::new(config.tail_bytes_max)),
            space: Space::new(Kept::of(config.space.as_ref())),
            devices: Devices::new(config.dirty, cores),
            config,
            flusher: Flusher::default(),
            keeper: Keeper::new(),
            producers: Rc::new(memory),
            backlog: Backlog::default(),
            watches: RefCell::default(),
            firing: Cell::new(false),
            cold_reads: Credits::new(COLD_READS_IN_FLIGHT_MAX),
            tasks: Rc::new(Tasks::new(Rc::clone(&stalls))),
            stalls,
            heavy,
            heavy_searches: Credits::new(HEAVY_SEARCHES_IN_FLIGHT_MAX),
            heavy_search_jobs: Credits::new(HEAVY_SEARCH_JOBS_PER_CORE_MAX),
            closing: Cell::new(false),
            opening: Openings::default(),
            closed: Event::default(),
            reopenings: Reopenings::default(),
            when_reopened: OnceCell::new(),
        }
    }

    pub(crate) fn core(&self) -> CpuId {
        self.core
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(crate) fn ports(&self) -> &[Rc<Port>] {
        &self.ports
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    pub(crate) fn sleepers(&self) -> &Rc<Sleepers> {
        &self.sleepers
    }

    pub(crate) fn metrics(&self) -> &CoreMetrics {
        &self.metrics
    }

    #[cfg(test)]
    pub(crate) fn cold_reads(&self) -> &Credits {
        &self.cold_reads
    }

    /// Waits for a permit to read what is not in memory: the shard's, then the core's.
    pub(crate) async fn cold_read<'permit>(
        &'permit self,
        shard: &'permit Shard,
    ) -> [Permit<'permit>; 2] {
        let of_shard = shard.cold_reads.permit().await;
        [of_shard, self.cold_reads.permit().await]
    }

    /// Who does this core's heavy work.
    pub(crate) fn heavy(&self) -> &dyn Blocking {
        &*self.heavy
    }

    /// Waits for a permit to hold a batch that is too much work for this core: the shard's, then
    /// the core's.
    pub(crate) async fn heavy_search<'permit>(
        &'permit self,
        shard: &'permit Shard,
    ) -> [Permit<'permit>; 2] {
        let of_shard = shard.heavy_searches.permit().await;
        [of_shard, self.heavy_searches.permit().await]
    }

    /// The permits of searches to have such a batch looked into.
    pub(crate) fn heavy_search_jobs(&self) -> &Credits {
        &self.heavy_search_jobs
    }

    pub(crate) fn tasks(&self) -> &Rc<Tasks> {
        &self.tasks
    }

    pub(crate) fn flusher(&self) -> &Flusher {
        &self.flusher
    }

    /// The devices under its shards' logs.
    pub(crate) fn devices(&self) -> &Devices {
        &self.devices
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    pub(crate) fn tail(&self) -> Ref<'_, Tail> {
        self.tail.borrow()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// Notices when this core begins to close.
    pub(crate) fn closed(&self) -> &Event {
        &self.closed
    }

    /// What is free on the disk.
    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    /// A shard of this core, to be asked something.
    pub(crate) fn shard(&self, id: ShardId) -> Result<Rc<Shard>, ShardError> {
        if self.closing.get() {
            return Err(ShardError::ShuttingDown);
        }
        self.shards
            .borrow()
            .get(&id)
            .cloned()
            .ok_or(ShardError::Unknown)
    }

    /// Does what a peer asks. Never waits: what takes time goes on as a task of its own.
    pub(crate) fn execute(self: &Rc<Self>, port: &Rc<Port>, request: Request, now: Monotonic) {
        let peer = |slot, sent| {
            self.metrics.hop_us.record(sent, now);
            PeerSlot::new(Rc::clone(port), slot)
        };
        match request {
            Request::Append {
                slot,
                sent,
                appends,
                deadline,
            } => self.append(appends, deadline, Caller::Peer(peer(slot, sent))),
            Request::Fetch { slot, sent, read } => {
                self.fetch(read, Requester::Peer(peer(slot, sent)));
            }
            Request::Offsets {
                slot,
                sent,
                queries,
            } => self.offsets(queries, Requester::Peer(peer(slot, sent))),
            Request::Watch {
                watch,
                chunk,
                shards,
                bytes,
            } => self.watch(watch_key(port, watch, chunk), shards, bytes),
            Request::Unwatch { watch, chunk } => self.unwatch(watch_key(port, watch, chunk)),
            Request::Cancel { slot } => port.cancelled(slot),
            Request::State { shard, state } => self.table.put(shard, state),
            Request::Goodbye => unreachable!("the port keeps goodbyes to itself"),
        }
    }

    /// What appends need of this core.
    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer {
            tail: &self.tail,
            metrics: &self.metrics,
            stalls: &self.stalls,
            space: &self.space,
            now: self.clock.wall(),
            on_core_bytes_max: self.config.write_on_core_bytes_max,
            begun: Cell::new(self.stalls.begin()),
        }
    }

    /// Lets the core feel what happened to a shard.
    pub(crate) fn apply(self: &Rc<Self>, shard: &Rc<Shard>, effects: Effects) {
        if effects.dirty {
            self.flusher.add(shard);
        }
        self.apply_bounds(shard, effects);
        if let Some(note) = shard.take_failure_note() {
            self.leave(shard, note);
        }
        if effects.failed {
            self.metrics.failed_shards.increment();
            self.tail.borrow_mut().forget(shard.id());
            self.announce(shard);
            self.reopen(shard);
            if let Some(device) = shard.unflushed.device() {
                self.unpark_next(&device);
            }
        }
        self.provide(shard, effects);
        if effects.moved {
            self.tell_watches(shard.id());
        }
        if effects.settled {
            self.settle(shard);
        }
        if effects.cut
            && let Some(cut) = shard.take_cut()
        {
            let completing = complete(Rc::clone(self), Rc::clone(shard), cut);
            let completing = Arc::clone(shard.suspect()).doing(completing);
            self.tasks.spawn("cuts", completing);
        }
        if effects.aside {
            self.write_aside(shard);
        }
        self.forget_producers();
        if effects.room {
            self.unpark(shard);
        }
    }

    /// Leaves word beside the shard's log that its disk has failed. Nothing waits for it but the
    /// next opening: the disk may hang by now.
    fn leave(&self, shard: &Rc<Shard>, note: FailureNote) {
        shard.duties.noting.set(true);
        let noted = Rc::clone(shard);
        let leaving = async move {
            note.leave().await;
            noted.duties.noting.set(false);
        };
        let mut leaving = Box::pin(Arc::clone(shard.suspect()).doing(leaving));
        // A thread has it before this turn ends: a process that is killed in the next one has left it.
        if (&mut leaving).now_or_never().is_none() {
            self.tasks.spawn("notes of failures", leaving);
        }
    }

    /// What the shards of this core know of idempotent producers.
    pub(crate) fn producers(&self) -> &Rc<ProducerMemory> {
        &self.producers
    }

    /// Has shards forget some producers, if all of them take too much memory. Whether there are more
    /// to be forgotten.
    pub(crate) fn forget_producers(&self) -> bool {
        for _ in 0..PRODUCERS_FORGOTTEN_AT_ONCE_MAX {
            let Some(shard) = self.producers.over() else {
                return false;
            };
            let shard = self.shards.borrow().get(&shard).cloned();
            if let Some(shard) = shard {
                shard.forget_producer();
            }
        }
        true
    }

    /// Tells every core what state a shard is in.
    pub(crate) fn announce(&self, shard: &Shard) {
        let (name, id, state) = (&*shard.spec().name, shard.id(), shard.state());
        match state {
            ShardState::Opening => {}
            ShardState::Open(generation) => tracing::info!(shard = name, %id, %generation, "open"),
            ShardState::Failed => {
                let reason = shard.marks(None).err().map(|error| error.to_string());
                if shard.may_pass() {
                    tracing::error!(shard = name, %id, reason, "failed: it serves nothing until it could be opened again");
                } else {
                    tracing::error!(shard = name, %id, reason, "failed: it serves nothing until the broker starts again");
                }
            }
        }
        self.table.put(id, state);
        for port in &*self.ports {
            port.tell(Request::State { shard: id, state });
        }
    }

    /// Reads; the answer goes to `requester` at once, or when the device has given it.
    pub(crate) fn fetch(self: &Rc<Self>, request: ReadRequest, requester: Requester<Parts>) {
        let mut reading = Reading::new(request);
        let mut next = reading.advance(self);
        if let Next::Done = next {
            requester.answer(reading.into_parts());
            return;
        }
        requester.queued();
        let owner = Rc::clone(self);
        self.tasks.spawn("reads", async move {
            loop {
                if !requester.is_wanted() {
                    return owner.abandon(requester);
                }
                match next {
                    Next::Done => break,
                    Next::Pause => step_aside().await,
                    Next::Cold(cold) => {
                        let shard = cold.shard();
                        let _permits = owner.cold_read(&shard).await;
                        // It may have waited in line for long.
                        if !requester.is_wanted() {
                            return owner.abandon(requester);
                        }
                        reading.finish(&owner, cold).await;
                    }
                }
                next = reading.advance(&owner);
            }
            requester.answer(reading.into_parts());
        });
    }

    /// Ends work whose answer nobody waits for.
    pub(crate) fn abandon<T: Into<Body> + Default>(&self, requester: Requester<T>) {
        self.metrics.abandoned.increment();
        // A peer's slot is freed by an answer, whatever it says.
        requester.answer(T::default());
    }

    /// A read or a search of a log has failed. Whoever asks again makes it fail again, so few such
    /// lines are written.
    pub(crate) fn read_failed(&self, shard: &Shard, reason: &dyn fmt::Display) -> ShardError {
        self.metrics.read_failures.increment();
        if let Some(left_out) = self.metrics.read_lines.admit(self.clock.monotonic()) {
            let shard = &*shard.spec().name;
            let left_out = (left_out > 0).then_some(left_out);
            tracing::error!(shard, %reason, left_out, "a log cannot be read");
        }
        ShardError::Storage(reason.to_string())
    }

    /// From now on `told` hears of every shard that is opened again. Once.
    pub(crate) fn when_reopened(&self, told: impl Fn(ShardId, Generation) + 'static) {
        let set = self.when_reopened.set(Box::new(told));
        assert!(set.is_ok(), "one keeps the generations");
    }

    /// A shard was opened again.
    pub(crate) fn tell_reopened(&self, shard: ShardId, generation: Generation) {
        if let Some(told) = self.when_reopened.get() {
            told(shard, generation);
        }
    }

    /// In the order of their ids, which is the same in every run.
    fn all(&self) -> Vec<Rc<Shard>> {
        let mut all: Vec<_> = self.shards.borrow().values().cloned().collect();
        all.sort_unstable_by_key(|shard| shard.id());
        all
    }
}

fn watch_key(port: &Port, watch: u64, chunk: u32) -> WatchKey {
    WatchKey {
        core: port.peer(),
        watch,
        chunk,
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner")
            .field("core", &self.core)
            .finish_non_exhaustive()
    }
}
