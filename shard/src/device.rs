//! The devices under the logs of a core's shards, told apart by their file systems: the bytes that
//! are written there and not flushed, and the flushes under way. Both are bounded for a device as a
//! whole, and each core has an equal share of each bound, so that no core has to ask another.
//!
//! The bytes are those of shards whose appends do not wait for a flush. Those of `on_commit` shards
//! are bounded by what may await its commit, and their flush is under way.
//!
//! What is done for shards ahead of their appends and flushes has its places here, too, so that a device
//! that is stuck takes none of what is done on another.

use crate::event::{Credits, Permit};
use crate::flusher::PATIENCE;
use crate::places::Places;
use felix_core::ShardId;
use felix_core::limits::{
    DEVICE_FLUSHES_IN_FLIGHT_MAX, DEVICE_FLUSHES_PER_CORE_MIN, GENERATIONS_IN_FLIGHT_MAX,
    GENERATIONS_LATE_MAX, LARGE_WRITES_IN_FLIGHT_MAX, PREPARATIONS_IN_FLIGHT_MAX,
    WRITE_BACKS_IN_FLIGHT_MAX,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// How long the removal of a segment holds up the next one: it is done in steps with pauses.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(10);

/// How many bytes of a device may be written and not flushed, by all cores together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirtyBounds {
    /// From here on a round of flushes begins at once.
    pub soft_bytes: u64,
    /// From here on appends wait for one.
    pub hard_bytes: u64,
}

impl DirtyBounds {
    /// One core's share.
    fn share(self, cores: u16) -> Self {
        let share = |bytes: u64| (bytes / u64::from(cores)).max(1);
        Self {
            soft_bytes: share(self.soft_bytes),
            hard_bytes: share(self.hard_bytes),
        }
    }
}

/// Whether anybody waits for a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Urgency {
    /// Appends wait for it.
    Awaited,
    /// Nobody does.
    Background,
}

/// Whether a shard may be written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Room {
    /// It may.
    Free,
    /// Not before its own next commit, or its own next flush.
    OfShard,
    /// Not before something on its device is flushed.
    OfDevice,
}

/// See the module. Lives on its core.
#[derive(Debug)]
pub(crate) struct Devices {
    share: DirtyBounds,
    flushes: usize,
    /// One, or a few: a scan is fastest.
    known: RefCell<Vec<Rc<Device>>>,
}

impl Devices {
    /// None is known yet. `bounds`: of each device, for all of the `cores`.
    pub(crate) fn new(bounds: DirtyBounds, cores: u16) -> Self {
        let flushes = DEVICE_FLUSHES_IN_FLIGHT_MAX / usize::from(cores);
        Self {
            share: bounds.share(cores),
            flushes: flushes.max(DEVICE_FLUSHES_PER_CORE_MIN),
            known: RefCell::default(),
        }
    }

    /// The device with that file system.
    pub(crate) fn get(&self, id: u64) -> Rc<Device> {
        let mut known = self.known.borrow_mut();
        if let Some(device) = known.iter().find(|device| device.id == id) {
            return Rc::clone(device);
        }
        let device = Rc::new(Device::new(id, self.share, self.flushes));
        known.push(Rc::clone(&device));
        device
    }

    pub(crate) fn all(&self) -> Vec<Rc<Device>> {
        self.known.borrow().clone()
    }

    /// Flushes of one device that this core may have under way.
    pub(crate) fn flushes(&self) -> usize {
        self.flushes
    }
}

/// One device, as one core sees it.
#[derive(Debug)]
pub(crate) struct Device {
    id: u64,
    share: DirtyBounds,
    dirty: Cell<u64>,
    /// Bytes written that no round of flushes has taken.
    fresh: Cell<u64>,
    /// Shards with appends that wait for room here, in the order they came.
    waiting: RefCell<VecDeque<ShardId>>,
    flushes: Credits,
    /// The places among them that flushes may have for which nobody waits.
    background: Credits,
    /// For steps of space, and next segments.
    pub(crate) preparations: Places,
    /// For having the kernel write ahead of flushes.
    pub(crate) write_backs: Places,
    /// For writing large batches.
    pub(crate) large_writes: Places,
    /// For noting generations before first appends.
    pub(crate) generations: Places,
    /// For removing files, one at a time.
    pub(crate) removals: Places,
}

