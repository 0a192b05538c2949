//! Generations, leaders and nodes.

use super::*;

#[test]
fn generations_of_a_name_only_grow_whatever_becomes_of_its_streams() {
    let mut desk = Desk::new();
    desk.node(1);
    desk.create("clicks", 7).unwrap();
    let first = desk.floor_of("clicks");
    assert_eq!(first, since_2020(NOW).get());
    assert_eq!(desk.lead(7, 0, Some(1)), Ok(first + 1));
    // Opened more often than there were seconds: the clock does not cover it.
    let openings = vec![Opening {
        shard: shard(7, 0),
        generation: Generation::new(first + 9_999_999),
    }];
    desk.make(Edit::NoteGenerations {
        leader: BrokerId(1),
        openings,
    })
    .unwrap();
    desk.delete("clicks");
    desk.create("clicks", 8).unwrap();
    assert_eq!(
        desk.floor_of("clicks"),
        first + 9_999_999,
        "while the old one can be restored"
    );
    desk.delete("clicks");
    desk.wait(GRACE);
    desk.purge(7).unwrap();
    desk.purge(8).unwrap();
    desk.create("clicks", 9).unwrap();
    assert_eq!(
        desk.floor_of("clicks"),
        first + 9_999_999,
        "when it is gone"
    );
    // Names that were never like that are not concerned.
    desk.create("other", 10).unwrap();
    assert_eq!(desk.floor_of("other"), since_2020(desk.now).get());
}

#[test]
fn what_the_clock_covers_leaves_one_floor_for_all_names_and_holds_when_it_goes_back() {
    let mut desk = Desk::new();
    let records = desk.state.record_count();
    for id in 10..30 {
        desk.create(&format!("s{id}"), id).unwrap();
        desk.delete(&format!("s{id}"));
        desk.wait(GRACE);
        desk.purge(id).unwrap();
    }
    assert_eq!(desk.state.record_count(), records);
    let last = since_2020(desk.now).get() - u32::try_from(GRACE.as_secs()).unwrap();
    desk.now = Timestamp(0);
    desk.create("late", 40).unwrap();
    assert_eq!(desk.floor_of("late"), last);
}

#[test]
fn each_leader_of_a_shard_is_above_all_before() {
    let mut desk = Desk::new();
    desk.node(1);
    desk.node(2);
    desk.create("clicks", 7).unwrap();
    let first = desk.floor_of("clicks") + 1;
    assert_eq!(desk.lead(7, 2, Some(1)), Ok(first));
    assert_eq!(desk.lead(7, 2, Some(2)), Ok(first + 1));
    assert_eq!(desk.lead(7, 2, None), Ok(first + 1), "nothing is opened");
    assert_eq!(desk.lead(7, 2, Some(2)), Ok(first + 2));
    assert!(
        matches!(desk.lead(7, 3, Some(1)), Err(Refusal::NotFound(_))),
        "it has three shards"
    );
    assert!(
        matches!(desk.lead(7, 0, Some(3)), Err(Refusal::NotFound(_))),
        "nobody knows node 3"
    );
    let stale = Reassignment {
        shard: shard(7, 2),
        leader: Some(BrokerId(1)),
        based_on: None,
    };
    let stale = desk.refusal(Edit::AssignShards(vec![stale]));
    assert!(stale.to_string().contains("is there already"), "{stale}");
}

