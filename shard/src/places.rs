//! Places for work that may meet a device, or a file, that is stuck.

use crate::event::{Credits, Event};
use crate::runtime;
use futures_util::future::{Either, select};
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

/// A few places, taken in line. Whoever is at work for too long gives its place to the next and goes
/// on without one, so that what is stuck holds up nobody else. A few do that at most, because they still
/// take a thread, or space; with more than that the others wait. Lives on its core.
#[derive(Debug)]
pub(crate) struct Places {
    credits: Credits,
    patience: Duration,
    /// Those at work without a place.
    late: Cell<usize>,
    late_max: usize,
    /// There is one less of them.
    fewer: Event,
}

impl Places {
    /// So many, each for so long, and so many that go on without one.
    pub(crate) fn new(count: usize, patience: Duration, late_max: usize) -> Self {
        Self {
            credits: Credits::new(count),
            patience,
            late: Cell::new(0),
            late_max,
            fewer: Event::default(),
        }
    }

    /// Does the work once there is a place for it.
    pub(crate) async fn hold<T>(&self, work: impl Future<Output = T>) -> T {
        let place = self.credits.permit().await;
        let work = pin!(work);
        let pause = pin!(runtime::sleep(self.patience));
        let work = match select(work, pause).await {
            Either::Left((done, _)) => return done,
            Either::Right(((), work)) => work,
        };
        // Where too many are, it keeps its place until one of them has ended.
        let may_go_on = pin!(self.fewer.until(|| self.late.get() < self.late_max));
        let work = match select(work, may_go_on).await {
            Either::Left((done, _)) => return done,
            Either::Right(((), work)) => work,
        };
        drop(place);
        let _late = Late::begin(self);
        work.await
    }
}

/// Counts one that is at work without a place, until it is dropped.
struct Late<'places>(&'places Places);

impl<'places> Late<'places> {
    fn begin(places: &'places Places) -> Self {
        places.late.set(places.late.get() + 1);
        Self(places)
    }
}

impl Drop for Late<'_> {
    fn drop(&mut self) {
        self.0.late.set(self.0.late.get() - 1);
        self.0.fewer.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::simulated::{Simulation, current};
    use std::rc::Rc;

    const PATIENCE: Duration = Duration::from_millis(100);

    #[test]
    fn work_that_takes_too_long_holds_up_others_only_where_too_much_of_it_does() {
        Simulation::new(1).run(async {
            let places = Rc::new(Places::new(1, PATIENCE, 1));
            // So many are let go, in the order in which they began.
            let (let_go, ended) = (Rc::<Cell<u32>>::default(), Rc::<Event>::default());
            let hang = |number| {
                let (places, let_go) = (Rc::clone(&places), Rc::clone(&let_go));
                let ended = Rc::clone(&ended);
                runtime::spawn_local(async move {
                    places.hold(ended.until(|| let_go.get() > number)).await;
                })
            };
            let now = || current().expect("it runs in a simulation").now();
            let first = hang(0);
            runtime::sleep(PATIENCE / 2).await;
            let begun = now();
            places.hold(async {}).await;
            assert!(now() - begun >= PATIENCE / 3, "its place was taken");
            let second = hang(1);
            runtime::sleep(PATIENCE * 2).await;
            // One is at work without a place: the other keeps its own.
            let third = runtime::spawn_local({
                let places = Rc::clone(&places);
                async move { places.hold(async {}).await }
            });
            runtime::sleep(PATIENCE * 10).await;
            let waits = places.credits.try_acquire();
            assert!(!waits, "the second has the only place");
            let_go.set(1);
            ended.notify();
            first.join().await;
            // There is room for another without a place, so the third has the second's.
            third.join().await;
            assert_eq!(places.late.get(), 1);
            let_go.set(2);
            ended.notify();
            second.join().await;
            assert_eq!(places.late.get(), 0);
            assert!(places.credits.try_acquire());
        });
    }
}
