//! Deletion, restoration and generations.

use super::desk::{Desk, path};
use super::{Site, WIDE};
use felix_control::catalog::floor::since_2020;
use felix_control::edit::Opening;
use felix_control::limits::GRACE;
use felix_control::refusal::Conflict;
use felix_control::{Edit, Refusal};
use felix_core::{BrokerId, Generation, ShardId};

pub(super) async fn a_deleted_stream_is_restored_as_it_was(site: &impl Site) {
    let mut desk = Desk::at(site.open(WIDE).await).with_tenant().await;
    let id = desk.create("clicks").await;
    let (_, before) = desk.stream("clicks").await.unwrap();
    let based_on = desk.delete("clicks").await;
    drop(desk);

    desk = Desk::at(site.open(WIDE).await);
    assert_eq!(desk.stream("clicks").await, None);
    let early = Edit::PurgeStream {
        id,
        based_on,
        early: false,
    };
    let refusal = desk.refusal(early).await;
    assert_eq!(
        refusal,
        Refusal::from(Conflict::GraceNotOver(path("clicks")))
    );
    desk.commit(Edit::RestoreStream { id, based_on }).await;
    assert_eq!(desk.stream("clicks").await.unwrap().1, before);

    let based_on = desk.delete("clicks").await;
    desk.now.0 += i64::try_from(GRACE.as_millis()).unwrap();
    let late = desk.refusal(Edit::RestoreStream { id, based_on }).await;
    assert_eq!(late, Refusal::from(Conflict::GraceOver(path("clicks"))));
    desk.commit(Edit::PurgeStream {
        id,
        based_on,
        early: false,
    })
    .await;
    let now = desk.now;
    drop(desk);

    let desk = Desk {
        now,
        ..Desk::at(site.open(WIDE).await)
    };
    assert_eq!(desk.snapshot().await.state.stream(id), None);
    assert_ne!(desk.create("clicks").await, id);
}

pub(super) async fn generations_of_a_name_only_grow(site: &impl Site) {
    let desk = Desk::at(site.open(WIDE).await).with_tenant().await;
    desk.node(1).await;
    let id = desk.create("clicks").await;
    let first = since_2020(desk.now).get();
    assert_eq!(desk.lead(id, 1).await, first + 1);
    assert_eq!(desk.lead(id, 1).await, first + 2);
    let far = first + 50_000_000;
    let shard = ShardId {
        stream: id,
        index: 0,
    };
    let openings = vec![Opening {
        shard,
        generation: Generation::new(far),
    }];
    desk.commit(Edit::NoteGenerations {
        leader: BrokerId(1),
        openings,
    })
    .await;
    let based_on = desk.delete("clicks").await;
    desk.commit(Edit::PurgeStream {
        id,
        based_on,
        early: true,
    })
    .await;
    drop(desk);

    let desk = Desk::at(site.open(WIDE).await);
    let anew = desk.create("clicks").await;
    assert_ne!(anew, id);
    let (_, stream) = desk.stream("clicks").await.unwrap();
    assert_eq!(stream.generation_floor.get(), far);
    assert_eq!(desk.lead(anew, 1).await, far + 1);
    desk.create("other").await;
    let (_, other) = desk.stream("other").await.unwrap();
    assert_eq!(
        other.generation_floor.get(),
        first,
        "only that name is concerned"
    );
}
