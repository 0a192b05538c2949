//! Following the changes.

use super::desk::{Desk, follow, namespace};
use super::{Site, WIDE};
use felix_control::catalog::Entry;
use felix_control::{CatalogId, Page, Position, Sequence, Store, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) async fn a_follower_sees_every_change_once_and_has_what_a_snapshot_has(
    site: &impl Site,
) {
    let desk = Desk::at(site.open(WIDE).await);
    let begin = desk.snapshot().await;
    assert_eq!(begin.position.sequence, Sequence::ZERO);
    let desk = desk.with_tenant().await;
    desk.node(1).await;
    let clicks = desk.create("clicks").await;
    desk.lead(clicks, 1).await;
    desk.create("orders").await;
    desk.delete("orders").await;
    let end = desk.snapshot().await;
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    for entry in begin.state.entries() {
        entries.insert(entry.record.key().to_string(), entry.clone());
    }
    for change in follow(desk.store.as_ref(), begin.position, end.position).await {
        let (version, record) = (Version::from(change.sequence), change.record.clone());
        assert!(!change.removes(), "nothing was purged");
        entries.insert(record.key().to_string(), Entry { version, record });
    }
    let snapshot: BTreeMap<String, Entry> = end
        .state
        .entries()
        .map(|entry| (entry.record.key().to_string(), entry.clone()))
        .collect();
    assert_eq!(entries, snapshot);
    assert_eq!(end.state.streams(&namespace()).count(), 1);
}

pub(super) async fn who_is_behind_the_window_starts_over(site: &impl Site) {
    let desk = Desk::at(site.open(10).await).with_tenant().await;
    let begin = desk.snapshot().await.position;
    for number in 0..10 {
        desk.create(&format!("s{number}")).await;
    }
    let at = |sequence| Position {
        sequence: Sequence::new(sequence),
        ..begin
    };
    let full = follow(desk.store.as_ref(), begin, at(12)).await;
    assert_eq!(full.len(), 10, "the whole window");
    desk.create("one-more").await;
    assert_eq!(desk.store.changes(begin, 100).await, Ok(Page::StartOver));
    let rest = follow(desk.store.as_ref(), at(3), at(13)).await;
    assert_eq!(rest[..9], full[1..]);
    // A snapshot is where to go on from.
    let snapshot = desk.snapshot().await;
    assert_eq!(snapshot.position, at(13));
    let nothing = desk.store.changes(snapshot.position, 100).await;
    assert_eq!(nothing, Ok(Page::Changes(Vec::new())));
}

pub(super) async fn a_position_of_another_catalog_is_none_of_this(site: &impl Site) {
    let desk = Desk::at(site.open(WIDE).await).with_tenant().await;
    let here = desk.snapshot().await.position;
    let elsewhere = Position {
        catalog: CatalogId(1),
        ..here
    };
    let beyond = Position {
        sequence: here.sequence.next(),
        ..here
    };
    for position in [elsewhere, beyond] {
        assert_eq!(desk.store.changes(position, 100).await, Ok(Page::StartOver));
        desk.store.changed(position).await.unwrap();
    }
}

pub(super) async fn who_waits_is_woken_by_the_next_change(site: &impl Site) {
    let store = site.open(WIDE).await;
    let other: Arc<dyn Store> = match site.is_shared() {
        true => site.open(WIDE).await,
        false => Arc::clone(&store),
    };
    let desk = Desk::at(store).with_tenant().await;
    let mut at = desk.snapshot().await.position;
    for number in 0..5 {
        let waits = {
            let other = Arc::clone(&other);
            tokio::spawn(async move {
                follow(
                    other.as_ref(),
                    at,
                    Position {
                        sequence: at.sequence.next(),
                        ..at
                    },
                )
                .await
            })
        };
        let id = desk.create(&format!("s{number}")).await;
        let seen = waits.await.unwrap();
        assert_eq!(seen.len(), 1);
        at.sequence = seen[0].sequence;
        assert!(desk.snapshot().await.state.stream(id).is_some());
    }
}
