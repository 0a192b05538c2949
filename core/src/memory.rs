//! Memory with a stated size: what one CPU core may hold of requests that come in and of answers
//! that wait to go out.
//!
//! Bytes are counted, not handed out: a [`Share`] says how many of a [`Pool`]'s bytes its owner
//! holds. Requests and answers have a pool each, so that peers that do not read their answers
//! leave untouched what peers that write need.

use crate::limits::REQUEST_BYTES_MAX;
use crate::metrics::{Counter, Kind, Metrics, Sample};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// One answer may take one of so many parts of what is left for answers, so that many that are begun
/// at once share it. Where less is left than such a part of the whole, answers are short.
pub const PARTS_OF_ANSWERS: usize = 16;

/// The pools of one CPU core. Lives on that core; clones are the same pools.
#[derive(Clone, Debug)]
pub struct Memory {
    /// For requests: from before the first byte over a connection's own minimum is received until
    /// the request is answered.
    pub inbound: Rc<Pool>,
    /// For answers: from when one is ready until it is sent. A Fetch that reads has a promise.
    pub outbound: Rc<Pool>,
}

impl Memory {
    /// Two pools of half the size each, and of one request of the greatest size at least.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        let half = (bytes_max / 2).max(REQUEST_BYTES_MAX);
        Self {
            inbound: Rc::new(Pool::new(half)),
            outbound: Rc::new(Pool::new(half)),
        }
    }

    /// Of what there is too little.
    #[must_use]
    pub fn short(&self) -> Short {
        Short {
            requests: self.inbound.has_waiting(),
            answers: self.outbound.is_nearly_used_up(),
        }
    }
}

/// Where somebody could go on if others gave back what they hold. Promises hold nobody up.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Short {
    /// A request waits for memory.
    pub requests: bool,
    /// Answers hold next to all that there is for them, or more. Those who wait until some are sent
    /// come to rest wherever the last of them looked, which is seldom at the very last byte.
    pub answers: bool,
}

impl Metrics for Memory {
    fn collect(&self, take: &mut dyn FnMut(Sample)) {
        for (direction, pool) in [("in", &self.inbound), ("out", &self.outbound)] {
            take(Sample {
                name: "felix_memory_used_bytes",
                help: "Bytes of requests and answers held.",
                kind: Kind::Gauge,
                label: Some(("direction", direction.to_owned())),
                value: as_value(u64::try_from(pool.used()).expect("a size fits 64 bits")),
            });
        }
        take(Sample {
            name: "felix_memory_waits_total",
            help: "Times that a connection was not read until memory was free for its request.",
            kind: Kind::Counter,
            label: None,
            value: as_value(self.inbound.waits()),
        });
    }
}

/// Samples are floating point, as their readers are; above 2^53 the last digits go.
#[expect(
    clippy::cast_precision_loss,
    reason = "no size of memory needs its last digit"
)]
fn as_value(count: u64) -> f64 {
    count as f64
}

/// So many bytes, and who waits for some. Lives on one CPU core.
#[derive(Debug)]
pub struct Pool {
    bytes_max: usize,
    used: Cell<usize>,
    promised: Cell<usize>,
    /// First come, first served, so that a large wish is not overtaken by small ones for ever.
    line: RefCell<VecDeque<Rc<Place>>>,
    waits: Counter,
}

/// A place in line.
#[derive(Debug)]
struct Place {
    bytes: usize,
    granted: Cell<bool>,
    waker: RefCell<Waker>,
}

impl Pool {
    /// A pool of so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            used: Cell::new(0),
            promised: Cell::new(0),
            line: RefCell::default(),
            waits: Counter::default(),
        }
    }

    /// Bytes held now: more than there are, where some were overdrawn.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.get()
    }

    /// Bytes that nobody holds.
    #[must_use]
    pub fn free(&self) -> usize {
        self.bytes_max.saturating_sub(self.used.get())
    }

    /// Bytes that nobody holds and that are promised to nobody.
    #[must_use]
    pub fn unpromised(&self) -> usize {
        self.free().saturating_sub(self.promised.get())
    }

    /// Whether less is left than one part of [`PARTS_OF_ANSWERS`].
    #[must_use]
    pub fn is_nearly_used_up(&self) -> bool {
        self.free() < self.bytes_max / PARTS_OF_ANSWERS
    }

    /// Whether somebody is in line.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        !self.line.borrow().is_empty()
    }

    /// Times that somebody had to wait.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.waits.value()
    }

    /// A wish of any size is fulfilled once nobody else holds anything.
    fn has(&self, bytes: usize) -> bool {
        self.used.get() == 0 || bytes <= self.free()
    }

    fn take(&self, bytes: usize) {
        let used = self.used.get().checked_add(bytes);
        self.used.set(used.expect("memory fits the address space"));
    }

    fn give_back(&self, bytes: usize) {
        let used = self.used.get().checked_sub(bytes);
        self.used.set(used.expect("what is given back was taken"));
        self.serve_line();
    }

    fn serve_line(&self) {
        let mut line = self.line.borrow_mut();
        while let Some(place) = line.pop_front() {
            if !self.has(place.bytes) {
                line.push_front(place);
                return;
            }
            self.take(place.bytes);
            place.granted.set(true);
            place.waker.borrow().wake_by_ref();
        }
    }

    fn leave_line(&self, place: &Rc<Place>) {
        self.line
            .borrow_mut()
            .retain(|other| !Rc::ptr_eq(other, place));
        // Those behind may want less.
        self.serve_line();
    }
}

