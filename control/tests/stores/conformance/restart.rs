//! What was kept is there again.

use super::desk::{Desk, creation, follow};
use super::{Site, WIDE};
use felix_control::catalog::Entry;
use felix_control::{Page, Position, Sequence};

pub(super) async fn all_is_there_after_a_restart_and_goes_on(site: &impl Site) {
    let desk = Desk::at(site.open(WIDE).await).with_tenant().await;
    desk.node(1).await;
    let clicks = desk.create("clicks").await;
    desk.lead(clicks, 1).await;
    desk.create("orders").await;
    desk.delete("orders").await;
    let before = desk.snapshot().await;
    let begin = Position {
        sequence: Sequence::ZERO,
        ..before.position
    };
    let seen = follow(desk.store.as_ref(), begin, before.position).await;
    drop(desk);

    let desk = Desk::at(site.open(WIDE).await);
    let after = desk.snapshot().await;
    assert_eq!(after.position, before.position);
    let entries =
        |of: &felix_control::Snapshot| of.state.entries().cloned().collect::<Vec<Entry>>();
    assert_eq!(entries(&after), entries(&before));
    assert_eq!(
        follow(desk.store.as_ref(), begin, after.position).await,
        seen
    );
    let (_, edit) = creation("more");
    let committed = desk.commit(edit).await;
    assert_eq!(committed.sequence, before.position.sequence.next());
}

pub(super) async fn a_window_that_became_smaller_starts_followers_over(site: &impl Site) {
    let desk = Desk::at(site.open(WIDE).await).with_tenant().await;
    for number in 0..8 {
        desk.create(&format!("s{number}")).await;
    }
    let end = desk.snapshot().await.position;
    drop(desk);

    let desk = Desk::at(site.open(4).await);
    let at = |sequence| Position {
        sequence: Sequence::new(sequence),
        ..end
    };
    assert_eq!(desk.store.changes(at(5), 100).await, Ok(Page::StartOver));
    assert_eq!(follow(desk.store.as_ref(), at(6), end).await.len(), 4);
    desk.create("more").await;
    drop(desk);

    // What has left the window does not come back with a wider one.
    let desk = Desk::at(site.open(WIDE).await);
    assert_eq!(desk.store.changes(at(6), 100).await, Ok(Page::StartOver));
    assert_eq!(follow(desk.store.as_ref(), at(7), at(11)).await.len(), 4);
}

pub(super) async fn a_proposal_that_was_made_before_a_restart_is_not_made_again(site: &impl Site) {
    let desk = Desk::at(site.open(WIDE).await).with_tenant().await;
    let proposal = desk.proposal(creation("clicks").1);
    let first = desk.store.commit(proposal.clone()).await.unwrap();
    desk.create("orders").await;
    let before = desk.snapshot().await.position;
    drop(desk);

    let desk = Desk::at(site.open(WIDE).await);
    assert_eq!(desk.store.commit(proposal).await.unwrap(), first);
    assert_eq!(desk.snapshot().await.position, before);
}