impl Device {
    fn new(id: u64, share: DirtyBounds, flushes: usize) -> Self {
        let places = |count, late_max| Places::new(count, PATIENCE, late_max);
        Self {
            id,
            share,
            dirty: Cell::new(0),
            fresh: Cell::new(0),
            waiting: RefCell::default(),
            flushes: Credits::new(flushes),
            // A quarter is left to those for which somebody waits.
            background: Credits::new((flushes - flushes / 4).clamp(1, flushes - 1)),
            preparations: places(PREPARATIONS_IN_FLIGHT_MAX, PREPARATIONS_IN_FLIGHT_MAX),
            write_backs: places(WRITE_BACKS_IN_FLIGHT_MAX, WRITE_BACKS_IN_FLIGHT_MAX),
            large_writes: places(LARGE_WRITES_IN_FLIGHT_MAX, LARGE_WRITES_IN_FLIGHT_MAX),
            generations: places(GENERATIONS_IN_FLIGHT_MAX, GENERATIONS_LATE_MAX),
            removals: Places::new(1, REMOVAL_PATIENCE, 1),
        }
    }

    /// The number of its file system, as `stat` tells it.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Bytes written by this core and not flushed.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.dirty.get()
    }

    /// So many bytes were written. Whether a round of flushes is to begin because of it.
    fn wrote(&self, bytes: u64) -> bool {
        let before = self.fresh.get();
        let fresh = before.saturating_add(bytes);
        self.fresh.set(fresh);
        before < self.share.soft_bytes && fresh >= self.share.soft_bytes
    }

    fn has_room(&self) -> bool {
        self.dirty.get() < self.share.hard_bytes
    }

    fn wait(&self, shard: ShardId, first: bool) {
        let mut waiting = self.waiting.borrow_mut();
        if first {
            waiting.push_front(shard);
        } else {
            waiting.push_back(shard);
        }
    }

    /// The shard whose appends are to be placed next, if there is room.
    pub(crate) fn next_waiting(&self) -> Option<ShardId> {
        if !self.has_room() {
            return None;
        }
        self.waiting.borrow_mut().pop_front()
    }

    /// Waits for a place among the flushes under way. Flushes for which nobody waits leave some to
    /// the others, however many there are.
    pub(crate) async fn permit(&self, urgency: Urgency) -> Permits<'_> {
        let background = match urgency {
            Urgency::Awaited => None,
            Urgency::Background => Some(self.background.permit().await),
        };
        Permits {
            _background: background,
            _flush: self.flushes.permit().await,
        }
    }
}

/// A place among the flushes of a device, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permits<'device> {
    _background: Option<Permit<'device>>,
    _flush: Permit<'device>,
}

/// What one shard has written to its device and not flushed, as far as that counts.
#[derive(Debug, Default)]
pub(crate) struct Unflushed {
    device: RefCell<Option<Rc<Device>>>,
    bytes: Cell<u64>,
    /// Those of them that no round of flushes has taken.
    fresh: Cell<u64>,
    /// It is in line for room on its device.
    waits: Cell<bool>,
}

impl Unflushed {
    /// The shard's log lies there from now on, with nothing that is not flushed.
    pub(crate) fn lies_on(&self, device: Rc<Device>) {
        self.update(0);
        self.device.replace(Some(device));
    }

    /// Where the shard's log lies; `None`: it was never open.
    pub(crate) fn device(&self) -> Option<Rc<Device>> {
        self.device.borrow().clone()
    }

    /// So much is not flushed.
    pub(crate) fn update(&self, bytes: u64) {
        let before = self.bytes.replace(bytes);
        if let Some(device) = &*self.device.borrow() {
            device.dirty.set(device.dirty.get() - before + bytes);
        }
        if self.fresh.get() > bytes {
            self.set_fresh(bytes);
        }
    }

    /// A round of flushes has come to the shard: it takes all that is written, or passes over it because
    /// its last flush is still under way.
    pub(crate) fn taken(&self) {
        self.set_fresh(0);
    }

    fn set_fresh(&self, bytes: u64) {
        let before = self.fresh.replace(bytes);
        if let Some(device) = &*self.device.borrow() {
            device.fresh.set(device.fresh.get() - before + bytes);
        }
    }

    /// The shard has written so much more. Whether a round of flushes is to begin because of it.
    pub(crate) fn wrote(&self, bytes: u64) -> bool {
        self.update(self.bytes.get() + bytes);
        self.fresh.set(self.fresh.get() + bytes);
        let device = self.device.borrow();
        device.as_ref().is_some_and(|device| device.wrote(bytes))
    }

    /// Whether the shard may write more: less than the bounds is dirty. One batch may reach beyond
    /// them, however large. A shard has half of its device at most, so that a file that is stuck
    /// leaves the other half to the others.
    pub(crate) fn room(&self) -> Room {
        let device = self.device.borrow();
        let Some(device) = &*device else {
            return Room::Free;
        };
        if self.bytes.get() >= device.share.hard_bytes.div_ceil(2) {
            Room::OfShard
        } else if device.has_room() {
            Room::Free
        } else {
            Room::OfDevice
        }
    }

