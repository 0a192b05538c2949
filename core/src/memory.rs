//! Memory with a stated size: what one CPU core may hold of requests that come in and of answers
//! that wait to go out.
//!
//! Bytes are counted, not handed out: a [`Share`] says how many of a [`Pool`]'s bytes its owner
//! holds. Requests and answers have a pool each, so that peers that do not read their answers
//! leave untouched what peers that write need.

mod line;

pub use line::Origin;

use crate::limits::REQUEST_BYTES_MAX;
use crate::metrics::{Counter, Kind, Metrics, Sample};
use line::{Line, Place};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

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
            answers: self.outbound.is_nearly_used_up() || self.outbound.has_waiting(),
        }
    }
}

/// Where somebody could go on if others gave back what they hold. Promises hold nobody up.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Short {
    /// A request waits for memory.
    pub requests: bool,
    /// A Fetch waits for memory, or answers hold next to all that there is for them, or more. Those
    /// who wait until some are sent come to rest wherever the last of them looked, which is seldom
    /// at the very last byte.
    pub answers: bool,
}

impl Metrics for Memory {
    fn collect(&self, take: &mut dyn FnMut(Sample)) {
        for (direction, pool) in [("in", &self.inbound), ("out", &self.outbound)] {
            take(Sample {
                name: "felix_memory_used_bytes",
                help: "Bytes of requests and answers held.",
                kind: Kind::Gauge,
                labels: vec![("direction", direction.to_owned())],
                value: as_value(u64::try_from(pool.used()).expect("a size fits 64 bits")),
            });
            take(Sample {
                name: "felix_memory_waits_total",
                help: "Times that a large request, or a Fetch of a large batch, waited for memory.",
                kind: Kind::Counter,
                labels: vec![("direction", direction.to_owned())],
                value: as_value(pool.waits()),
            });
        }
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
    /// Those of them that are given back only after their owner's wish is fulfilled.
    stuck: Cell<usize>,
    promised: Cell<usize>,
    line: RefCell<Line>,
    waits: Counter,
}

impl Pool {
    /// A pool of so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            used: Cell::new(0),
            stuck: Cell::new(0),
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

    /// A wish of any size is fulfilled once nobody holds anything who might give it back before.
    fn has(&self, bytes: usize) -> bool {
        self.used.get() == self.stuck.get() || bytes <= self.free()
    }

    fn take(&self, origin: Origin, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let used = self.used.get().checked_add(bytes);
        self.used.set(used.expect("memory fits the address space"));
        self.line.borrow_mut().take(origin, bytes);
    }

    fn give_back(&self, origin: Origin, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let used = self.used.get().checked_sub(bytes);
        self.used.set(used.expect("what is given back was taken"));
        self.line.borrow_mut().give_back(origin, bytes);
        self.serve_line();
    }

    fn join_line(&self, place: &Rc<Place>) {
        self.stuck.set(self.stuck.get() + place.stuck.get());
        self.line.borrow_mut().push(Rc::clone(place));
        // Its address may hold less than those of all who wait.
        self.serve_line();
    }

    fn serve_line(&self) {
        loop {
            let mut line = self.line.borrow_mut();
            let first = line.first().filter(|place| self.has(place.bytes));
            let Some(place) = first.cloned() else {
                return;
            };
            line.remove(&place);
            drop(line);
            self.take(place.origin, place.bytes);
            self.come_loose(&place);
            place.granted.set(true);
            place.waker.borrow().wake_by_ref();
        }
    }

    fn leave_line(&self, place: &Rc<Place>) {
        self.line.borrow_mut().remove(place);
        self.come_loose(place);
        // Those behind may want less.
        self.serve_line();
    }

    fn come_loose(&self, place: &Place) {
        let stuck = self.stuck.get().checked_sub(place.stuck.take());
        self.stuck.set(stuck.expect("what is loose now was stuck"));
    }

    /// The owner of a place that waits holds this much now.
    fn restick(&self, place: &Place, held: usize) {
        let others = self.stuck.get().checked_sub(place.stuck.replace(held));
        let others = others.expect("what was stuck is counted");
        self.stuck.set(others + held);
    }
}

/// What one owner holds of a pool; given back when dropped. Lives on the pool's core.
#[derive(Debug)]
pub struct Share {
    pool: Rc<Pool>,
    origin: Origin,
    held: Cell<usize>,
    place: RefCell<Option<Wish>>,
}

/// An owner's place in line, and whether it gives nothing back before it is served.
#[derive(Debug)]
struct Wish {
    place: Rc<Place>,
    sticks: bool,
}

impl Wish {
    /// Whether what its owner holds is stuck.
    fn is_stuck(&self) -> bool {
        self.sticks && !self.place.granted.get()
    }
}

impl Share {
    /// Holds nothing yet, for nobody in particular.
    #[must_use]
    pub fn new(pool: &Rc<Pool>) -> Self {
        Self::of(pool, Origin::Unknown)
    }

