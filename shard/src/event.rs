//! Waiting within one CPU core: no atomics, nothing crosses a thread.

use crate::runtime;
use felix_core::Stalls;
use felix_core::stalls::Work;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Tells everyone on this core who waits for a condition to look again.
#[derive(Debug, Default)]
pub(crate) struct Event {
    waiting: RefCell<Vec<Waker>>,
}

impl Event {
    /// Something changed.
    pub(crate) fn notify(&self) {
        // Taken first: a waker may run code that waits again.
        let waiting = mem::take(&mut *self.waiting.borrow_mut());
        for waker in waiting {
            waker.wake();
        }
    }

    /// Resolves once `condition` holds, which is looked at now and after every notice.
    pub(crate) async fn until(&self, mut condition: impl FnMut() -> bool) {
        poll_fn(|cx| {
            if condition() {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

#[derive(Debug)]
struct Promised<T> {
    value: Option<T>,
    broken: bool,
    waker: Option<Waker>,
}

/// The giving end of one value. Dropping it unkept tells the other end that nothing comes.
#[derive(Debug)]
pub(crate) struct Promise<T>(Rc<RefCell<Promised<T>>>);

/// The receiving end of one value: `None` where the promise was dropped.
#[derive(Debug)]
pub(crate) struct Answer<T>(Rc<RefCell<Promised<T>>>);

/// A promise and its answer.
pub(crate) fn promise<T>() -> (Promise<T>, Answer<T>) {
    let shared = Rc::new(RefCell::new(Promised {
        value: None,
        broken: false,
        waker: None,
    }));
    (Promise(Rc::clone(&shared)), Answer(shared))
}

impl<T> Promise<T> {
    /// Whether somebody still waits for it.
    pub(crate) fn is_wanted(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    /// Gives the value.
    pub(crate) fn keep(self, value: T) {
        self.0.borrow_mut().value = Some(value);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let waker = {
            let mut promised = self.0.borrow_mut();
            promised.broken = true;
            promised.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Answer<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut promised = self.0.borrow_mut();
        if let Some(value) = promised.value.take() {
            return Poll::Ready(Some(value));
        }
        if promised.broken {
            return Poll::Ready(None);
        }
        promised.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// A fixed number of permissions, given out first come, first served.
#[derive(Debug)]
pub(crate) struct Credits {
    free: Cell<usize>,
    waiting: RefCell<VecDeque<Rc<Turn>>>,
}

#[derive(Debug, Default)]
struct Turn {
    granted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Credits {
    /// `count` of them.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            free: Cell::new(count),
            waiting: RefCell::default(),
        }
    }

    /// Takes one, if there is one and nobody waits for it.
    pub(crate) fn try_acquire(&self) -> bool {
        let free = self.free.get();
        if free == 0 || !self.waiting.borrow().is_empty() {
            return false;
        }
        self.free.set(free - 1);
        true
    }

    /// Takes one, waiting in line.
    pub(crate) fn acquire(&self) -> Acquire<'_> {
        Acquire {
            credits: self,
            turn: None,
        }
    }

    /// [`acquire`](Self::acquire), and given back by itself.
    pub(crate) async fn permit(&self) -> Permit<'_> {
        self.acquire().await;
        Permit(self)
    }

    /// Gives one back: to the first in line, if somebody waits.
    pub(crate) fn release(&self) {
        let first = self.waiting.borrow_mut().pop_front();
        match first {
            None => self.free.set(self.free.get() + 1),
            Some(turn) => {
                turn.granted.set(true);
                let waker = turn.waker.borrow_mut().take();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }

    /// Serves everybody in line, whatever it costs: there is nothing left to be careful with.
    pub(crate) fn release_all_waiting(&self) {
        while !self.waiting.borrow().is_empty() {
            self.release();
        }
    }
}

/// A credit that is given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit<'credits>(&'credits Credits);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Waits for a credit. Dropping it gives up the place in line, or the credit already granted.
#[derive(Debug)]
pub(crate) struct Acquire<'credits> {
    credits: &'credits Credits,
    turn: Option<Rc<Turn>>,
}

impl Future for Acquire<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let credits = self.credits;
        if self.turn.is_none() && credits.try_acquire() {
            return Poll::Ready(());
        }
        let turn = self.turn.get_or_insert_with(|| {
            let turn = Rc::new(Turn::default());
            credits.waiting.borrow_mut().push_back(Rc::clone(&turn));
            turn
        });
        if turn.granted.get() {
            // The credit belongs to the caller from here on.
            self.turn = None;
            return Poll::Ready(());
        }
        turn.waker.replace(Some(cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        if turn.granted.get() {
            self.credits.release();
        } else {
            self.credits
                .waiting
                .borrow_mut()
                .retain(|other| !Rc::ptr_eq(other, &turn));
        }
    }
}

/// Lets every other task that is ready run once.
pub(crate) async fn step_aside() {
    let mut stepped = false;
    poll_fn(|cx| {
        if stepped {
            return Poll::Ready(());
        }
        stepped = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Work that runs beside the requests of a core and has ended before the core does.
#[derive(Debug)]
pub(crate) struct Tasks {
    running: Cell<usize>,
    changed: Event,
    stalls: Rc<Stalls>,
}

impl Tasks {
    /// None yet. `stalls` is told how long each of their turns takes.
    pub(crate) fn new(stalls: Rc<Stalls>) -> Self {
        Self {
            running: Cell::new(0),
            changed: Event::default(),
            stalls,
        }
    }

    /// Runs `work` on this core's executor.
    pub(crate) fn spawn(
        self: &Rc<Self>,
        name: &'static str,
        work: impl Future<Output = ()> + 'static,
    ) {
        self.running.set(self.running.get() + 1);
        let tasks = Rc::clone(self);
        let work = Rc::clone(&self.stalls).watch(Work::Shard, name, work);
        runtime::spawn_local(async move {
            work.await;
            tasks.running.set(tasks.running.get() - 1);
            tasks.changed.notify();
        })
        .detach();
    }

    /// Resolves when none runs. An executor must not end before.
    pub(crate) async fn ended(&self) {
        self.changed.until(|| self.running.get() == 0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::pin;

    #[test]
    fn credits_are_served_in_line_and_a_dropped_place_passes_on() {
        let credits = Credits::new(1);
        assert!(credits.acquire().now_or_never().is_some());
        let mut first = Box::pin(credits.acquire());
        let mut second = pin!(credits.acquire());
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        credits.release();
        assert!(
            second.as_mut().now_or_never().is_none(),
            "the first in line has it"
        );
        drop(first);
        assert!(second.as_mut().now_or_never().is_some());
        credits.release();
        assert!(credits.try_acquire());
        assert!(!credits.try_acquire());
    }

    #[test]
    fn a_dropped_promise_says_that_nothing_comes() {
        let (kept, answer) = promise();
        kept.keep(7);
        assert_eq!(answer.now_or_never(), Some(Some(7)));
        let (dropped, answer) = promise::<u8>();
        drop(dropped);
        assert_eq!(answer.now_or_never(), Some(None));
    }
}
