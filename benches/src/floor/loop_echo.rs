//! The echo on the loop that a broker's core runs: what of the distance to the bare epoll set is
//! the executor and the reactor, before any of the broker's work.

use super::answers::Answers;
use super::frames::{self, Frames};
use super::{FloorSettings, announce, no_socket};
use crate::problem::Problem;
use crate::system_clock::SystemClock;
use bytes::BytesMut;
use felix_core::ByteStream;
use felix_net::{Bound, Reactor, TcpListener, TcpStream};
use glommio::{LocalExecutorBuilder, Placement, PoolPlacement};
use rustix::thread::{MembarrierCommand, membarrier};
use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::time::Duration;

// The broker's own figures for its executors.
const IO_MEMORY_BYTES: usize = 64 << 10;
const PREEMPT_TIMER: Duration = Duration::from_micros(200);
const BLOCKING_THREADS: usize = 8;

/// Received at a time: small requests together, and large ones in few pieces.
const RECEIVE_BYTES: usize = 64 << 10;

/// Serves on one pinned executor.
pub(super) fn serve(settings: &FloorSettings) -> Result<Infallible, Problem> {
    // As in the broker: before any thread, so that first sleeps are not slow. A kernel without it
    // makes sleeping slower and nothing else.
    let registered = membarrier(MembarrierCommand::RegisterPrivateExpedited);
    drop(registered.map_err(io::Error::from));
    let bound = Bound::new(settings.listen).map_err(|error| no_socket(settings.listen, &error))?;
    let executor = LocalExecutorBuilder::new(Placement::Fixed(settings.cpu))
        .blocking_thread_pool_placement(PoolPlacement::Unbound(BLOCKING_THREADS))
        .io_memory(IO_MEMORY_BYTES)
        .preempt_timer(PREEMPT_TIMER)
        .make()
        .map_err(|error| {
            let cpu = settings.cpu;
            Problem::new(format!("no executor on processor {cpu}: {error}"))
        })?;
    executor.run(live(bound, settings.clone()))
}

async fn live(bound: Bound, settings: FloorSettings) -> Result<Infallible, Problem> {
    let ended = |error: io::Error| Problem::new(format!("the loop ended: {error}"));
    let reactor = Reactor::watchful(settings.spin(), Rc::new(SystemClock)).map_err(ended)?;
    let address = bound.local_addr();
    let listener = bound.adopt(&reactor).map_err(ended)?;
    glommio::spawn_local(reactor.run()).detach();
    announce(Ok(address))?;
    Err(ended(accept(listener, settings.answer_bytes).await))
}

/// Accepts until the listener breaks.
async fn accept(mut listener: TcpListener, answer_bytes: usize) -> io::Error {
    let template = Rc::new(RefCell::new(frames::answer(answer_bytes)));
    loop {
        match listener.accept().await {
            Ok(stream) => {
                let template = Rc::clone(&template);
                glommio::spawn_local(async move { answer(stream, &template).await }).detach();
            }
            Err(error) => return error,
        }
    }
}

/// Answers until the peer hangs up or sends what is no request.
async fn answer(mut stream: TcpStream, template: &RefCell<Vec<u8>>) {
    let mut frames = Frames::default();
    let mut answers = Answers::default();
    let mut received = BytesMut::with_capacity(RECEIVE_BYTES);
    loop {
        let receive = poll_fn(|cx| stream.poll_recv(cx, &mut received, RECEIVE_BYTES));
        let Ok(1..) = receive.await else { return };
        let mut rest = &received[..];
        while !rest.is_empty() {
            let Ok((taken, ended)) = frames.take(rest) else {
                return;
            };
            if let Some(correlation) = ended {
                answers.owe(correlation);
            }
            rest = &rest[taken..];
        }
        received.clear();
        if send(&mut stream, &mut answers, template).await.is_err() {
            return;
        }
    }
}

async fn send(
    stream: &mut TcpStream,
    answers: &mut Answers,
    template: &RefCell<Vec<u8>>,
) -> io::Result<()> {
    // Each poll borrows the template anew: others patch it while this one waits.
    while poll_fn(|cx| {
        let mut template = template.borrow_mut();
        let next = answers.next(&mut template);
        if next.is_empty() {
            return Ok(false).into();
        }
        let sent = stream.poll_send(cx, &[IoSlice::new(next)]);
        sent.map_ok(|sent| {
            answers.sent(sent, &template);
            true
        })
    })
    .await?
    {}
    Ok(())
}
