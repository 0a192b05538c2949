//! A core of its own for each test, with a bound on how long it may take.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses a part of this"
)]

use bytes::{Buf, BytesMut};
use felix_core::ByteStream;
use felix_net::{Reactor, TcpStream};
use glommio::{LocalExecutorBuilder, Placement};
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

/// No test here takes a second on an idle machine.
pub const TIME_MAX: Duration = Duration::from_secs(60);

/// Runs `check` on an executor and a reactor of its own, and fails if it has not ended in time.
pub fn on_core<T, F>(check: impl FnOnce(Reactor) -> F + Send + 'static) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    core_thread(check)()
}

/// Starts such a core; calling what this returns waits for its end.
pub fn core_thread<T, F>(check: impl FnOnce(Reactor) -> F + Send + 'static) -> impl FnOnce() -> T
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let (done, ended) = mpsc::channel();
    let core = LocalExecutorBuilder::new(Placement::Unbound)
        .io_memory(64 << 10)
        .preempt_timer(Duration::from_micros(200))
        .spawn(move || async move {
            let reactor = Reactor::new().unwrap();
            let run = glommio::spawn_local(reactor.run());
            let result = check(reactor.clone()).await;
            reactor.stop();
            run.await;
            done.send(result).unwrap();
        })
        .unwrap();
    move || match ended.recv_timeout(TIME_MAX) {
        Ok(result) => {
            core.join().unwrap();
            result
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("not ended after {TIME_MAX:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            panic!("the core failed: {:?}", core.join().err())
        }
    }
}

/// Lets other tasks and the reactor's loop run for a while. For "nothing happens" only.
pub async fn pause(duration: Duration) {
    glommio::timer::sleep(duration).await;
}

/// Polls once, with the waker of the calling task; `None` if pending.
pub async fn once<T>(mut poll: impl FnMut(&mut std::task::Context<'_>) -> Poll<T>) -> Option<T> {
    poll_fn(|cx| match poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

pub async fn recv(stream: &mut TcpStream, into: &mut BytesMut) -> io::Result<usize> {
    poll_fn(|cx| stream.poll_recv(cx, into, 1 << 20)).await
}

pub async fn recv_to_end(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut into = BytesMut::new();
    while recv(stream, &mut into).await? > 0 {}
    Ok(into.to_vec())
}

pub async fn send_all(stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = poll_fn(|cx| stream.poll_send(cx, &[IoSlice::new(bytes)])).await?;
        bytes.advance(count);
    }
    Ok(())
}

/// Sends `bytes` cut into `chunks` (over and over), closes the writing side, and receives all the
/// while; returns what came until the peer's end. Both directions wait at once.
pub async fn exchange(
    stream: &mut TcpStream,
    bytes: &[u8],
    chunks: &[usize],
) -> io::Result<Vec<u8>> {
    let mut chunk_sizes = chunks.iter().copied().cycle();
    let mut unsent = bytes;
    let mut closed = false;
    let mut received = BytesMut::new();
    poll_fn(|cx| {
        while !closed {
            if unsent.is_empty() {
                stream.close_write();
                closed = true;
                break;
            }
            // Three pieces at a time, so that partial sends end within pieces and between them.
            let size = chunk_sizes.next().unwrap().max(1);
            let pieces: Vec<_> = unsent.chunks(size).take(3).map(IoSlice::new).collect();
            match stream.poll_send(cx, &pieces) {
                Poll::Ready(Ok(count)) => unsent.advance(count),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
        }
        loop {
            let bytes_max = chunk_sizes.next().unwrap().max(1);
            match stream.poll_recv(cx, &mut received, bytes_max) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(count)) => assert!(count <= bytes_max),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await?;
    Ok(received.to_vec())
}

/// Sends back what comes, holding at most `held_bytes_max`, until the peer's end; then ends too.
pub async fn echo(mut stream: TcpStream, held_bytes_max: usize) -> io::Result<()> {
    let mut held = BytesMut::new();
    let mut ended = false;
    poll_fn(|cx| {
        loop {
            let mut progress = false;
            if !ended && held.len() < held_bytes_max {
                let room = held_bytes_max - held.len();
                match stream.poll_recv(cx, &mut held, room) {
                    Poll::Ready(Ok(count)) => {
                        ended = count == 0;
                        progress = true;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {}
                }
            }
            assert!(held.len() <= held_bytes_max);
            if !held.is_empty() {
                match stream.poll_send(cx, &[IoSlice::new(&held)]) {
                    Poll::Ready(Ok(count)) => {
                        held.advance(count);
                        progress = true;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {}
                }
            }
            if ended && held.is_empty() {
                stream.close_write();
                return Poll::Ready(Ok(()));
            }
            if !progress {
                return Poll::Pending;
            }
        }
    })
    .await
}

/// Bytes that differ at every distance a bug is likely to shift them by.
pub fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
