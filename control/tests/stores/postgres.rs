//! The Postgres store, over a real server: what every store promises, and what several instances
//! and a database that comes and goes add to that.

use crate::conformance::desk::{Desk, follow};
use crate::conformance::{self, Site, WIDE};
use crate::support::{Database, Server};
use felix_control::catalog::{StreamPath, StreamSettings};
use felix_control::edit::draw_stream_id;
use felix_control::postgres::{PostgresOptions, PostgresStore};
use felix_control::{CommitError, Edit, Page, Position, Sequence, Store, StoreError};
use felix_core::{StreamId, Timestamp};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio_postgres::NoTls;

const NOW: Timestamp = Timestamp(1_796_083_200_000);

fn options(database: &Database, window: usize) -> PostgresOptions {
    PostgresOptions {
        window,
        ..PostgresOptions::new(&database.url(), NOW)
    }
}

async fn open(database: &Database) -> Arc<dyn Store> {
    Arc::new(PostgresStore::open(options(database, WIDE)).await.unwrap())
}

impl Site for Database {
    fn open(&self, window: usize) -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + '_>> {
        Box::pin(async move {
            let store = PostgresStore::open(options(self, window)).await.unwrap();
            let store: Arc<dyn Store> = Arc::new(store);
            store
        })
    }

    fn is_shared(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_postgres_store_conforms() {
    let Some(server) = Server::start() else {
        return;
    };
    let count = AtomicU32::new(0);
    conformance::run(async || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        server.database(&format!("case{number}")).await
    })
    .await;
}

#[tokio::test]
async fn instances_that_start_at_once_found_one_catalog() {
    let Some(server) = Server::start() else {
        return;
    };
    let database = Arc::new(server.database("felix").await);
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let database = Arc::clone(&database);
            tokio::spawn(async move { open(&database).await.snapshot().await.unwrap().position })
        })
        .collect();
    let mut positions = Vec::new();
    for task in tasks {
        positions.push(task.await.unwrap());
    }
    assert!(positions.iter().all(|position| *position == positions[0]));
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_left_alone() {
    let Some(server) = Server::start() else {
        return;
    };
    let database = server.database("felix").await;
    drop(open(&database).await);
    database
        .execute("INSERT INTO felix_migrations (number) VALUES (999)")
        .await;
    let refusal = PostgresStore::open(options(&database, WIDE))
        .await
        .unwrap_err()
        .to_string();
    assert!(refusal.contains("upgrade this program"), "{refusal}");
}

/// A server with a certificate for `localhost`, and that certificate.
fn encrypted() -> Option<(Arc<Server>, Vec<u8>)> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let server = Server::start_with(|folder| {
        for (name, text) in [("server.crt", &certificate), ("server.key", &key)] {
            fs::write(folder.join(name), text).unwrap();
            fs::set_permissions(folder.join(name), Permissions::from_mode(0o600)).unwrap();
        }
        let folder = folder.display();
        format!(
            "ssl = on\nssl_cert_file = '{folder}/server.crt'\nssl_key_file = '{folder}/server.key'"
        )
    })?;
    Some((server, certificate.into_bytes()))
}

#[tokio::test]
async fn an_encrypted_connection_is_to_whom_the_certificate_names_and_to_nobody_else() {
    let Some((server, certificate)) = encrypted() else {
        return;
    };
    let database = server.database("felix").await;
    let with = |url: String, ca_pem: &[u8]| PostgresOptions {
        ca_pem: Some(ca_pem.to_vec()),
        ..PostgresOptions::new(&format!("{url}?sslmode=verify-full"), NOW)
    };
    let store = PostgresStore::open(with(database.url_by_name(), &certificate))
        .await
        .unwrap();
    Desk::at(Arc::new(store)).with_tenant().await;
    let other = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let other = other.cert.pem().into_bytes();
    for options in [
        with(database.url_by_name(), &other),
        with(database.url(), &certificate),
    ] {
        let refused = PostgresStore::open(options).await.unwrap_err().to_string();
        assert!(refused.contains("certificate"), "{refused}");
    }
}

#[tokio::test]
async fn a_server_without_encryption_is_refused_where_it_was_asked_for() {
    let Some(server) = Server::start() else {
        return;
    };
    let database = server.database("felix").await;
    let options = PostgresOptions::new(&format!("{}?sslmode=require", database.url()), NOW);
    let refused = PostgresStore::open(options).await.unwrap_err().to_string();
    assert!(refused.contains("TLS"), "{refused}");
}