/// What one owner holds of a pool; given back when dropped. Lives on the pool's core.
#[derive(Debug)]
pub struct Share {
    pool: Rc<Pool>,
    held: Cell<usize>,
    place: RefCell<Option<Rc<Place>>>,
}

impl Share {
    /// Holds nothing yet.
    #[must_use]
    pub fn new(pool: &Rc<Pool>) -> Self {
        Self {
            pool: Rc::clone(pool),
            held: Cell::new(0),
            place: RefCell::new(None),
        }
    }

    /// Bytes held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.get()
    }

    /// Takes so many bytes, waiting in line where they are not free. A call while waiting goes on
    /// with the same wish.
    pub fn poll_reserve(&self, cx: &mut Context<'_>, bytes: usize) -> Poll<()> {
        let mut place = self.place.borrow_mut();
        if let Some(waiting) = place.as_ref() {
            assert_eq!(waiting.bytes, bytes, "one wish at a time");
            if !waiting.granted.get() {
                waiting.waker.borrow_mut().clone_from(cx.waker());
                return Poll::Pending;
            }
            *place = None;
        } else if self.pool.has_waiting() || !self.pool.has(bytes) {
            let waiting = Rc::new(Place {
                bytes,
                granted: Cell::new(false),
                waker: RefCell::new(cx.waker().clone()),
            });
            self.pool.waits.increment();
            self.pool.line.borrow_mut().push_back(Rc::clone(&waiting));
            *place = Some(waiting);
            return Poll::Pending;
        } else {
            self.pool.take(bytes);
        }
        self.held.set(self.held.get() + bytes);
        Poll::Ready(())
    }

    /// Takes so many bytes even where they are not free: for what is there already, or is little.
    pub fn overdraw(&self, bytes: usize) {
        self.pool.take(bytes);
        self.held.set(self.held.get() + bytes);
    }

    /// Gives so many bytes back.
    pub fn release(&self, bytes: usize) {
        let held = self.held.get().checked_sub(bytes);
        self.held
            .set(held.expect("no more is given back than is held"));
        self.pool.give_back(bytes);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            if place.granted.get() {
                self.pool.give_back(place.bytes);
            } else {
                self.pool.leave_line(&place);
            }
        }
        self.pool.give_back(self.held.get());
    }
}

/// What somebody at work may come to hold: it makes the parts of those who begin meanwhile
/// smaller, but is not held, so that nobody waits for it or has to go because of it. Taken back when
/// dropped. Lives on the pool's core.
#[derive(Debug)]
pub struct Promise {
    pool: Rc<Pool>,
    bytes: Cell<usize>,
}

impl Promise {
    /// Of nothing yet.
    #[must_use]
    pub fn new(pool: &Rc<Pool>) -> Self {
        Self {
            pool: Rc::clone(pool),
            bytes: Cell::new(0),
        }
    }

