//! Who hears what other instances have changed.

use super::connector::Connector;
use super::keeper::Job;
use super::rows::CHANNEL;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// How long a change may go unheard where notifications do not arrive: some poolers of connections
/// swallow them, and a connection that is cut is noticed late.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Listens, by a connection of its own.
#[derive(Debug)]
pub(super) struct Listener {
    connector: Connector,
    jobs: mpsc::Sender<Job>,
}

impl Listener {
    pub(super) fn new(connector: Connector, jobs: mpsc::Sender<Job>) -> Self {
        Self { connector, jobs }
    }

    /// Until the store is dropped.
    pub(super) async fn run(self) {
        loop {
            self.listen().await;
            // The database is away. Looking goes on, for it may be away for this connection only.
            self.look();
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Until the connection is over.
    async fn listen(&self) {
        let Ok(mut session) = self.connector.connect().await else {
            return;
        };
        let listen = format!("LISTEN {CHANNEL}");
        if session.client.batch_execute(&listen).await.is_err() {
            return;
        }
        loop {
            // The first time for what was changed before we listened.
            self.look();
            if let Ok(None) = timeout(LOOK_INTERVAL, session.notified.recv()).await {
                return;
            }
        }
    }

    fn look(&self) {
        // Where the queue is full, what is in it looks as well.
        drop(self.jobs.try_send(Job::Look(None)));
    }
}