#[tokio::test]
async fn what_trying_again_does_not_mend_is_said_so() {
    let Some(server) = Server::start() else {
        return;
    };
    let database = server.database("felix").await;
    for (url, why) in [
        (
            format!("{}_other", database.url()),
            "\"felix_other\" does not exist (3D000)",
        ),
        (
            database.url().replace("felix@", "eve@"),
            "\"eve\" does not exist (28000)",
        ),
        ("postgres://u:secret@host:port/x".into(), "URL is wrong"),
        ("host=x nonsense=secret".into(), "URL is wrong"),
    ] {
        let options = PostgresOptions::new(&url, NOW);
        let refused = PostgresStore::open(options).await.unwrap_err();
        assert!(matches!(refused, StoreError::Unusable(_)), "{refused}");
        let sentence = refused.to_string();
        assert!(sentence.contains(why), "{sentence}");
        assert!(!sentence.contains("secret"), "{sentence}");
    }
}

#[tokio::test]
async fn a_database_that_is_away_is_named_and_waited_for_no_longer_than_said() {
    let Some(server) = Server::start() else {
        return;
    };
    let database = server.database("felix").await;
    let patience = Duration::from_millis(200);
    let options = PostgresOptions {
        patience,
        ..options(&database, WIDE)
    };
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(options.clone()).await.unwrap());
    let desk = Desk::at(Arc::clone(&store)).with_tenant().await;
    let position = desk.snapshot().await.position;
    server.stop();
    let edit = create("clicks", draw_stream_id().unwrap());
    let refused = desk.propose(edit.clone()).await;
    assert!(
        matches!(refused, Err(CommitError::Store(StoreError::Unavailable(_)))),
        "{refused:?}"
    );
    assert!(store.snapshot().await.is_err());
    // Those who follow go on with what there was.
    assert_eq!(
        store.changes(position, 10).await,
        Ok(Page::Changes(Vec::new()))
    );
    let start = Position {
        sequence: Sequence::ZERO,
        ..position
    };
    assert_eq!(follow(store.as_ref(), start, position).await.len(), 2);
    let away = PostgresStore::open(options).await.unwrap_err().to_string();
    assert!(away.contains("cannot be reached"), "{away}");
    server.start_again();
    desk.commit(edit).await;
}

#[tokio::test]
async fn an_instance_that_holds_the_catalog_is_waited_for_no_longer_than_said() {
    let Some(server) = Server::start() else {
        return;
    };
    let database = server.database("felix").await;
    // Whatever the database's own default is.
    let isolation = "ALTER DATABASE felix SET default_transaction_isolation = 'serializable'";
    database.execute(isolation).await;
    let patience = Duration::from_millis(200);
    let options = PostgresOptions {
        patience,
        ..options(&database, WIDE)
    };
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(options).await.unwrap());
    let desk = Desk::at(store).with_tenant().await;
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let hold = "BEGIN; SELECT sequence FROM felix_catalog FOR UPDATE";
    client.batch_execute(hold).await.unwrap();
    let proposal = desk.proposal(create("clicks", draw_stream_id().unwrap()));
    let refused = desk.store.commit(proposal.clone()).await;
    assert!(matches!(
        refused,
        Err(CommitError::Store(StoreError::Unavailable(_)))
    ));
    desk.snapshot().await;
    client.batch_execute("COMMIT").await.unwrap();
    let committed = desk.store.commit(proposal).await.unwrap();
    assert_eq!(committed.sequence, Sequence::new(3));
}

#[tokio::test]
async fn an_edit_whose_answer_was_lost_is_made_once_and_answered() {
    let Some(server) = Server::start() else {
        return;
    };
    let database = server.database("felix").await;
    let (relay, url) = database.relay().await;
    let store = PostgresStore::open(PostgresOptions::new(&url, NOW))
        .await
        .unwrap();
    let desk = Desk::at(Arc::new(store)).with_tenant().await;
    let begin = desk.snapshot().await.position;
    for number in 0..3_u64 {
        relay.cut_at_commit();
        let id = draw_stream_id().unwrap();
        let committed = desk.commit(create(&format!("s{number}"), id)).await;
        assert_eq!(u64::from(relay.cuts()), number + 1, "the answer was lost");
        assert_eq!(committed.sequence.get(), begin.sequence.get() + number + 1);
    }
    let end = desk.snapshot().await;
    assert_eq!(end.state.live_streams().count(), 3);
    assert_eq!(
        follow(desk.store.as_ref(), begin, end.position).await.len(),
        3
    );
}

