//! When no descriptor is left, connections wait and nothing else happens. A process of its own,
//! because the limit is the process's.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use bytes::BytesMut;
use common::{on_core, once, pause, recv, send_all};
use felix_net::{TcpListener, TcpStream};
use futures_util::join;
use socket2::{Domain, Socket, Type};
use std::fs::File;
use std::future::Future;
use std::io::Read;
use std::time::Duration;

#[expect(unsafe_code, reason = "the standard library cannot lower a limit")]
fn limit_descriptors(count: u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writes.
    let read = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    assert_eq!(read, 0);
    limit.rlim_cur = count.min(limit.rlim_max);
    // SAFETY: `limit` is valid for reads.
    let written = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(written, 0);
}

#[test]
fn connections_wait_while_descriptors_are_short_and_others_are_served() {
    limit_descriptors(200);
    on_core(|reactor| async move {
        let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), &reactor).unwrap();
        let addr = listener.local_addr();
        let (served, client) = join!(listener.accept(), TcpStream::connect(addr, &reactor));
        let (mut served, mut client) = (served.unwrap(), client.unwrap());
        let late = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();

        // Given: not one descriptor left, and a connection in the backlog.
        let mut hoard = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            hoard.push(file);
        }
        late.connect(&addr.into()).unwrap();

        // When accepting is asked for, it neither ends nor spins.
        let metrics = reactor.metrics();
        let mut accept = Box::pin(listener.accept());
        for _ in 0..10 {
            assert!(once(|cx| accept.as_mut().poll(cx)).await.is_none());
            pause(Duration::from_millis(10)).await;
        }
        let errors = metrics.accept_errors.value();
        assert!(
            (1..=10).contains(&errors),
            "{errors} tries in a tenth of a second"
        );

        // Others are served meanwhile, although the core cannot even duplicate its set.
        for _ in 0..5 {
            send_all(&mut client, b"x").await.unwrap();
            assert_eq!(recv(&mut served, &mut BytesMut::new()).await.unwrap(), 1);
            pause(Duration::from_millis(2)).await;
        }

        // Then, with descriptors again, the connection that waited is accepted.
        drop(hoard);
        let mut accepted = accept.await.unwrap();
        send_all(&mut accepted, b"welcome").await.unwrap();
        let mut welcome = [0; 7];
        std::net::TcpStream::from(late)
            .read_exact(&mut welcome)
            .unwrap();
        assert_eq!(&welcome, b"welcome");
    });
}