    /// Holds nothing yet. What it comes to hold counts as `origin`'s.
    #[must_use]
    pub fn of(pool: &Rc<Pool>, origin: Origin) -> Self {
        Self {
            pool: Rc::clone(pool),
            origin,
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
        self.poll_wish(cx, bytes, false)
    }

    /// As [`poll_reserve`](Self::poll_reserve), for an owner who gives back nothing of what it holds
    /// before it is served. Where everybody who holds something waits so, the first of them is
    /// served, whatever is free: nobody else could go on.
    pub fn poll_reserve_stuck(&self, cx: &mut Context<'_>, bytes: usize) -> Poll<()> {
        self.poll_wish(cx, bytes, true)
    }

    fn poll_wish(&self, cx: &mut Context<'_>, bytes: usize, sticks: bool) -> Poll<()> {
        let mut wish = self.place.borrow_mut();
        if let Some(Wish { place, .. }) = wish.as_ref() {
            assert_eq!(place.bytes, bytes, "one wish at a time");
            if !place.granted.get() {
                place.waker.borrow_mut().clone_from(cx.waker());
                return Poll::Pending;
            }
            *wish = None;
        } else if self.pool.has_waiting() || !self.pool.has(bytes) {
            let stuck = if sticks { self.held.get() } else { 0 };
            let place = Rc::new(Place::new(bytes, self.origin, stuck, cx.waker()));
            self.pool.join_line(&place);
            if !place.granted.get() {
                self.pool.waits.increment();
                *wish = Some(Wish { place, sticks });
                return Poll::Pending;
            }
        } else {
            self.pool.take(self.origin, bytes);
        }
        self.held.set(self.held.get() + bytes);
        Poll::Ready(())
    }

    fn restick(&self) {
        if let Some(wish) = self.place.borrow().as_ref().filter(|wish| wish.is_stuck()) {
            self.pool.restick(&wish.place, self.held.get());
        }
    }

    /// Whether it waits in line, or has not yet taken what it was granted there.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.place.borrow().is_some()
    }

    /// Gives up its place in line, or what it was granted there.
    pub fn stop_waiting(&self) {
        if let Some(Wish { place, .. }) = self.place.take() {
            if place.granted.get() {
                self.pool.give_back(self.origin, place.bytes);
            } else {
                self.pool.leave_line(&place);
            }
        }
    }

    /// Takes so many bytes even where they are not free: for what is there already, or is little.
    pub fn overdraw(&self, bytes: usize) {
        self.pool.take(self.origin, bytes);
        self.held.set(self.held.get() + bytes);
        self.restick();
    }