#[tokio::test]
async fn a_database_that_was_put_back_is_followed_from_where_it_is() {
    let Some(server) = Server::start() else {
        return;
    };
    let database = server.database("felix").await;
    let desk = Desk::at(open(&database).await).with_tenant().await;
    desk.create("clicks").await;
    let lost = desk.snapshot().await.position;
    // As from a backup that was taken before the stream was made.
    database
        .execute(
            "BEGIN; DELETE FROM felix_records WHERE key LIKE 'stream/%';
             DELETE FROM felix_changes WHERE sequence = 3;
             UPDATE felix_catalog SET sequence = 2; COMMIT",
        )
        .await;
    let snapshot = desk.snapshot().await;
    assert_eq!(snapshot.position.sequence, Sequence::new(2));
    assert_eq!(snapshot.state.live_streams().count(), 0);
    assert_eq!(desk.store.changes(lost, 10).await, Ok(Page::StartOver));
    desk.create("clicks").await;
}

fn create(name: &str, id: StreamId) -> Edit {
    Edit::CreateStream {
        path: StreamPath::parse("t1", "default", name).unwrap(),
        id,
        settings: StreamSettings::default(),
    }
}

/// Makes streams until told to end, each however often it takes; how many.
async fn load(store: Arc<dyn Store>, name: &str, ends: &AtomicBool, made: &AtomicU32) -> u32 {
    let desk = Desk::at(store);
    let mut number = 0;
    while !ends.load(Ordering::Relaxed) {
        let id = draw_stream_id().unwrap();
        let proposal = desk.proposal(create(&format!("{name}-{number}"), id));
        loop {
            match desk.store.commit(proposal.clone()).await {
                Ok(_) => break,
                Err(CommitError::Store(StoreError::Unavailable(_))) => {}
                Err(other) => panic!("{name}-{number}: {other:?}"),
            }
        }
        number += 1;
        made.fetch_add(1, Ordering::Relaxed);
    }
    number
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_change_is_lost_or_made_twice_when_the_database_restarts_under_load() {
    let Some(server) = Server::start() else {
        return;
    };
    let database = server.database("felix").await;
    let stores = [open(&database).await, open(&database).await];
    let desk = Desk::at(Arc::clone(&stores[0])).with_tenant().await;
    let begin = desk.snapshot().await.position;
    let (ends, made) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU32::new(0)),
    );
    let mut tasks = Vec::new();
    for number in 0..8 {
        let store = Arc::clone(&stores[number % 2]);
        let (ends, made) = (Arc::clone(&ends), Arc::clone(&made));
        let name = format!("task{number}");
        tasks.push(tokio::spawn(async move {
            load(store, &name, &ends, &made).await
        }));
    }
    for round in 0..3 {
        // Somebody has made something since the last restart, so that it is under load.
        let before = made.load(Ordering::Relaxed);
        while made.load(Ordering::Relaxed) < before + 20 * (round + 1) {
            stores[0]
                .changed(stores[0].snapshot().await.map_or(begin, |of| of.position))
                .await
                .unwrap();
        }
        let server = Arc::clone(&server);
        tokio::task::spawn_blocking(move || {
            server.stop();
            server.start_again();
        })
        .await
        .unwrap();
    }
    ends.store(true, Ordering::Relaxed);
    let mut expected = 0;
    for task in tasks {
        expected += task.await.unwrap();
    }
    let end = desk.snapshot().await;
    assert_eq!(
        end.position.sequence.get(),
        begin.sequence.get() + u64::from(expected)
    );
    assert_eq!(
        end.state.live_streams().count(),
        usize::try_from(expected).unwrap()
    );
    // Followers of both instances saw each once, and so does a third that starts now.
    let seen = follow(stores[0].as_ref(), begin, end.position).await;
    assert_eq!(follow(stores[1].as_ref(), begin, end.position).await, seen);
    let third = open(&database).await;
    assert_eq!(follow(third.as_ref(), begin, end.position).await, seen);
}
