//! What a listener promises, over loopback.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use bytes::BytesMut;
use common::{core_thread, on_core, once, pause, recv, send_all};
use felix_net::{Bound, TcpListener, TcpStream};
use futures_util::join;
use socket2::SockRef;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

#[test]
fn dual_stack_listener_accepts_both_families_and_names_each_peer_in_its_own() {
    on_core(|reactor| async move {
        let mut listener = TcpListener::bind("[::]:0".parse().unwrap(), &reactor).unwrap();
        let port = listener.local_addr().port();
        for ip in [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ] {
            let connect = TcpStream::connect(SocketAddr::new(ip, port), &reactor);
            let (accepted, connected) = join!(listener.accept(), connect);
            let (mut accepted, mut connected) = (accepted.unwrap(), connected.unwrap());
            assert_eq!(accepted.peer_addr().ip(), ip);
            send_all(&mut accepted, b"hello").await.unwrap();
            let mut into = BytesMut::new();
            assert_eq!(recv(&mut connected, &mut into).await.unwrap(), 5);
        }
    });
}

#[test]
fn accepted_connections_do_not_delay_and_notice_a_vanished_peer() {
    on_core(|reactor| async move {
        let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), &reactor).unwrap();
        let connect = TcpStream::connect(listener.local_addr(), &reactor);
        let (accepted, connected) = join!(listener.accept(), connect);
        for stream in [accepted.unwrap(), connected.unwrap()] {
            let socket = SockRef::from(&stream);
            assert!(socket.tcp_nodelay().unwrap());
            assert!(socket.keepalive().unwrap());
            assert_eq!(
                socket.tcp_keepalive_time().unwrap(),
                Duration::from_secs(60)
            );
            assert_eq!(
                socket.tcp_keepalive_interval().unwrap(),
                Duration::from_secs(10)
            );
            assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
            assert!(socket.nonblocking().unwrap());
        }
    });
}

#[test]
fn cancelled_accept_loses_no_connection() {
    on_core(|reactor| async move {
        const CONNECTIONS: usize = 100;
        let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), &reactor).unwrap();
        let addr = listener.local_addr();
        let mut attempt = Box::pin(listener.accept());
        assert!(once(|cx| attempt.as_mut().poll(cx)).await.is_none());
        drop(attempt);
        let clients = std::thread::spawn(move || {
            let mut outside: Vec<_> = (0..CONNECTIONS)
                .map(|_| std::net::TcpStream::connect(addr).unwrap())
                .collect();
            for stream in &mut outside {
                let mut greeting = [0];
                stream.read_exact(&mut greeting).unwrap();
                assert_eq!(&greeting, b"!");
            }
        });
        let mut accepted = Vec::new();
        let mut cancelled = 1;
        while accepted.len() < CONNECTIONS {
            let mut attempt = Box::pin(listener.accept());
            if let Some(stream) = once(|cx| attempt.as_mut().poll(cx)).await {
                accepted.push(stream.unwrap());
                continue;
            }
            // Given up after a while, when connections and wake-ups are on their way.
            pause(Duration::from_micros(if cancelled % 2 == 0 {
                20
            } else {
                200
            }))
            .await;
            drop(attempt);
            cancelled += 1;
            // The next attempt must find what the last one was woken for.
            if cancelled % 3 == 0 {
                accepted.push(listener.accept().await.unwrap());
            }
        }
        for stream in &mut accepted {
            send_all(stream, b"!").await.unwrap();
        }
        clients.join().unwrap();
    });
}

#[test]
fn cores_share_a_port_and_each_gets_connections() {
    let group = Bound::group("127.0.0.1:0".parse().unwrap(), 2).unwrap();
    let addr = group[0].local_addr();
    let cores: Vec<_> = group
        .into_iter()
        .zip([b'0', b'1'])
        .map(|(bound, name)| {
            // Greets each connection with the core's name and ends when a peer answers "quit".
            core_thread(move |reactor| async move {
                let mut listener = bound.adopt(&reactor).unwrap();
                let mut served = 0_usize;
                loop {
                    let mut stream = listener.accept().await.unwrap();
                    served += 1;
                    send_all(&mut stream, &[name]).await.unwrap();
                    let mut answer = BytesMut::new();
                    while recv(&mut stream, &mut answer).await.unwrap() > 0 {}
                    if &answer[..] == b"quit" {
                        // Before the stream, whose end tells the visitor that the port is left.
                        drop(listener);
                        return served;
                    }
                }
            })
        })
        .collect();

    let visit = |quitting: &dyn Fn(u8) -> bool| {
        let mut stream = std::net::TcpStream::connect(addr).unwrap();
        let mut name = [0];
        stream.read_exact(&mut name).unwrap();
        if quitting(name[0]) {
            stream.write_all(b"quit").unwrap();
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
        name[0]
    };
    let mut counts = [0_usize; 2];
    for _ in 0..200 {
        counts[usize::from(visit(&|_| false) - b'0')] += 1;
    }
    assert!(
        counts.iter().all(|count| *count >= 20),
        "the kernel spreads evenly: {counts:?}"
    );
    while visit(&|name| name == b'0') != b'0' {}
    visit(&|name| name == b'1');
    let served: usize = cores.into_iter().map(|core| core()).sum();
    assert!(served >= 202);
}
