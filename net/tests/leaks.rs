//! No descriptor outlives what it was for. A process of its own, because descriptors are counted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use bytes::BytesMut;
use common::{echo, exchange, on_core, once, pattern, pause};
use felix_core::ByteStream;
use felix_net::{Reactor, TcpListener, TcpStream};
use futures_util::future::join_all;
use futures_util::join;
use glommio::{LocalExecutorBuilder, Placement};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

async fn serve_fifty(reactor: &Reactor) {
    let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), reactor).unwrap();
    let addr = listener.local_addr();
    let serve = async {
        for _ in 0..50 {
            let mut attempt = Box::pin(listener.accept());
            let stream = match once(|cx| attempt.as_mut().poll(cx)).await {
                Some(stream) => stream.unwrap(),
                None => {
                    drop(attempt);
                    listener.accept().await.unwrap()
                }
            };
            echo(stream, 1000).await.unwrap();
        }
    };
    let clients = join_all((0..50).map(|seed| async move {
        let sent = pattern(3000, seed);
        let mut stream = TcpStream::connect(addr, reactor).await.unwrap();
        assert!(exchange(&mut stream, &sent, &[500]).await.unwrap() == sent);
    }));
    join!(serve, clients);
    // Given up while it waits: a receive, and a connect to a listener that is gone.
    let (mut first, _second) = {
        let connect = TcpStream::connect(addr, reactor);
        let (accepted, connected) = join!(listener.accept(), connect);
        (accepted.unwrap(), connected.unwrap())
    };
    let mut into = BytesMut::new();
    assert!(
        once(|cx| first.poll_recv(cx, &mut into, 10))
            .await
            .is_none()
    );
    drop(listener);
    let mut connect = pin!(TcpStream::connect(addr, reactor));
    assert!(once(|cx| connect.as_mut().poll(cx)).await.is_none());
}

#[test]
fn descriptors_do_not_leak() {
    // Within a core: after traffic, as many as before it, and none more after more traffic.
    on_core(|reactor| async move {
        pause(Duration::from_millis(5)).await;
        let before = descriptors();
        for _ in 0..10 {
            serve_fifty(&reactor).await;
            assert!(
                format!("{reactor:?}").contains("members: 0,"),
                "{reactor:?}"
            );
        }
        pause(Duration::from_millis(5)).await;
        assert_eq!(descriptors(), before);
    });
    // With whole cores: what the reactor holds goes with them. The executor itself leaves one
    // eventfd behind (glommio 0.9), so ours is compared to one that does nothing.
    let before = descriptors();
    for _ in 0..5 {
        let idle = LocalExecutorBuilder::new(Placement::Unbound).io_memory(64 << 10);
        idle.spawn(|| pause(Duration::from_millis(1)))
            .unwrap()
            .join()
            .unwrap();
    }
    let left_by_executors = descriptors() - before;
    let before = descriptors();
    for round in 0..5 {
        on_core(move |reactor| async move {
            serve_fifty(&reactor).await;
            if round % 2 == 0 {
                pause(Duration::from_millis(2)).await; // Ends while asleep, not only while awake.
            }
        });
    }
    assert_eq!(descriptors() - before, left_by_executors);
}
