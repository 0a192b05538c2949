//! A connection that is not read for a while, since its tenant has published more than it may.

use crate::context::Context as Shared;
use crate::metrics::KafkaMetrics;
use felix_core::Monotonic;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Context;
use std::time::Duration;

/// How long a tenant is held back, in the unit that the wire has, so that the connection is muted for
/// exactly as long as its client is told (T103): who waits as told is not made to wait again.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Throttle {
    millis: i32,
}

impl Throttle {
    /// At least so long, in whole milliseconds.
    pub(crate) fn of(throttle: Duration) -> Self {
        let millis = throttle.as_nanos().div_ceil(1_000_000);
        Self {
            millis: i32::try_from(millis).unwrap_or(i32::MAX),
        }
    }

    /// As it is told.
    pub(crate) fn to_wire(self) -> i32 {
        self.millis
    }

    /// As it is waited for.
    fn wait(self) -> Duration {
        Duration::from_millis(u64::from(self.millis.unsigned_abs()))
    }

    fn is_none(self) -> bool {
        self.millis == 0
    }
}

/// Whether a connection is muted, and until when. Lives with its connection.
#[derive(Default)]
pub(crate) struct Mute(Option<Muted>);

struct Muted {
    until: Monotonic,
    over: Pin<Box<dyn Future<Output = ()>>>,
    _counted: Counted,
}

impl Mute {
    /// An answer says to wait this long from now. Answers that say so together are not added up: each
    /// tells of all that is owed.
    pub(crate) fn extend<S>(&mut self, throttle: Throttle, context: &Shared<S>) {
        if throttle.is_none() {
            return;
        }
        let metrics = &context.metrics;
        metrics.throttles.increment();
        metrics
            .throttle_ms
            .add(u64::from(throttle.millis.unsigned_abs()));
        let until = context.clock.monotonic().after(throttle.wait());
        if self.0.as_ref().is_some_and(|muted| muted.until >= until) {
            return;
        }
        self.0 = Some(Muted {
            until,
            over: context.timer.sleep(throttle.wait()),
            _counted: Counted::new(metrics),
        });
    }

    /// Whether nothing is to be read or begun.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the time has come, just now, to read on.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(muted) = &mut self.0 else {
            return false;
        };
        let is_over = muted.over.as_mut().poll(cx).is_ready();
        if is_over {
            self.0 = None;
        }
        is_over
    }
}

impl fmt::Debug for Mute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = self.0.as_ref().map(|muted| muted.until);
        f.debug_tuple("Mute").field(&until).finish()
    }
}

/// Counts a connection as muted for as long as it is.
struct Counted(Rc<KafkaMetrics>);

impl Counted {
    fn new(metrics: &Rc<KafkaMetrics>) -> Self {
        metrics.throttled_connections.add(1);
        Self(Rc::clone(metrics))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.throttled_connections.add(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throttle_is_never_shorter_than_the_debt_and_fits_the_wire() {
        for (nanos, millis) in [
            (0, 0),
            (1, 1),
            (1_000_000, 1),
            (1_000_001, 2),
            (u64::MAX, i32::MAX),
        ] {
            let throttle = Throttle::of(Duration::from_nanos(nanos));
            assert_eq!(throttle.to_wire(), millis);
        }
    }
}