    /// The shard has appends that wait for room on its device. `first`: it has had its turn, and it
    /// was not enough.
    pub(crate) fn wait(&self, shard: ShardId, first: bool) {
        if let Some(device) = &*self.device.borrow()
            && !self.waits.replace(true)
        {
            device.wait(shard, first);
        }
    }

    /// It has its turn, and is in line no more.
    pub(crate) fn has_turn(&self) {
        self.waits.set(false);
    }

    /// As [`Unflushed::room`], for an append that has just come: those that wait were here before.
    pub(crate) fn room_in_line(&self) -> Room {
        let device = self.device.borrow();
        let is_first = |device: &Rc<Device>| device.waiting.borrow().is_empty();
        match self.room() {
            Room::Free if !device.as_ref().is_none_or(is_first) => Room::OfDevice,
            room => room,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use felix_core::StreamId;
    use futures_util::FutureExt;

    const BOUNDS: DirtyBounds = DirtyBounds {
        soft_bytes: 200,
        hard_bytes: 400,
    };

    fn shard(index: u32) -> ShardId {
        let stream = StreamId(1);
        ShardId { stream, index }
    }

    fn on(device: &Rc<Device>) -> Unflushed {
        let unflushed = Unflushed::default();
        unflushed.lies_on(Rc::clone(device));
        unflushed
    }

    #[test]
    fn each_core_has_an_equal_share_of_each_device() {
        let devices = Devices::new(BOUNDS, 2);
        let (one, other) = (devices.get(1), devices.get(2));
        assert!(Rc::ptr_eq(&one, &devices.get(1)));
        let [a, b, c] = [on(&one), on(&one), on(&other)];
        assert!(!a.wrote(99));
        assert!(a.wrote(1), "a hundred bytes are half of the soft bound");
        assert!(!a.wrote(1), "that is no news");
        assert_eq!(a.room(), Room::OfShard, "half of the hard bound's share");
        assert_eq!(b.room(), Room::Free);
        b.wrote(99);
        assert_eq!((one.dirty_bytes(), other.dirty_bytes()), (200, 0));
        assert_eq!(b.room(), Room::OfDevice);
        assert_eq!(c.room(), Room::Free, "another device");
        a.update(0);
        assert_eq!(b.room(), Room::Free);
        b.taken();
        assert!(b.wrote(100), "a round has begun meanwhile");
        assert!(!b.wrote(50));
        a.wrote(30);
        b.taken();
        assert!(!a.wrote(69), "30 of its own were left out");
        assert!(a.wrote(1));
    }

    #[test]
    fn who_waits_for_room_has_it_before_whoever_comes_later() {
        let device = Devices::new(BOUNDS, 1).get(1);
        let [a, b, c] = [on(&device), on(&device), on(&device)];
        a.wrote(200);
        b.wrote(200);
        assert_eq!(c.room_in_line(), Room::OfDevice);
        for (shard, index) in [(&a, 1), (&b, 2), (&a, 1)] {
            shard.wait(self::shard(index), false);
        }
        assert_eq!(device.next_waiting(), None);
        a.update(0);
        assert_eq!(c.room_in_line(), Room::OfDevice, "two are before it");
        assert_eq!(device.next_waiting(), Some(shard(1)));
        a.has_turn();
        a.wait(shard(1), true);
        assert_eq!(device.next_waiting(), Some(shard(1)), "it needs more");
        assert_eq!(device.next_waiting(), Some(shard(2)));
        assert_eq!(device.next_waiting(), None);
        assert_eq!(c.room_in_line(), Room::Free);
    }

    #[test]
    fn flushes_that_nobody_waits_for_leave_places_to_those_that_somebody_waits_for() {
        let devices = Devices::new(BOUNDS, 2);
        let device = devices.get(1);
        let mut background = Vec::new();
        while let Some(permit) = device.permit(Urgency::Background).now_or_never() {
            background.push(permit);
        }
        let mut awaited = Vec::new();
        while let Some(permit) = device.permit(Urgency::Awaited).now_or_never() {
            awaited.push(permit);
        }
        assert_eq!(background.len() + awaited.len(), devices.flushes());
        assert_eq!(awaited.len(), devices.flushes() / 4);
        let mut next = Box::pin(device.permit(Urgency::Background));
        assert!(next.as_mut().now_or_never().is_none());
        background.pop();
        assert!(next.as_mut().now_or_never().is_some());
    }
}
