//! Where an epoll set meets the executor: the only module that knows glommio.
//!
//! glommio 0.9 keeps its wait for a raw descriptor to itself. It does wait for one before a
//! `TcpStream` reads, and that is what we use: wrap a duplicate of the epoll descriptor in a
//! `TcpStream`, read one byte, and await. The wait ends when the set has an event; then the stream
//! tries the read, and the kernel answers ENOTSOCK because an epoll set is no socket. ENOTSOCK
//! therefore means "ready". After it the wrapper would fail at once for ever, so each wait has a
//! fresh one.

use futures_util::io::{AsyncRead, AsyncReadExt};
use glommio::net::TcpStream;
use std::future::Future;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;

/// A future that resolves when `epoll` has an event. To be made and awaited on a core's executor.
///
/// Dropping the future withdraws the wait and closes the duplicate. The executor lets go of the
/// duplicate's file with its next round.
///
/// # Errors
/// No descriptor is left for the duplicate, or (from the future) glommio does something else than
/// the version this was written for.
pub(crate) fn readable(
    epoll: BorrowedFd<'_>,
) -> io::Result<impl Future<Output = io::Result<()>> + 'static> {
    let probe = wrap(epoll.try_clone_to_owned()?);
    Ok(ready(probe))
}

/// Resolves after `duration`. For backing off only: nothing here waits for an event by a timer.
pub(crate) async fn pause(duration: Duration) {
    glommio::timer::sleep(duration).await;
}

/// Resolves when every task that can run has run, and the executor has looked at its own events
/// (timers, completed flushes, other threads' wake-ups).
///
/// A task that wakes itself instead would not allow that: the executor looks at its events only
/// when no task can run, or when its preempt timer fires, 100 ms later by default.
pub(crate) async fn turn() {
    glommio::timer::sleep(TURN).await;
}

/// Over by the time that the executor looks.
const TURN: Duration = Duration::from_micros(1);

async fn ready(mut probe: impl AsyncRead + Unpin) -> io::Result<()> {
    match probe.read(&mut [0]).await {
        Err(error) if error.raw_os_error() == Some(libc::ENOTSOCK) => Ok(()),
        Err(error) => Err(error),
        Ok(count) => Err(io::Error::other(format!(
            "an epoll set was read like a socket: {count}"
        ))),
    }
}

#[expect(
    unsafe_code,
    reason = "glommio takes ownership of a descriptor only in this way"
)]
fn wrap(fd: OwnedFd) -> TcpStream {
    // SAFETY: `into_raw_fd` gives up our ownership of an open descriptor, and the wrapper takes it
    // and closes it when dropped. That it is no socket costs no soundness: system calls refuse it.
    unsafe { TcpStream::from_raw_fd(fd.into_raw_fd()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Epoll;
    use glommio::{LocalExecutorBuilder, Placement};
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;
    use std::task::Poll;

    /// Runs `check` on an executor of its own, and fails if it has not ended in time.
    fn on_core<F: Future<Output = ()>>(check: impl FnOnce() -> F + Send + 'static) {
        let (done, ended) = mpsc::channel();
        let core = LocalExecutorBuilder::new(Placement::Unbound)
            .io_memory(64 << 10)
            .preempt_timer(Duration::from_micros(200))
            .spawn(move || async move {
                check().await;
                done.send(()).unwrap();
            })
            .unwrap();
        if ended.recv_timeout(Duration::from_secs(20)) == Err(mpsc::RecvTimeoutError::Timeout) {
            panic!("the wait has not ended: glommio no longer polls the wrapped descriptor");
        }
        core.join().unwrap();
    }

    fn poll_once<F: Future + Unpin>(wait: &mut F) -> Poll<F::Output> {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::Pin::new(wait).poll(&mut cx)
    }

    #[test]
    fn glommio_0_9_ends_a_read_on_an_epoll_set_with_enotsock() {
        on_core(|| async {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let epoll = Epoll::new().unwrap();
            epoll.add(theirs.as_fd(), 1).unwrap(); // A fresh socket is writable: an edge.
            theirs.write_all(b"x").unwrap();
            let mut probe = wrap(epoll.as_fd().try_clone_to_owned().unwrap());
            let error = probe.read(&mut [0]).await.unwrap_err();
            assert_eq!(
                error.raw_os_error(),
                Some(libc::ENOTSOCK),
                "readiness.rs was written against glommio 0.9.0, whose TcpStream ends a read on \
                 an epoll set with ENOTSOCK once the set has an event; this version answers {error}"
            );
            let again = poll_once(&mut probe.read(&mut [0])).map_err(|error| error.raw_os_error());
            assert_eq!(
                again,
                Poll::Ready(Err(Some(libc::ENOTSOCK))),
                "a wrapper serves once"
            );
            drop(ours);
        });
    }

    #[test]
    fn a_wait_resolves_at_an_event_and_not_before() {
        on_core(|| async {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let epoll = Epoll::new().unwrap();
            epoll.add(ours.as_fd(), 1).unwrap();
            let mut events = crate::sys::Events::with_room(4);
            assert_eq!(
                epoll.poll(&mut events).unwrap(),
                1,
                "the edge of the new socket"
            );

            for _ in 0..3 {
                assert_eq!(epoll.poll(&mut events).unwrap(), 0);
                let mut wait = Box::pin(readable(epoll.as_fd()).unwrap());
                assert!(poll_once(&mut wait).is_pending());
                pause(Duration::from_millis(2)).await; // Lets the executor submit the wait.
                assert!(
                    poll_once(&mut wait).is_pending(),
                    "an empty set is not ready"
                );
                theirs.write_all(b"x").unwrap();
                wait.await.unwrap();
                assert_eq!(epoll.poll(&mut events).unwrap(), 1);
            }
        });
    }

    #[test]
    fn a_withdrawn_wait_leaves_the_set_usable() {
        on_core(|| async {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let epoll = Epoll::new().unwrap();
            epoll.add(ours.as_fd(), 1).unwrap();
            let mut events = crate::sys::Events::with_room(4);
            epoll.poll(&mut events).unwrap();
            for submitted in [false, true, false, true] {
                let mut wait = Box::pin(readable(epoll.as_fd()).unwrap());
                assert!(poll_once(&mut wait).is_pending());
                if submitted {
                    pause(Duration::from_millis(2)).await;
                }
                drop(wait);
            }
            theirs.write_all(b"x").unwrap();
            readable(epoll.as_fd()).unwrap().await.unwrap();
            assert_eq!(epoll.poll(&mut events).unwrap(), 1);
        });
    }
}
