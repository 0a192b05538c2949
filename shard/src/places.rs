//! Places for work that may meet a device, or a file, that is stuck.

use crate::event::Credits;
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
}

impl Places {
    /// So many, each for so long, and so many that go on without one.
    pub(crate) fn new(count: usize, patience: Duration, late_max: usize) -> Self {
        Self {
            credits: Credits::new(count),
            patience,
            late: Cell::new(0),
            late_max,
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
        if self.late.get() >= self.late_max {
            return work.await;
        }
        drop(place);
        let _late = Late::begin(&self.late);
        work.await
    }
}

/// Counts one that is at work without a place, until it is dropped.
struct Late<'places>(&'places Cell<usize>);

impl<'places> Late<'places> {
    fn begin(late: &'places Cell<usize>) -> Self {
        late.set(late.get() + 1);
        Self(late)
    }
}

impl Drop for Late<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::runtime::simulated::{Simulation, current};
    use std::rc::Rc;

    const PATIENCE: Duration = Duration::from_millis(100);

    #[test]
    fn work_that_takes_too_long_holds_up_others_only_where_too_much_of_it_does() {
        Simulation::new(1).run(async {
            let places = Rc::new(Places::new(1, PATIENCE, 1));
            let (stuck, ended) = (Rc::<Cell<bool>>::default(), Rc::<Event>::default());
            stuck.set(true);
            let hang = || {
                let (places, stuck) = (Rc::clone(&places), Rc::clone(&stuck));
                let ended = Rc::clone(&ended);
                runtime::spawn_local(async move {
                    places.hold(ended.until(|| !stuck.get())).await;
                })
            };
            let now = || current().expect("it runs in a simulation").now();
            let first = hang();
            runtime::sleep(PATIENCE / 2).await;
            let begun = now();
            places.hold(async {}).await;
            assert!(now() - begun >= PATIENCE / 3, "its place was taken");
            let second = hang();
            runtime::sleep(PATIENCE * 2).await;
            // One is at work without a place: the other keeps its own.
            let third = runtime::spawn_local({
                let places = Rc::clone(&places);
                async move { places.hold(async {}).await }
            });
            runtime::sleep(PATIENCE * 10).await;
            let waits = places.credits.try_acquire();
            assert!(!waits, "the second has the only place");
            stuck.set(false);
            ended.notify();
            for work in [first, second, third] {
                work.join().await;
            }
            assert_eq!(places.late.get(), 0);
            assert!(places.credits.try_acquire());
        });
    }
}
