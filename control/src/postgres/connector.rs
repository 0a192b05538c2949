//! How connections to the database are made.

use super::{PostgresOptions, tls, unavailable};
use crate::store::StoreError;
use std::fmt;
use std::future::poll_fn;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Run on each connection. An instance that is stopped or cut off in the middle of an edit holds up
/// the others for no longer than this. A commit that the database only promises to keep is no
/// commit; what is stricter than `on` stays.
const SET_UP: &str = "SET lock_timeout = '10s'; SET statement_timeout = '10s'; \
    SET idle_in_transaction_session_timeout = '10s'; \
    SELECT set_config('synchronous_commit', 'on', false) \
    WHERE current_setting('synchronous_commit') = 'off'";

/// How long sent bytes may stay unacknowledged before the connection is given up.
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

/// Makes connections.
#[derive(Clone)]
pub(super) struct Connector {
    config: Config,
    /// `None`: connections are not encrypted.
    tls: Option<MakeRustlsConnect>,
}

/// A connection to the database, and the task that drives it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    /// A word for each notification; closed, once the connection is over.
    pub(super) notified: mpsc::Receiver<()>,
    driver: JoinHandle<()>,
}

impl Connector {
    /// One for this database.
    ///
    /// # Errors
    /// The options are wrong.
    pub(super) fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        let url = tls::known_modes(&options.url);
        let mut config: Config = url.parse().map_err(|error| wrong(&error))?;
        if config.get_application_name().is_none() {
            config.application_name("felix-control");
        }
        config.connect_timeout(options.connect_timeout);
        config.tcp_user_timeout(UNACKNOWLEDGED);
        // Of several hosts the one that can be written to.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        tls::settle_mode(&mut config);
        // Reading the system's authorities takes longer than all else.
        let is_encrypted = config.get_ssl_mode() != SslMode::Disable;
        let tls = is_encrypted.then(|| tls::connector(options.ca_pem.as_deref()));
        let tls = tls.transpose()?;
        Ok(Self { config, tls })
    }

    /// A new connection.
    ///
    /// # Errors
    /// The database is away, or does not let us in.
    pub(super) async fn connect(&self) -> Result<Session, StoreError> {
        match &self.tls {
            Some(tls) => self.connect_with(tls.clone()).await,
            None => self.connect_with(NoTls).await,
        }
    }

    async fn connect_with<T>(&self, tls: T) -> Result<Session, StoreError>
    where
        T: MakeTlsConnect<Socket> + Send,
        T::Stream: Send + 'static,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let (client, connection) = self
            .config
            .connect(tls)
            .await
            .map_err(|error| unavailable(&error))?;
        // One word that waits says as much as many.
        let (notify, notified) = mpsc::channel(1);
        let driver = tokio::spawn(drive(connection, notify));
        let session = Session {
            client,
            notified,
            driver,
        };
        let set_up = session.client.batch_execute(SET_UP).await;
        set_up.map_err(|error| unavailable(&error))?;
        Ok(session)
    }
}

async fn drive<S, T>(mut connection: Connection<S, T>, notify: mpsc::Sender<()>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    loop {
        match poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notification(_))) => drop(notify.try_send(())),
            Some(Ok(AsyncMessage::Notice(notice))) => {
                tracing::debug!(notice = notice.message(), "the database notes");
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                // Whoever waits for an answer is told; nobody may be waiting.
                tracing::debug!(error = %unavailable(&error), "a connection to the database ended");
                return;
            }
            None => return,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // What is under way is not to end after something that was begun on a later connection.
        self.driver.abort();
    }
}

/// Without the string, which may have a password.
fn wrong(error: &tokio_postgres::Error) -> StoreError {
    let why =
        std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    StoreError::Unusable(format!(
        "the database's URL is wrong: {why}; give postgres://user:password@host:5432/database"
    ))
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}
