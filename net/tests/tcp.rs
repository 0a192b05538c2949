//! What a TCP stream promises, over loopback.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use bytes::BytesMut;
use common::{echo, exchange, on_core, once, pattern, pause, recv, recv_to_end, send_all};
use felix_core::ByteStream;
use felix_net::{Reactor, TcpListener, TcpStream};
use futures_util::future::join_all;
use futures_util::join;
use proptest::prelude::*;
use socket2::SockRef;
use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

/// A connection whose other end is a plain blocking socket.
async fn accept_from_outside(reactor: &Reactor) -> (TcpStream, std::net::TcpStream) {
    let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), reactor).unwrap();
    let outside = std::net::TcpStream::connect(listener.local_addr()).unwrap();
    let stream = listener.accept().await.unwrap();
    assert_eq!(stream.peer_addr(), outside.local_addr().unwrap());
    (stream, outside)
}

async fn pair(reactor: &Reactor) -> (TcpStream, TcpStream) {
    let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), reactor).unwrap();
    let connect = TcpStream::connect(listener.local_addr(), reactor);
    let (accepted, connected) = join!(listener.accept(), connect);
    (accepted.unwrap(), connected.unwrap())
}

/// Sends until the connection takes no more, and says how much it took. A turn that is over also
/// looks pending for a moment, so that only a lasting refusal counts.
async fn fill(stream: &mut TcpStream, mut bytes: &[u8]) -> usize {
    let before = bytes.len();
    let mut refusals = 0;
    while refusals < 5 {
        match once(|cx| stream.poll_send(cx, &[IoSlice::new(bytes)])).await {
            Some(count) => {
                bytes = bytes.split_at(count.unwrap()).1;
                refusals = 0;
            }
            None => {
                refusals += 1;
                pause(Duration::from_millis(2)).await;
            }
        }
    }
    before - bytes.len()
}

proptest! {
    // No shrinking: a failure here may be a hang, and each try then takes a minute.
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 0, ..ProptestConfig::default() })]
    #[test]
    fn echo_equals_what_was_sent_however_it_was_cut(
        length in 0_usize..600_000,
        chunks in prop::collection::vec(prop_oneof![1_usize..64, 1_usize..100_000], 1..20),
        held_bytes_max in 1_usize..50_000,
        seed in any::<u64>(),
    ) {
        // Tiny buffers with tiny chunks make millions of calls and prove nothing more.
        let length = length.min(chunks.iter().sum::<usize>() * 200).min(held_bytes_max * 500);
        let sent = pattern(length, seed);
        let expected = sent.clone();
        let received = on_core(move |reactor| async move {
            let (server, mut client) = pair(&reactor).await;
            let (echoed, received) =
                join!(echo(server, held_bytes_max), exchange(&mut client, &sent, &chunks));
            echoed.unwrap();
            received.unwrap()
        });
        prop_assert!(received == expected, "{} of {} bytes", received.len(), expected.len());
    }
}

#[test]
fn slow_reader_loses_nothing_and_the_sender_holds_little() {
    on_core(|reactor| async move {
        let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), &reactor).unwrap();
        let addr = listener.local_addr();
        let (start, started) = mpsc::channel::<()>();
        let outside = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let outside = outside.unwrap();
        outside.set_recv_buffer_size(4096).unwrap();
        outside.connect(&addr.into()).unwrap();
        let reader = std::thread::spawn(move || {
            started.recv().unwrap();
            let mut received = Vec::new();
            let mut outside = std::net::TcpStream::from(outside);
            let mut small = [0; 1500];
            loop {
                match outside.read(&mut small).unwrap() {
                    0 => return received,
                    count => received.extend_from_slice(&small[..count]),
                }
            }
        });
        let mut stream = listener.accept().await.unwrap();
        SockRef::from(&stream).set_send_buffer_size(4096).unwrap();

        let sent = pattern(2 << 20, 7);
        let taken = fill(&mut stream, &sent).await;
        assert!(taken > 0);
        assert!(
            taken < 64 << 10,
            "{taken} bytes taken for a reader that reads nothing"
        );

        start.send(()).unwrap();
        let mut rest = &sent[taken..];
        let mut partial = 0;
        while !rest.is_empty() {
            let pieces: Vec<_> = rest.chunks(10_007).take(5).map(IoSlice::new).collect();
            let offered: usize = pieces.iter().map(|piece| piece.len()).sum();
            let count = poll_fn(|cx| stream.poll_send(cx, &pieces)).await.unwrap();
            partial += usize::from(count < offered);
            rest = &rest[count..];
        }
        stream.close_write();
        assert_eq!(
            recv_to_end(&mut stream).await.unwrap(),
            b"",
            "the reader read until our end"
        );
        assert!(reader.join().unwrap() == sent);
        assert!(
            partial > 10,
            "the buffers were small enough to cut sends: {partial}"
        );
    });
}

