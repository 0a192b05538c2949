//! A watchful core looks for work before it sleeps, sees everything meanwhile, and sleeps in the
//! end. One that is not sleeps at once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use bytes::BytesMut;
use common::{TIME_MAX, echo, exchange, pattern, pause, recv, send_all};
use felix_core::{Clock, Monotonic, Timestamp};
use felix_net::{Reactor, TcpListener, TcpStream};
use futures_util::future::join_all;
use futures_util::task::AtomicWaker;
use glommio::{LocalExecutorBuilder, Placement};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// Longer than a test takes, stalls of the machine included.
const LONG: Duration = Duration::from_secs(120);

struct SinceStart(Instant);

impl Clock for SinceStart {
    fn wall(&self) -> Timestamp {
        Timestamp(0)
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic(self.0.elapsed())
    }
}

#[expect(clippy::disallowed_methods, reason = "a test owns its clock")]
fn clock() -> Rc<dyn Clock> {
    Rc::new(SinceStart(Instant::now()))
}

/// Starts a core whose reactor is watchful for so long; calling what this returns waits for its
/// end.
fn core<T, F>(
    length: Duration,
    check: impl FnOnce(Reactor) -> F + Send + 'static,
) -> impl FnOnce() -> T
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let (done, ended) = mpsc::channel();
    let core = LocalExecutorBuilder::new(Placement::Unbound)
        .io_memory(64 << 10)
        .preempt_timer(Duration::from_micros(200))
        .spawn(move || async move {
            let reactor = Reactor::watchful(length, clock()).unwrap();
            let run = glommio::spawn_local(reactor.run());
            let result = check(reactor.clone()).await;
            reactor.stop();
            run.await;
            done.send(result).unwrap();
        })
        .unwrap();
    move || {
        let result = ended.recv_timeout(TIME_MAX).expect("the core ends in time");
        core.join().unwrap();
        result
    }
}

async fn ping_pong(stream: &mut TcpStream, rounds: u16) {
    let mut into = BytesMut::new();
    for round in 0..rounds {
        send_all(stream, &round.to_be_bytes()).await.unwrap();
        while into.len() < 2 {
            assert!(recv(stream, &mut into).await.unwrap() > 0);
        }
        assert_eq!(into.split_to(2), round.to_be_bytes().as_slice());
        assert!(into.is_empty());
    }
}

/// A core that listens and echoes one connection, and how often it slept between the first
/// request and the last.
fn echo_core(length: Duration) -> (SocketAddr, impl FnOnce() -> u64) {
    let (tell, told) = mpsc::channel();
    let server = core(length, move |reactor| async move {
        let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), &reactor).unwrap();
        tell.send(listener.local_addr()).unwrap();
        let mut stream = listener.accept().await.unwrap();
        let mut into = BytesMut::new();
        recv(&mut stream, &mut into).await.unwrap();
        send_all(&mut stream, &into).await.unwrap();
        let before = reactor.metrics().parks.value();
        echo(stream, 1000).await.unwrap();
        reactor.metrics().parks.value() - before
    });
    (told.recv().unwrap(), server)
}

fn parks_during_a_ping_pong(length: Duration) -> (u64, u64) {
    let (addr, server) = echo_core(length);
    let client = core(length, move |reactor| async move {
        let mut stream = TcpStream::connect(addr, &reactor).await.unwrap();
        ping_pong(&mut stream, 1).await;
        let before = reactor.metrics().parks.value();
        ping_pong(&mut stream, 500).await;
        reactor.metrics().parks.value() - before
    });
    (client(), server())
}

#[test]
fn watchful_cores_never_sleep_while_a_ping_pong_goes_on() {
    assert_eq!(parks_during_a_ping_pong(LONG), (0, 0));
    let (client, server) = parks_during_a_ping_pong(Duration::ZERO);
    assert!(
        client + server > 0,
        "otherwise this test measures something else"
    );
}

#[test]
fn what_watchful_cores_send_each_other_arrives_whole() {
    let (tell, told) = mpsc::channel();
    let server = core(LONG, move |reactor| async move {
        let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), &reactor).unwrap();
        tell.send(listener.local_addr()).unwrap();
        let mut echoes = Vec::new();
        for _ in 0..10 {
            let stream = listener.accept().await.unwrap();
            echoes.push(glommio::spawn_local(echo(stream, 10_000)));
        }
        for echo in echoes {
            echo.await.unwrap();
        }
    });
    let addr = told.recv().unwrap();
    let client = core(LONG, move |reactor| async move {
        join_all((0..10).map(|seed| {
            let reactor = &reactor;
            async move {
                let sent = pattern(200_000, seed);
                let mut stream = TcpStream::connect(addr, reactor).await.unwrap();
                let echoed = exchange(&mut stream, &sent, &[1, 999, 70_000]).await;
                assert!(echoed.unwrap() == sent);
            }
        }))
        .await;
    });
    client();
    server();
}

#[test]
fn a_watchful_core_sees_its_timers_and_what_other_threads_wake() {
    let waker = Arc::new(AtomicWaker::new());
    let count = Arc::new(AtomicUsize::new(0));
    let (here, rings) = (Arc::clone(&waker), Arc::clone(&count));
    let watching = core(LONG, move |reactor| async move {
        pause(Duration::from_millis(2)).await;
        let parks = reactor.metrics().parks.value();
        reactor.stir();
        poll_fn(|cx| {
            here.register(cx.waker());
            if rings.load(Ordering::SeqCst) == 0 {
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
        // The sleep before the stir may be under way.
        assert!(reactor.metrics().parks.value() <= parks + 1);
    });
    std::thread::spawn(move || {
        count.store(1, Ordering::SeqCst);
        waker.wake();
    })
    .join()
    .unwrap();
    watching();
}

#[test]
fn a_watchful_core_sleeps_when_nothing_comes_and_looks_again_when_stirred() {
    core(Duration::from_millis(1), |reactor| async move {
        let metrics = reactor.metrics();
        for _ in 0..3 {
            // However long the machine stalls: in the end it asks no more.
            let mut polls = metrics.polls.value();
            loop {
                pause(Duration::from_millis(20)).await;
                let now = metrics.polls.value();
                if now == polls {
                    break;
                }
                polls = now;
            }
            let parks = metrics.parks.value();
            reactor.stir();
            pause(Duration::from_millis(20)).await;
            assert!(metrics.polls.value() > polls + 1, "it looks for work");
            assert!(metrics.parks.value() > parks, "and sleeps again");
        }
    })();
}

#[test]
fn a_core_that_is_not_watchful_asks_nothing_while_idle_and_is_not_stirred() {
    core(Duration::ZERO, |reactor| async move {
        pause(Duration::from_millis(5)).await;
        let metrics = reactor.metrics();
        let before = (metrics.polls.value(), metrics.parks.value());
        reactor.stir();
        pause(Duration::from_millis(50)).await;
        assert_eq!((metrics.polls.value(), metrics.parks.value()), before);
    })();
}
