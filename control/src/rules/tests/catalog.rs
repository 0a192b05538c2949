//! Tenants, namespaces, streams, caches and quotas.

use super::*;

#[test]
fn a_tenant_begins_with_a_namespace_and_goes_only_when_empty() {
    let mut desk = Desk::new();
    assert!(desk.state.namespace(&namespace("default")).is_some());
    let again = Edit::CreateTenant {
        name: tenant(),
        display_name: String::new(),
    };
    assert!(matches!(
        desk.refusal(again),
        Refusal::Conflict(Conflict::Exists(_))
    ));
    let orders = namespace("orders");
    desk.make(Edit::CreateNamespace {
        path: orders.clone(),
        display_name: "Orders".into(),
    })
    .unwrap();
    let version = |desk: &Desk| desk.state.tenant(&tenant()).unwrap().0;
    let delete = |desk: &Desk| Edit::DeleteTenant {
        name: tenant(),
        based_on: version(desk),
    };
    let edit = delete(&desk);
    let refusal = desk.refusal(edit);
    assert!(
        refusal.to_string().contains("namespace t1/orders"),
        "{refusal}"
    );
    let based_on = desk.state.namespace(&orders).unwrap().0;
    desk.make(Edit::DeleteNamespace {
        path: orders,
        based_on,
    })
    .unwrap();
    let edit = delete(&desk);
    let gone = desk.make(edit).unwrap();
    assert!(
        gone.iter()
            .all(|change| change.op == Op::Deleted && change.removes())
    );
    assert_eq!(desk.state.tenants().count(), 0);
    assert_eq!(desk.state.namespaces(&tenant()).count(), 0);
}

#[test]
fn a_namespace_with_what_can_be_restored_is_not_empty() {
    let mut desk = Desk::new();
    desk.create("clicks", 7).unwrap();
    let based_on = desk.state.namespace(&namespace("default")).unwrap().0;
    let delete = || Edit::DeleteNamespace {
        path: namespace("default"),
        based_on,
    };
    assert!(
        desk.refusal(delete())
            .to_string()
            .contains("t1/default/clicks")
    );
    desk.delete("clicks");
    assert!(
        desk.refusal(delete())
            .to_string()
            .contains("can be restored")
    );
    desk.wait(GRACE);
    desk.purge(7).unwrap();
    desk.make(delete()).unwrap();
}

#[test]
fn a_stream_needs_a_tenant_a_namespace_a_free_name_and_an_identity() {
    let mut desk = Desk::new();
    let settings = StreamSettings::default();
    let create = |tenant: &str, namespace: &str, name: &str, id: u128| Edit::CreateStream {
        path: StreamPath::parse(tenant, namespace, name).unwrap(),
        id: StreamId(id),
        settings: settings.clone(),
    };
    let refusal = desk.refusal(create("t2", "default", "a", 7)).to_string();
    assert!(refusal.contains("there is no tenant t2"), "{refusal}");
    let refusal = desk.refusal(create("t1", "orders", "a", 7)).to_string();
    assert!(
        refusal.contains("there is no namespace t1/orders"),
        "{refusal}"
    );
    desk.make(create("t1", "default", "a", 7)).unwrap();
    let refusal = desk.refusal(create("t1", "default", "a", 8)).to_string();
    assert!(refusal.contains("stream t1/default/a already"), "{refusal}");
    for id in [0, 1, 7] {
        let refusal = desk.refusal(create("t1", "default", "b", id));
        assert_eq!(refusal, Conflict::IdTaken(StreamId(id)).into());
    }
}

#[test]
fn whoever_changes_a_stream_must_have_seen_it_as_it_is() {
    let mut desk = Desk::new();
    desk.create("clicks", 7).unwrap();
    let seen = desk.version("clicks");
    let alter = |based_on, shards| Edit::AlterStream {
        path: path("clicks"),
        based_on,
        settings: StreamSettings {
            shards,
            ..StreamSettings::default()
        },
    };
    let changes = desk.make(alter(seen, 4)).unwrap();
    assert_eq!((changes.len(), changes[0].op), (1, Op::Updated));
    let refusal = desk.refusal(alter(seen, 5)).to_string();
    assert!(
        refusal.contains("stream t1/default/clicks has changed"),
        "{refusal}"
    );
    let delete = Edit::DeleteStream {
        path: path("clicks"),
        based_on: seen,
        grace: GRACE,
    };
    assert!(matches!(
        desk.refusal(delete),
        Refusal::Conflict(Conflict::Stale { .. })
    ));
    // One that says what is there already is content with it.
    let seen = desk.version("clicks");
    assert_eq!(desk.make(alter(seen, 4)).unwrap(), []);
    let fewer = desk.refusal(alter(seen, 3));
    assert_eq!(fewer, Invalid::FewerShards { had: 4, asked: 3 }.into());
}