#[test]
fn half_closed_peer_still_receives() {
    on_core(|reactor| async move {
        let (mut stream, mut outside) = accept_from_outside(&reactor).await;
        let answer = pattern(1 << 20, 3);
        let expected = answer.clone();
        let peer = std::thread::spawn(move || {
            outside.write_all(b"question").unwrap();
            outside.shutdown(Shutdown::Write).unwrap();
            let mut received = Vec::new();
            outside.read_to_end(&mut received).unwrap();
            received
        });
        assert_eq!(recv_to_end(&mut stream).await.unwrap(), b"question");
        // The end stays the end, however often it is asked for.
        assert_eq!(recv(&mut stream, &mut BytesMut::new()).await.unwrap(), 0);
        send_all(&mut stream, &answer).await.unwrap();
        stream.close_write();
        assert!(peer.join().unwrap() == expected);
    });
}

#[test]
fn end_that_comes_with_the_last_bytes_is_not_missed() {
    on_core(|reactor| async move {
        // The end may come in the same event as the bytes, or in one of its own, or before we
        // first look: each connection leaves the peer a different time.
        for round in 0..100_u32 {
            let (mut stream, mut outside) = accept_from_outside(&reactor).await;
            outside.write_all(b"last words").unwrap();
            if round % 3 == 0 {
                outside.shutdown(Shutdown::Write).unwrap();
            }
            let mut received = BytesMut::new();
            assert!(recv(&mut stream, &mut received).await.unwrap() > 0);
            outside.shutdown(Shutdown::Write).unwrap();
            while recv(&mut stream, &mut received).await.unwrap() > 0 {}
            assert_eq!(&received[..], b"last words");
        }
    });
}

#[test]
fn reset_is_an_error_to_both_directions() {
    on_core(|reactor| async move {
        let (mut stream, outside) = accept_from_outside(&reactor).await;
        let bytes = pattern(16 << 20, 5);
        let taken = fill(&mut stream, &bytes).await;
        assert!(
            taken < bytes.len(),
            "the peer reads nothing, so the send waits"
        );
        let reset = async {
            pause(Duration::from_millis(5)).await;
            SockRef::from(&outside)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
            drop(outside);
        };
        let mut into = BytesMut::new();
        let both = async {
            let (mut received, mut sent) = (None, None);
            poll_fn(|cx| {
                if received.is_none()
                    && let Poll::Ready(result) = stream.poll_recv(cx, &mut into, 100)
                {
                    received = Some(result.unwrap_err().kind());
                }
                if sent.is_none()
                    && let Poll::Ready(result) = stream.poll_send(cx, &[IoSlice::new(&bytes)])
                {
                    sent = Some(result.unwrap_err().kind());
                }
                if received.is_some() && sent.is_some() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            (received.unwrap(), sent.unwrap())
        };
        let ((received, sent), ()) = join!(both, reset);
        // The kernel tells a reset once; after that a send finds a broken pipe.
        assert_eq!(received, io::ErrorKind::ConnectionReset);
        assert!(matches!(
            sent,
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
        ));
        stream.close_write();
    });
}

#[test]
fn two_hundred_connections_at_once_are_each_answered() {
    on_core(|reactor| async move {
        let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), &reactor).unwrap();
        let addr = listener.local_addr();
        let serve = async {
            let mut served = Vec::new();
            for _ in 0..200 {
                let stream = listener.accept().await.unwrap();
                served.push(glommio::spawn_local(echo(stream, 5000)));
            }
            for task in served {
                task.await.unwrap();
            }
        };
        let reactor = &reactor;
        let clients = join_all((0..200).map(|seed| async move {
            let sent = pattern(20_000, seed);
            let mut stream = TcpStream::connect(addr, reactor).await.unwrap();
            let received = exchange(&mut stream, &sent, &[777, 3000]).await.unwrap();
            assert!(received == sent, "connection {seed}");
        }));
        join!(serve, clients);
        let metrics = reactor.metrics();
        assert_eq!(metrics.accepted.value(), 200);
        assert_eq!(metrics.open.value(), 0);
        assert_eq!(metrics.received_bytes.value(), 2 * 200 * 20_000);
        assert_eq!(metrics.sent_bytes.value(), 2 * 200 * 20_000);
    });
}

