//! Clashes, conflicts and edits at once.

use super::desk::{Desk, creation, follow, path};
use super::{Site, WIDE};
use felix_control::catalog::StreamSettings;
use felix_control::refusal::Conflict;
use felix_control::{CommitError, Edit, Position, Refusal, Sequence, Store};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The store, by as many as the site allows.
async fn instances(site: &impl Site) -> Vec<Arc<dyn Store>> {
    let mut stores = vec![site.open(WIDE).await];
    if site.is_shared() {
        stores.push(site.open(WIDE).await);
        stores.push(site.open(WIDE).await);
    }
    stores
}

pub(super) async fn what_was_made_is_seen_by_everybody(site: &impl Site) {
    let stores = instances(site).await;
    let first = Desk::at(Arc::clone(&stores[0])).with_tenant().await;
    for (number, store) in stores.iter().enumerate() {
        let name = format!("s{number}");
        let id = Desk::at(Arc::clone(store)).create(&name).await;
        for store in &stores {
            let (_, seen) = Desk::at(Arc::clone(store))
                .stream(&name)
                .await
                .expect("it was made");
            assert_eq!((seen.id, seen.path), (id, path(&name)));
        }
    }
    let position = first.snapshot().await.position;
    assert_eq!(position.sequence.get(), 2 + stores.len() as u64);
}

pub(super) async fn a_clash_or_an_old_version_is_refused_and_changes_nothing(site: &impl Site) {
    let desk = Desk::at(site.open(WIDE).await).with_tenant().await;
    desk.create("clicks").await;
    let seen = desk.version("clicks").await;
    let alter = |shards| Edit::AlterStream {
        path: path("clicks"),
        based_on: seen,
        settings: StreamSettings {
            shards,
            ..StreamSettings::default()
        },
    };
    desk.commit(alter(4)).await;
    let before = desk.snapshot().await.position;
    let clash = desk.refusal(creation("clicks").1).await;
    assert!(
        matches!(clash, Refusal::Conflict(Conflict::Exists(_))),
        "{clash}"
    );
    let stale = desk.refusal(alter(5)).await;
    assert!(
        matches!(stale, Refusal::Conflict(Conflict::Stale { .. })),
        "{stale}"
    );
    assert_eq!(desk.snapshot().await.position, before);
    assert_eq!(desk.stream("clicks").await.unwrap().1.settings.shards, 4);
}

pub(super) async fn of_edits_based_on_one_version_one_is_made(site: &impl Site) {
    let stores = instances(site).await;
    let desk = Desk::at(Arc::clone(&stores[0])).with_tenant().await;
    desk.create("clicks").await;
    let based_on = desk.version("clicks").await;
    let tasks: Vec<_> = (4..20_u32)
        .map(|shards| {
            let at = usize::try_from(shards).unwrap() % stores.len();
            let desk = Desk::at(Arc::clone(&stores[at]));
            let settings = StreamSettings {
                shards,
                ..StreamSettings::default()
            };
            let edit = Edit::AlterStream {
                path: path("clicks"),
                based_on,
                settings,
            };
            tokio::spawn(async move { (shards, desk.propose(edit).await) })
        })
        .collect();
    let mut made = Vec::new();
    for task in tasks {
        match task.await.unwrap() {
            (shards, Ok(_)) => made.push(shards),
            (_, Err(CommitError::Refused(Refusal::Conflict(Conflict::Stale { .. })))) => {}
            (_, other) => panic!("neither made nor refused: {other:?}"),
        }
    }
    assert_eq!(made.len(), 1, "one of them was first");
    assert_eq!(
        desk.stream("clicks").await.unwrap().1.settings.shards,
        made[0]
    );
}

pub(super) async fn edits_at_once_are_all_made_in_one_order(site: &impl Site) {
    let stores = instances(site).await;
    let desk = Desk::at(Arc::clone(&stores[0])).with_tenant().await;
    let begin = desk.snapshot().await.position;
    let tasks: Vec<_> = (0..60)
        .map(|number| {
            let desk = Desk::at(Arc::clone(&stores[number % stores.len()]));
            tokio::spawn(async move {
                let (id, edit) = creation(&format!("s{number}"));
                (id, desk.commit(edit).await.sequence)
            })
        })
        .collect();
    let mut made = BTreeSet::new();
    for task in tasks {
        let (id, sequence) = task.await.unwrap();
        assert!(made.insert((sequence, id)));
    }
    let sequences: Vec<u64> = made.iter().map(|(sequence, _)| sequence.get()).collect();
    let expected: Vec<u64> = (begin.sequence.get() + 1..).take(60).collect();
    assert_eq!(sequences, expected, "each has one place and none is free");
    let end = desk.snapshot().await.position;
    let seen = follow(stores[0].as_ref(), begin, end).await;
    for store in &stores {
        assert_eq!(
            follow(store.as_ref(), begin, end).await,
            seen,
            "everybody sees one order"
        );
        let state = Desk::at(Arc::clone(store)).snapshot().await.state;
        for (sequence, id) in &made {
            assert_eq!(state.stream(*id).unwrap().0.get(), sequence.get());
        }
    }
}

pub(super) async fn a_proposal_is_made_once_however_often_it_is_brought(site: &impl Site) {
    let stores = instances(site).await;
    let desk = Desk::at(Arc::clone(&stores[0])).with_tenant().await;
    let proposal = desk.proposal(creation("clicks").1);
    let tasks: Vec<_> = (0..12)
        .map(|number| {
            let store = Arc::clone(&stores[number % stores.len()]);
            let proposal = proposal.clone();
            tokio::spawn(async move { store.commit(proposal).await.unwrap() })
        })
        .collect();
    let first = desk.store.commit(proposal).await.unwrap();
    for task in tasks {
        assert_eq!(task.await.unwrap(), first);
    }
    let position = desk.snapshot().await.position;
    assert_eq!(
        position,
        Position {
            sequence: Sequence::new(3),
            ..position
        }
    );
}