#[test]
fn a_version_of_a_stream_is_none_of_its_namesake() {
    let mut desk = Desk::new();
    desk.create("clicks", 7).unwrap();
    let seen = desk.version("clicks");
    desk.delete("clicks");
    desk.create("clicks", 8).unwrap();
    let settings = StreamSettings {
        shards: 9,
        ..StreamSettings::default()
    };
    let alter = Edit::AlterStream {
        path: path("clicks"),
        based_on: seen,
        settings,
    };
    assert!(matches!(
        desk.refusal(alter),
        Refusal::Conflict(Conflict::Stale { .. })
    ));
}

#[test]
fn a_deleted_stream_can_be_restored_as_it_was_until_its_grace_is_over() {
    let mut desk = Desk::new();
    desk.create("clicks", 7).unwrap();
    let before = desk.state.stream(StreamId(7)).unwrap().1.clone();
    let restore = |based_on| Edit::RestoreStream {
        id: StreamId(7),
        based_on,
    };
    let live = desk.version("clicks");
    let refusal = desk.refusal(restore(live));
    assert_eq!(refusal, Conflict::NotDeleted(path("clicks")).into());
    let deleted = desk.delete("clicks");
    assert_eq!(desk.state.stream_named(&path("clicks")), None);
    assert_eq!(desk.state.streams(&namespace("default")).count(), 0);
    assert_eq!(desk.state.deleted_streams().count(), 1);
    desk.wait(GRACE - Duration::from_millis(1));
    let refusal = desk.purge(7).unwrap_err();
    assert_eq!(refusal, Conflict::GraceNotOver(path("clicks")).into());
    let changes = desk.make(restore(deleted)).unwrap();
    assert_eq!(changes[0].op, Op::Restored);
    assert_eq!(desk.state.stream_named(&path("clicks")).unwrap().1, &before);

    let deleted = desk.delete("clicks");
    desk.wait(GRACE);
    assert_eq!(
        desk.refusal(restore(deleted)),
        Conflict::GraceOver(path("clicks")).into()
    );
    desk.purge(7).unwrap();
    assert_eq!(desk.state.stream(StreamId(7)), None);
    assert!(matches!(
        desk.refusal(restore(deleted)),
        Refusal::NotFound(_)
    ));
}

#[test]
fn a_name_is_free_as_soon_as_its_stream_is_deleted_and_then_in_the_way_of_a_restoration() {
    let mut desk = Desk::new();
    desk.create("clicks", 7).unwrap();
    let deleted = desk.delete("clicks");
    desk.create("clicks", 8).unwrap();
    let restore = Edit::RestoreStream {
        id: StreamId(7),
        based_on: deleted,
    };
    assert_eq!(
        desk.refusal(restore.clone()),
        Conflict::NameTaken(path("clicks")).into()
    );
    desk.delete("clicks");
    desk.make(restore).unwrap();
    assert_eq!(
        desk.state.stream_named(&path("clicks")).unwrap().1.id,
        StreamId(7)
    );
}

#[test]
fn a_grace_has_a_bound_and_may_be_cut_short_by_who_says_so() {
    let mut desk = Desk::new();
    desk.create("clicks", 7).unwrap();
    let grace = GRACE_MAX + Duration::from_secs(1);
    let based_on = desk.version("clicks");
    let delete = Edit::DeleteStream {
        path: path("clicks"),
        based_on,
        grace,
    };
    assert_eq!(desk.refusal(delete), Invalid::Grace(grace).into());
    let based_on = desk.delete("clicks");
    desk.make(Edit::PurgeStream {
        id: StreamId(7),
        based_on,
        early: true,
    })
    .unwrap();
    assert_eq!(desk.state.deleted_streams().count(), 0);
}

#[test]
fn a_cache_is_made_grows_and_goes_for_good() {
    let mut desk = Desk::new();
    let path = CachePath::parse("t1", "default", "prices").unwrap();
    let create = |id| Edit::CreateCache {
        path: path.clone(),
        id: StreamId(id),
        display_name: String::new(),
        shards: 2,
    };
    desk.make(create(7)).unwrap();
    assert!(matches!(
        desk.refusal(create(8)),
        Refusal::Conflict(Conflict::Exists(_))
    ));
    assert_eq!(desk.state.cache_by_id(StreamId(7)).unwrap().1.path, path);
    // A stream of that name is another thing.
    desk.create("prices", 8).unwrap();
    let alter = |desk: &Desk, display_name: &str, shards| Edit::AlterCache {
        path: path.clone(),
        based_on: desk.state.cache(&path).unwrap().0,
        display_name: display_name.into(),
        shards,
    };
    let edit = alter(&desk, "Prices", 4);
    desk.make(edit).unwrap();
    let edit = alter(&desk, "Prices", 4);
    assert_eq!(desk.make(edit).unwrap(), []);
    let edit = alter(&desk, "Prices", 3);
    assert!(matches!(
        desk.refusal(edit),
        Refusal::Invalid(Invalid::FewerShards { .. })
    ));
    let edit = alter(&desk, "a\nb", 4);
    assert_eq!(desk.refusal(edit), Invalid::DisplayName.into());
    let based_on = desk.state.cache(&path).unwrap().0;
    desk.make(Edit::DeleteCache {
        path: path.clone(),
        based_on,
    })
    .unwrap();
    assert_eq!(
        (desk.state.cache(&path), desk.state.cache_by_id(StreamId(7))),
        (None, None)
    );
    desk.make(create(7)).unwrap();
}