    /// Gives so many bytes back.
    pub fn release(&self, bytes: usize) {
        let held = self.held.get().checked_sub(bytes);
        self.held
            .set(held.expect("no more is given back than is held"));
        self.restick();
        self.pool.give_back(self.origin, bytes);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.stop_waiting();
        self.pool.give_back(self.origin, self.held.get());
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
    use std::net::IpAddr;
    use std::task::Waker;

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

    fn origin(last: u8) -> Origin {
        IpAddr::from([192, 0, 2, last]).into()
    }

    #[test]
    fn all_connections_of_an_address_are_one_and_so_are_those_of_an_ipv6_network() {
        let of = |text: &str| Origin::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(of("::ffff:192.0.2.7"), origin(7));
        assert_ne!(origin(7), origin(8));
        assert_eq!(of("2001:db8:0:1::7"), of("2001:db8:0:1:ffff::8"));
        assert_ne!(of("2001:db8:0:1::7"), of("2001:db8:0:2::7"));
    }

    #[test]
    fn an_address_that_holds_all_does_not_keep_another_behind_those_who_wait_for_it() {
        let pool = Rc::new(Pool::new(100));
        let holders: Vec<Share> = (0..10).map(|_| Share::of(&pool, origin(1))).collect();
        let waiting: Vec<Share> = (0..50).map(|_| Share::of(&pool, origin(1))).collect();
        assert!(holders.iter().all(|share| reserve(share, 10)));
        assert!(!waiting.iter().any(|share| reserve(share, 10)));
        let other = Share::of(&pool, origin(2));
        assert!(!reserve(&other, 15));
        holders[0].release(10);
        assert!(
            !waiting.iter().any(|share| reserve(share, 10)),
            "a large wish that is next is waited for"
        );
        holders[1].release(10);
        assert!(reserve(&other, 15));
        // A second one of the same address comes before those of the one that holds more.
        let second = Share::of(&pool, origin(2));
        assert!(!reserve(&second, 10));
        holders[2].release(10);
        assert!(reserve(&second, 10));
        drop((holders, other, second));
        assert_eq!(
            waiting.iter().filter(|share| reserve(share, 10)).count(),
            10
        );
        drop(waiting);
        assert!(pool.line.borrow().is_forgotten());
    }

    #[test]
    fn who_holds_what_only_they_could_give_back_after_they_are_served_are_served() {
        let pool = Rc::new(Pool::new(100));
        let mut cx = Context::from_waker(Waker::noop());
        let [first, second, third] = [(); 3].map(|()| Share::new(&pool));
        third.overdraw(10);
        first.overdraw(40);
        assert!(first.poll_reserve_stuck(&mut cx, 80).is_pending());
        second.overdraw(50);
        assert!(second.poll_reserve_stuck(&mut cx, 80).is_pending());
        // What comes to those who wait is stuck, too.
        second.overdraw(5);
        assert!(first.poll_reserve_stuck(&mut cx, 80).is_pending());
        drop(third);
        assert!(first.poll_reserve_stuck(&mut cx, 80).is_ready());
        assert!(second.poll_reserve_stuck(&mut cx, 80).is_pending(), "one");
        first.release(120);
        assert!(second.poll_reserve_stuck(&mut cx, 80).is_ready());
        assert_eq!((pool.used(), pool.stuck.get()), (135, 0));
        let gone = Share::new(&pool);
        gone.overdraw(7);
        assert!(gone.poll_reserve_stuck(&mut cx, 80).is_pending());
        assert_eq!(pool.stuck.get(), 7);
        drop((gone, second));
        assert_eq!((pool.used(), pool.stuck.get()), (0, 0));
    }

    #[test]
    fn a_fetch_that_waits_makes_answers_short() {
        let memory = Memory::new(0);
        let holder = Share::new(&memory.outbound);
        assert!(reserve(&holder, memory.outbound.free() / 2));
        let waiting = Share::new(&memory.outbound);
        assert!(!reserve(&waiting, memory.outbound.free() + 1));
        assert!(memory.short().answers);
        drop(holder);
        assert_eq!(memory.short(), Short::default());
    }

    proptest! {
        #[test]
        fn reserved_bytes_never_exceed_the_pool_and_whoever_waits_is_served_in_the_end(
            wishes in prop::collection::vec((1_usize..100, 0_u8..4), 1..40),
        ) {
            let pool = Rc::new(Pool::new(100));
            let shares: Vec<Share> = wishes
                .iter()
                .map(|(_, address)| Share::of(&pool, origin(*address)))
                .collect();
            let mut served = vec![false; wishes.len()];
            let mut order = Vec::new();
            while order.len() < wishes.len() {
                for (index, (bytes, _)) in wishes.iter().enumerate() {
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
            // Within an address: first come, first served.
            for address in 0..4 {
                let of_address = order.iter().filter(|index| wishes[**index].1 == address);
                prop_assert!(of_address.is_sorted(), "{order:?}");
            }
            drop(shares);
            prop_assert!(pool.line.borrow().is_forgotten());
        }

        #[test]
        fn a_single_wish_of_another_address_is_served_before_all_of_one_that_holds_everything(
            held in prop::collection::vec(1_usize..100, 1..20),
            waiting in prop::collection::vec(1_usize..100, 1..40),
            wish in 1_usize..100,
        ) {
            let all: usize = held.iter().sum();
            let wish = wish.min(all);
            let pool = Rc::new(Pool::new(all + 1));
            let of = |bytes: &Vec<usize>| -> Vec<Share> {
                bytes.iter().map(|_| Share::of(&pool, origin(1))).collect()
            };
            let (holders, in_line) = (of(&held), of(&waiting));
            let keeper = Share::of(&pool, origin(1));
            prop_assert!(reserve(&keeper, 1));
            for (share, bytes) in holders.iter().zip(&held) {
                prop_assert!(reserve(share, *bytes));
            }
            for (share, bytes) in in_line.iter().zip(&waiting) {
                prop_assert!(!reserve(share, *bytes));
            }
            let other = Share::of(&pool, origin(2));
            prop_assert!(!reserve(&other, wish));
            for holder in holders {
                drop(holder);
                if reserve(&other, wish) {
                    return Ok(());
                }
                for (share, bytes) in in_line.iter().zip(&waiting) {
                    prop_assert!(!reserve(share, *bytes), "it overtakes");
                }
            }
            prop_assert!(false, "it was never served");
        }
    }
}