#[test]
fn only_the_leader_notes_generations_and_only_greater_ones() {
    let mut desk = Desk::new();
    desk.node(1);
    desk.node(2);
    desk.create("clicks", 7).unwrap();
    let first = desk.lead(7, 0, Some(1)).unwrap();
    let note = |leader, generation| Edit::NoteGenerations {
        leader: BrokerId(leader),
        openings: vec![Opening {
            shard: shard(7, 0),
            generation,
        }],
    };
    let refusal = desk
        .refusal(note(2, Generation::new(first + 1)))
        .to_string();
    assert!(refusal.contains("node 1 does"), "{refusal}");
    assert_eq!(desk.make(note(1, Generation::new(first))).unwrap(), []);
    assert_eq!(
        desk.make(note(1, Generation::new(first + 5)))
            .unwrap()
            .len(),
        1
    );
    assert!(matches!(
        desk.refusal(note(1, Generation::MAX)),
        Refusal::Invalid(_)
    ));
    let last = Generation::new(Generation::MAX.get() - 1);
    desk.make(note(1, last)).unwrap();
    assert_eq!(desk.lead(7, 0, Some(2)), Ok(Generation::MAX.get()));
    assert_eq!(
        desk.lead(7, 0, Some(1)),
        Err(Limit::Generations(shard(7, 0)).into())
    );
}

#[test]
fn an_edit_about_shards_names_each_once_and_not_too_many() {
    let mut desk = Desk::new();
    desk.node(1);
    desk.create("clicks", 7).unwrap();
    let of = |index| Reassignment {
        shard: shard(7, index),
        leader: Some(BrokerId(1)),
        based_on: None,
    };
    let twice = desk.refusal(Edit::AssignShards(vec![of(1), of(1)]));
    assert_eq!(twice, Invalid::ShardTwice(shard(7, 1)).into());
    let many = (0..=u32::try_from(EDIT_SHARDS_MAX).unwrap())
        .map(of)
        .collect();
    assert!(matches!(
        desk.refusal(Edit::AssignShards(many)),
        Refusal::Invalid(_)
    ));
    // All or none.
    assert!(matches!(
        desk.refusal(Edit::AssignShards(vec![of(0), of(5)])),
        Refusal::NotFound(_)
    ));
    assert_eq!(desk.state.assignments().count(), 0);
}

#[test]
fn shards_of_a_stream_go_with_it_for_good() {
    let mut desk = Desk::new();
    desk.node(1);
    desk.create("clicks", 7).unwrap();
    desk.create("other", 8).unwrap();
    desk.lead(7, 0, Some(1)).unwrap();
    desk.lead(7, 1, Some(1)).unwrap();
    desk.lead(8, 0, Some(1)).unwrap();
    desk.delete("clicks");
    desk.wait(GRACE);
    desk.purge(7).unwrap();
    let left: Vec<_> = desk.state.assignments().map(|(_, of)| of.shard).collect();
    assert_eq!(left, [shard(8, 0)]);
}

#[test]
fn a_node_registers_again_as_it_was_and_changes_only_for_who_has_seen_it() {
    let mut desk = Desk::new();
    desk.node(1);
    let register = |address: &str, based_on| Edit::RegisterNode {
        node: node(1, address),
        based_on,
    };
    assert_eq!(desk.make(register("host-1:9092", None)).unwrap(), []);
    assert!(matches!(
        desk.refusal(register("host-9:9092", None)),
        Refusal::Conflict(Conflict::Stale { .. })
    ));
    let seen = desk.state.node(BrokerId(1)).unwrap().0;
    desk.make(register("host-9:9092", Some(seen))).unwrap();
    let other = Edit::RegisterNode {
        node: node(2, "host-9:9092"),
        based_on: None,
    };
    assert!(desk.refusal(other).to_string().contains("that of node 1"));
}

#[test]
fn a_node_that_leads_something_is_not_forgotten() {
    let mut desk = Desk::new();
    desk.node(1);
    desk.create("clicks", 7).unwrap();
    desk.lead(7, 0, Some(1)).unwrap();
    let based_on = desk.state.node(BrokerId(1)).unwrap().0;
    let remove = Edit::RemoveNode {
        id: BrokerId(1),
        based_on,
    };
    assert!(
        desk.refusal(remove.clone())
            .to_string()
            .contains("move them away")
    );
    desk.delete("clicks");
    desk.make(remove).unwrap();
    assert_eq!(desk.state.nodes().count(), 0);
}