#[test]
fn a_quota_bounds_what_comes_and_takes_nothing_away() {
    let mut desk = Desk::new();
    desk.create("a", 7).unwrap();
    desk.create("b", 8).unwrap();
    let quota = |streams_max, shards_max| Quota {
        tenant: tenant(),
        publish: None,
        streams_max,
        shards_max,
    };
    let set = |quota, based_on| Edit::SetQuota { quota, based_on };
    desk.make(set(quota(Some(1), None), None)).unwrap();
    let refusal = desk.create("c", 9).unwrap_err();
    assert!(
        matches!(&refusal, Refusal::Limit(Limit::Quota { asked: 3, .. })),
        "{refusal}"
    );
    assert!(matches!(
        desk.refusal(set(quota(None, None), None)),
        Refusal::Conflict(_)
    ));
    let based_on = desk.state.quota(&tenant()).map(|(version, _)| version);
    desk.make(set(quota(Some(3), Some(8)), based_on)).unwrap();
    assert!(
        desk.create("c", 9)
            .unwrap_err()
            .to_string()
            .contains("shards_max is 8")
    );
    let more = |desk: &Desk, shards| Edit::AlterStream {
        path: path("a"),
        based_on: desk.version("a"),
        settings: StreamSettings {
            shards,
            ..StreamSettings::default()
        },
    };
    let edit = more(&desk, 6);
    assert!(matches!(desk.refusal(edit), Refusal::Limit(_)));
    let edit = more(&desk, 5);
    desk.make(edit).unwrap();
    // What was deleted under a greater quota has no right to come back.
    let deleted = desk.delete("b");
    let edit = more(&desk, 8);
    desk.make(edit).unwrap();
    let restore = Edit::RestoreStream {
        id: StreamId(8),
        based_on: deleted,
    };
    assert!(matches!(desk.refusal(restore), Refusal::Limit(_)));
    let edit = Edit::AlterStream {
        path: path("a"),
        based_on: desk.version("a"),
        settings: StreamSettings {
            shards: 8,
            consistency: Consistency::Quorum,
            ..StreamSettings::default()
        },
    };
    desk.make(edit).unwrap();
}

#[test]
fn a_state_is_what_its_records_are_and_a_copy_of_it_stays_as_it_was() {
    let mut desk = Desk::new();
    desk.node(1);
    desk.create("clicks", 7).unwrap();
    desk.lead(7, 0, Some(1)).unwrap();
    desk.delete("clicks");
    desk.create("clicks", 8).unwrap();
    let copy = desk.state.clone();
    let again = State::of(copy.sequence(), copy.entries().cloned());
    desk.delete("clicks");
    for state in [&copy, &again] {
        assert_eq!(
            state.stream_named(&path("clicks")).unwrap().1.id,
            StreamId(8)
        );
        assert_eq!(state.deleted_namesakes(&path("clicks")).count(), 1);
        assert!(state.has_id(StreamId(7)) && state.has_id(StreamId(8)));
    }
    assert!(copy.entries().eq(again.entries()));
    let texts: std::collections::HashSet<String> = copy
        .entries()
        .map(|entry| entry.record.key().to_string())
        .collect();
    assert_eq!(
        texts.len(),
        copy.record_count(),
        "no two keys are written alike"
    );
    for entry in copy.entries() {
        let text = serde_json::to_string(entry).unwrap();
        assert_eq!(
            &serde_json::from_str::<crate::catalog::Entry>(&text).unwrap(),
            entry
        );
    }
    assert!(matches!(
        copy.entry(&Key::Floor(None)).unwrap().record,
        Record::Floor(_)
    ));
}

#[test]
fn a_full_catalog_takes_nothing_new_and_can_be_emptied() {
    assert_eq!(check_room(RECORDS_MAX - 2, 2), Ok(()));
    assert_eq!(check_room(RECORDS_MAX - 2, 3), Err(Limit::Records));
    assert_eq!(check_room(RECORDS_MAX, 0), Ok(()));
    let sentence = Refusal::from(Limit::Records).to_string();
    assert!(sentence.contains("delete what is not needed"), "{sentence}");
}