    /// Promises so many bytes more.
    pub fn add(&self, bytes: usize) {
        let promised = self.pool.promised.get().checked_add(bytes);
        self.pool
            .promised
            .set(promised.expect("memory fits the address space"));
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Takes it back: the work is done, or rests.
    pub fn end(&self) {
        let promised = self.pool.promised.get().checked_sub(self.bytes.take());
        self.pool
            .promised
            .set(promised.expect("what is taken back was promised"));
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reserve(share: &Share, bytes: usize) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        share.poll_reserve(&mut cx, bytes).is_ready()
    }

    #[test]
    fn a_large_wish_is_not_overtaken_by_small_ones() {
        let pool = Rc::new(Pool::new(100));
        let [first, large, small] = [(); 3].map(|()| Share::new(&pool));
        assert!(reserve(&first, 60));
        assert!(!reserve(&large, 50));
        assert!(!reserve(&small, 10), "10 are free, but it is not its turn");
        assert_eq!(pool.waits(), 2);
        first.release(20);
        assert!(reserve(&large, 50));
        assert!(reserve(&small, 10));
        assert_eq!(pool.used(), 100);
    }

    #[test]
    fn who_gives_up_its_place_lets_those_behind_go_on_and_keeps_nothing() {
        let pool = Rc::new(Pool::new(100));
        let [holder, large, small] = [(); 3].map(|()| Share::new(&pool));
        assert!(reserve(&holder, 60));
        assert!(!reserve(&large, 90));
        assert!(!reserve(&small, 40));
        drop(large);
        assert!(reserve(&small, 40));
        let granted = Share::new(&pool);
        assert!(!reserve(&granted, 30));
        drop(holder);
        drop(granted);
        assert_eq!(pool.used(), 40);
        drop(small);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn a_wish_larger_than_the_pool_is_fulfilled_once_nobody_else_holds_anything() {
        let pool = Rc::new(Pool::new(100));
        let [small, huge] = [(); 2].map(|()| Share::new(&pool));
        assert!(reserve(&small, 1));
        assert!(!reserve(&huge, 1000));
        small.release(1);
        assert!(reserve(&huge, 1000));
    }

    #[test]
    fn what_is_overdrawn_makes_others_wait_until_it_is_given_back() {
        let pool = Rc::new(Pool::new(100));
        let [over, next] = [(); 2].map(|()| Share::new(&pool));
        over.overdraw(150);
        assert_eq!((pool.used(), pool.free()), (150, 0));
        assert!(!reserve(&next, 1));
        over.release(50);
        assert!(!reserve(&next, 1));
        over.release(1);
        assert!(reserve(&next, 1));
    }

    #[test]
    fn a_promise_leaves_less_to_promise_and_is_held_by_nobody() {
        let memory = Memory::new(0);
        let pool = &memory.outbound;
        let all = pool.free();
        let [first, second] = [(); 2].map(|()| Promise::new(pool));
        first.add(all);
        second.add(10);
        assert_eq!((pool.used(), pool.free(), pool.unpromised()), (0, all, 0));
        assert_eq!(memory.short(), Short::default());
        first.end();
        assert_eq!(pool.unpromised(), all - 10);
        first.end();
        drop((first, second));
        assert_eq!(pool.unpromised(), all);
    }

    #[test]
    fn answers_are_short_before_the_last_byte_is_held_and_requests_once_one_waits() {
        let memory = Memory::new(0);
        let pool = &memory.outbound;
        let holder = Share::new(pool);
        holder.overdraw(pool.free() - pool.free() / PARTS_OF_ANSWERS);
        assert_eq!(memory.short(), Short::default());
        holder.overdraw(1);
        let answers = Short {
            answers: true,
            ..Short::default()
        };
        assert_eq!(memory.short(), answers);
        holder.release(1);
        let requests = Share::new(&memory.inbound);
        requests.overdraw(memory.inbound.free());
        assert_eq!(memory.short(), Short::default());
        assert!(
            !reserve(&Share::new(&memory.inbound), 1),
            "it waits, and leaves"
        );
        let waiting = Share::new(&memory.inbound);
        assert!(!reserve(&waiting, 1));
        assert!(memory.short().requests && !memory.short().answers);
    }

    proptest! {
        #[test]
        fn reserved_bytes_never_exceed_the_pool_and_whoever_waits_is_served_in_the_end(
            wishes in prop::collection::vec(1_usize..100, 1..40),
        ) {
            let pool = Rc::new(Pool::new(100));
            let shares: Vec<Share> = wishes.iter().map(|_| Share::new(&pool)).collect();
            let mut served = vec![false; wishes.len()];
            let mut order = Vec::new();
            while order.len() < wishes.len() {
                for (index, bytes) in wishes.iter().enumerate() {
                    if !served[index] && reserve(&shares[index], *bytes) {
                        served[index] = true;
                        order.push(index);
                    }
                }
                prop_assert!(pool.used() <= 100);
                let holder = order.iter().find(|index| shares[**index].held() > 0);
                let holder = *holder.expect("somebody holds, or somebody would have been served");
                shares[holder].release(shares[holder].held());
            }
            prop_assert!(order.is_sorted(), "first come, first served: {order:?}");
        }
    }
}