#[test]
fn idle_core_asks_for_nothing() {
    on_core(|reactor| async move {
        let (mut server, mut client) = pair(&reactor).await;
        let metrics = reactor.metrics();
        for round in 0..3 {
            let mut into = BytesMut::new();
            assert!(
                once(|cx| server.poll_recv(cx, &mut into, 100))
                    .await
                    .is_none()
            );
            assert_eq!(
                into.capacity(),
                0,
                "a connection with nothing to say holds no buffer"
            );
            pause(Duration::from_millis(20)).await; // What the last round left settles.
            let (polls, parks) = (metrics.polls.value(), metrics.parks.value());
            pause(Duration::from_millis(100)).await;
            assert_eq!(metrics.polls.value(), polls, "round {round}");
            assert_eq!(metrics.parks.value(), parks, "round {round}");

            send_all(&mut client, b"x").await.unwrap();
            assert_eq!(recv(&mut server, &mut into).await.unwrap(), 1);
            assert!(metrics.polls.value() > polls);
        }
    });
}

#[test]
fn short_receive_asks_the_kernel_once() {
    on_core(|reactor| async move {
        let (mut server, mut client) = pair(&reactor).await;
        let metrics = reactor.metrics();
        for _ in 0..10 {
            send_all(&mut client, b"request").await.unwrap();
            let before = metrics.recv_calls.value();
            let mut into = BytesMut::new();
            assert_eq!(recv(&mut server, &mut into).await.unwrap(), 7);
            assert!(
                once(|cx| server.poll_recv(cx, &mut into, 100))
                    .await
                    .is_none()
            );
            assert_eq!(metrics.recv_calls.value() - before, 1);
        }
    });
}

#[test]
fn peer_that_never_stops_gets_its_turn_and_no_more() {
    on_core(|reactor| async move {
        let (mut stream, mut outside) = accept_from_outside(&reactor).await;
        const TOTAL: usize = 32 << 20;
        let peer = std::thread::spawn(move || {
            let block = pattern(1 << 20, 1);
            for _ in 0..TOTAL >> 20 {
                outside.write_all(&block).unwrap();
            }
        });
        let (mut total, mut turn, mut longest) = (0, 0, 0);
        let mut into = BytesMut::new();
        while total < TOTAL {
            let count = poll_fn(|cx| {
                let poll = stream.poll_recv(cx, &mut into, 64 << 10);
                if poll.is_pending() {
                    turn = 0;
                }
                poll
            });
            let count = count.await.unwrap();
            assert!(count > 0);
            total += count;
            turn += count;
            longest = longest.max(turn);
            into.clear();
        }
        peer.join().unwrap();
        assert!(
            longest <= (512 + 64) << 10,
            "{longest} bytes without letting others run"
        );
    });
}

