//! Work that would hold a CPU core for too long, and is done elsewhere.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::sync_channel;

/// Work for another thread. It leaves its result where whoever gave it finds it.
pub type Job = Box<dyn FnOnce() + Send>;

/// The wait for a job. Dropped, it gives the job up: what has not begun may then never run.
pub type JobDone = Pin<Box<dyn Future<Output = ()>>>;

/// Threads beside the cores, seen from one core.
pub trait Blocking {
    /// Has the job run elsewhere; resolves on this core once it has. Jobs begin in the order in
    /// which their futures are first polled: where too many are under way, further ones wait.
    fn run(&self, job: Job) -> JobDone;
}

/// Runs `work` elsewhere and returns what it returns.
///
/// Panics if the work did: on its own core, as it would have there.
pub async fn run<T: Send + 'static>(
    blocking: &dyn Blocking,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (give, take) = sync_channel(1);
    let job = move || {
        // Nobody takes it where the wait was given up.
        drop(give.try_send(work()));
    };
    blocking.run(Box::new(job)).await;
    take.try_recv()
        .expect("a job that is done has left its result")
}

/// No other thread: every job runs at once where it is given. For programs without cores, and for
/// tests that are not about this.
#[derive(Clone, Copy, Debug, Default)]
pub struct Here;

impl Blocking for Here {
    fn run(&self, job: Job) -> JobDone {
        Box::pin(async move { job() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn a_result_comes_back_from_where_the_job_ran() {
        let name = String::from("work");
        let mut ran = pin!(run(&Here, move || name.len()));
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(ran.as_mut().poll(&mut cx), Poll::Ready(4));
    }
}
