//! What closing promises.

use super::{Bench, FOREVER, Never, Rig, batch, records, run, run_in};
use felix_core::shards::{Acks, Append, Appended, ShardState};
use felix_core::{Durability, Generation, ShardError, Shards};
use futures_util::FutureExt;
use futures_util::future::join_all;
use std::cell::RefCell;
use std::rc::Rc;

#[test]
fn closing_answers_everybody_who_waits() {
    for durability in [Durability::Periodic, Durability::OnCommit] {
        let (answer, answers) = crossbeam_channel::unbounded();
        run(Rig::new(2, durability), move |bench| {
            let answer = answer.clone();
            async move { leave_waiting(&bench, answer).await }
        });
        let answers: Vec<Answers> = answers.iter().collect();
        assert_eq!(answers.len(), 2, "both cores' connections are answered");
        for Answers {
            polls,
            appends,
            late,
        } in answers
        {
            assert_eq!(polls, 100);
            // The own core places it before it closes; the other may close before it comes.
            assert!(appends[0].is_ok());
            assert!(matches!(appends[1], Ok(_) | Err(ShardError::ShuttingDown)));
            assert_eq!(late, [Err(ShardError::ShuttingDown)]);
        }
    }
}

/// What one core's connections heard.
struct Answers {
    polls: usize,
    appends: Vec<Result<Appended, ShardError>>,
    late: Vec<Result<Appended, ShardError>>,
}

/// Leaves polls and appends under way, which end after the core has begun to close.
async fn leave_waiting(bench: &Bench, answer: crossbeam_channel::Sender<Answers>) {
    let router = bench.router.clone();
    let own = u32::from(bench.core.id().0);
    let waiting: Vec<_> = (0..100)
        .map(|number| {
            let parts = vec![bench.part(number % 2, 0), bench.part((number + 1) % 2, 0)];
            glommio::spawn_local(router.fetch(bench.fetch(parts, 1 << 20, FOREVER), Never))
        })
        .collect();
    let all = || bench.metric("felix_shard_waiting_fetches") == 100;
    bench.until("the last of them", all).await;
    let appends = [own, 1 - own].map(|shard| Append {
        shard: bench.shard(shard),
        batch: batch(&["last"]),
    });
    let committed: Vec<_> = appends
        .into_iter()
        .map(|append| Box::pin(router.append(vec![append], Acks::All)))
        .map(|mut admission| match (&mut admission).now_or_never() {
            Some(committed) => committed.boxed_local(),
            None => async move { admission.await.await }.boxed_local(),
        })
        .collect();
    let late = Append {
        shard: bench.shard(own),
        batch: batch(&["late"]),
    };
    glommio::spawn_local(async move {
        let polls = join_all(waiting).await.len();
        let appends = join_all(committed).await.into_iter().flatten().collect();
        let late = router.append(vec![late], Acks::All).await.await;
        let heard = answer.send(Answers {
            polls,
            appends,
            late,
        });
        heard.expect("the test listens until all cores have closed");
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
