//! What closing promises.

use super::{Bench, FOREVER, Never, Rig, batch, records, run, run_in};
use felix_core::shards::{Acks, Append, ShardState};
use felix_core::{Durability, Generation, ShardError, Shards};
use futures_util::FutureExt;
use futures_util::future::join_all;
use std::cell::RefCell;
use std::rc::Rc;

#[test]
fn closing_answers_everybody_who_waits() {
    for durability in [Durability::Periodic, Durability::OnCommit] {
        let (done, answered) = crossbeam_channel::unbounded();
        run(Rig::new(2, durability), move |bench| {
            let done = done.clone();
            async move { wait_until_closed(&bench, done).await }
        });
        assert_eq!(answered.iter().count(), 2, "everybody of both cores");
    }
}

async fn wait_until_closed(bench: &Bench, done: crossbeam_channel::Sender<()>) {
    let router = bench.router.clone();
    let waiting: Vec<_> = (0..100)
        .map(|number| {
            let parts = vec![bench.part(number % 2, 0), bench.part((number + 1) % 2, 0)];
            let fetch = bench.fetch(parts, 1 << 20, FOREVER);
            glommio::spawn_local(bench.router.fetch(fetch, Never))
        })
        .collect();
    let all = || bench.metric("felix_shard_waiting_fetches") == 100;
    bench.until("the last of them", all).await;
    let mut committed = Vec::new();
    for shard in 0..2 {
        let append = Append {
            shard: bench.shard(shard),
            batch: batch(&["last"]),
        };
        committed.push(bench.router.append(vec![append], Acks::All).await);
    }
    let shard = bench.shard(0);
    // Whoever asks this from now on is closing, or about to.
    glommio::spawn_local(async move {
        for answers in join_all(waiting).await {
            assert_eq!(answers.len(), 2);
        }
        for result in join_all(committed).await.into_iter().flatten() {
            result.expect("what was placed is committed before the log is closed");
        }
        let append = Append {
            shard,
            batch: batch(&["late"]),
        };
        let late = router.append(vec![append], Acks::All).await.await;
        assert_eq!(late, [Err(ShardError::ShuttingDown)]);
        done.send(()).unwrap();
    })
    .detach();
}

#[test]
fn what_was_acknowledged_is_there_after_a_restart_under_a_higher_generation() {
    for durability in [Durability::None, Durability::Periodic, Durability::OnCommit] {
        let root = tempfile::tempdir().unwrap();
        let rig = Rig::new(2, durability);
        for restart in 0..3_u32 {
            run_in(&root, rig, move |bench| async move {
                let state = bench.router.state(bench.shard(0));
                assert_eq!(state, Some(ShardState::Open(Generation::new(restart + 1))));
                if !bench.is_first() {
                    return;
                }
                for shard in 0..2 {
                    bench
                        .append(shard, batch(&[&format!("{restart}")]))
                        .await
                        .unwrap();
                    let expected: Vec<(u64, String)> = (0..=restart)
                        .map(|number| (u64::from(number), number.to_string()))
                        .collect();
                    assert_eq!(records(&bench.read(shard, 0).await.unwrap()), expected);
                }
            });
        }
    }
}

#[test]
fn a_request_before_its_shard_is_open_is_told_so() {
    run(Rig::new(1, Durability::Periodic), |bench| async move {
        // A second stream of the same broker, asked for before its opening has begun.
        let root = tempfile::tempdir().unwrap();
        let mut stream = bench.rig.stream();
        stream.id = felix_core::StreamId(stream.id.0 ^ 0xff00);
        let specs: Vec<_> = crate::ShardSpec::of_stream(root.path(), &stream).collect();
        let shard = specs[0].id;
        assert_eq!(bench.router.state(shard), None);
        bench.core.open(specs);
        assert_eq!(bench.router.state(shard), Some(ShardState::Opening));
        let append = Append {
            shard,
            batch: batch(&["early"]),
        };
        let committed = bench
            .router
            .append(vec![append], Acks::All)
            .now_or_never()
            .unwrap();
        assert_eq!(committed.await, [Err(ShardError::Opening)]);
        let early = bench.core.opened().now_or_never();
        assert!(early.is_none());
        bench.core.opened().await;
        let append = Append {
            shard,
            batch: batch(&["in time"]),
        };
        assert!(bench.router.append(vec![append], Acks::All).await.await[0].is_ok());
        keep_until_closed(root);
    });
}

/// The log is closed after the scenario, and needs its directory until then.
fn keep_until_closed(root: tempfile::TempDir) {
    thread_local! {
        static KEPT: RefCell<Vec<Rc<tempfile::TempDir>>> = const { RefCell::new(Vec::new()) };
    }
    KEPT.with_borrow_mut(|kept| kept.push(Rc::new(root)));
}