#[test]
fn turn_ends_after_many_small_receives_and_the_next_begins_by_itself() {
    struct Woken(std::sync::atomic::AtomicUsize);
    impl std::task::Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
    on_core(|reactor| async move {
        let (mut stream, mut outside) = accept_from_outside(&reactor).await;
        outside.write_all(&[7; 100]).unwrap();
        let mut into = BytesMut::new();
        assert_eq!(
            poll_fn(|cx| stream.poll_recv(cx, &mut into, 1))
                .await
                .unwrap(),
            1
        );

        let woken = std::sync::Arc::new(Woken(std::sync::atomic::AtomicUsize::new(0)));
        let waker = std::task::Waker::from(std::sync::Arc::clone(&woken));
        let count = || woken.0.load(std::sync::atomic::Ordering::Relaxed);
        let mut cx = std::task::Context::from_waker(&waker);
        while stream.poll_recv(&mut cx, &mut into, 1).is_ready() {}
        assert!(into.len() < 100, "the turn ends with bytes left");
        assert_eq!(
            count(),
            0,
            "woken at once, the task would leave the executor no moment"
        );
        pause(Duration::from_millis(5)).await;
        assert_eq!(count(), 1);
        assert!(stream.poll_recv(&mut cx, &mut into, 1).is_ready());
    });
}

#[test]
fn others_have_their_turns_beside_a_peer_that_never_stops() {
    on_core(|reactor| async move {
        let (mut stream, mut outside) = accept_from_outside(&reactor).await;
        const TOTAL: usize = 64 << 20;
        let peer = std::thread::spawn(move || {
            let block = pattern(1 << 20, 1);
            for _ in 0..TOTAL >> 20 {
                outside.write_all(&block).unwrap();
            }
        });
        let flooded = std::cell::Cell::new(false);
        let flood = async {
            let (mut total, mut into) = (0, BytesMut::new());
            while total < TOTAL {
                total += recv(&mut stream, &mut into).await.unwrap();
                into.clear();
            }
            flooded.set(true);
        };
        // Sockets of the same core...
        let (server, mut client) = pair(&reactor).await;
        let server = glommio::spawn_local(echo(server, 100));
        let visits = async {
            let (mut count, mut into) = (0, BytesMut::new());
            while !flooded.get() {
                send_all(&mut client, b"x").await.unwrap();
                assert_eq!(recv(&mut client, &mut into).await.unwrap(), 1);
                count += 1;
            }
            client.close_write();
            count
        };
        // ...and its timers, which the executor looks at only when no task can run.
        let ticks = async {
            let mut count = 0;
            while !flooded.get() {
                pause(Duration::from_micros(50)).await;
                count += 1;
            }
            count
        };
        let ((), visits, ticks) = join!(flood, visits, ticks);
        server.await.unwrap();
        peer.join().unwrap();
        // The flood takes 128 turns at least.
        assert!(visits >= 20, "{visits} visits");
        assert!(ticks >= 20, "{ticks} ticks");
    });
}

#[test]
fn stopping_ends_everything_that_waits() {
    on_core(|reactor| async move {
        let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), &reactor).unwrap();
        let addr = listener.local_addr();
        let (mut first, mut second) = pair(&reactor).await;
        fill(&mut second, &pattern(16 << 20, 2)).await;
        let accept = glommio::spawn_local(async move { listener.accept().await.map(drop) });
        let send = glommio::spawn_local(async move { send_all(&mut second, b"x").await });
        let recv = glommio::spawn_local(async move {
            pause(Duration::from_millis(1)).await;
            let mut into = BytesMut::new();
            while recv(&mut first, &mut into).await? < usize::MAX {}
            Ok::<(), io::Error>(())
        });
        reactor.stop();
        for result in [accept.await, send.await, recv.await] {
            assert!(result.unwrap_err().to_string().contains("has stopped"));
        }
        assert!(TcpStream::connect(addr, &reactor).await.is_err());
        assert!(TcpListener::bind(addr, &reactor).is_err());
    });
}

#[test]
fn refused_connect_is_an_error() {
    on_core(|reactor| async move {
        let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), &reactor).unwrap();
        let addr = listener.local_addr();
        drop(listener);
        let error = TcpStream::connect(addr, &reactor).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(reactor.metrics().open.value(), 0);
    });
}
