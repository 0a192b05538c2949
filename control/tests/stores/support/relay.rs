//! A wire to the database that can be cut at the worst moment: when an edit was kept and nobody has
//! been told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Passes on what is sent, both ways.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) port: u16,
    cuts: Arc<Cuts>,
}

#[derive(Debug, Default)]
struct Cuts {
    is_armed: AtomicBool,
    made: AtomicU32,
}

impl Relay {
    /// One to the database at a port.
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let cuts = Arc::new(Cuts::default());
        let shared = Arc::clone(&cuts);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                tokio::spawn(pass(client, server, Arc::clone(&shared)));
            }
        });
        Self { port: own, cuts }
    }

    /// Keeps the next answer to a commit for itself, and cuts the connection.
    pub(crate) fn cut_at_commit(&self) {
        self.cuts.is_armed.store(true, Ordering::SeqCst);
    }

    /// How often it has.
    pub(crate) fn cuts(&self) -> u32 {
        self.cuts.made.load(Ordering::SeqCst)
    }
}

async fn pass(mut client: TcpStream, mut server: TcpStream, cuts: Arc<Cuts>) {
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            Ok(count) = client.read(&mut asked) => {
                let bytes = &asked[..count];
                let commits = bytes.windows(7).any(|word| word == b"COMMIT\0");
                if count == 0 || server.write_all(bytes).await.is_err() {
                    return;
                }
                if commits && cuts.is_armed.swap(false, Ordering::SeqCst) {
                    // It has been done once the server says so.
                    let said = server.read(&mut answered).await.unwrap();
                    assert!(said > 0);
                    cuts.made.fetch_add(1, Ordering::SeqCst);
                    return;
                }
            }
            Ok(count) = server.read(&mut answered) => {
                if count == 0 || client.write_all(&answered[..count]).await.is_err() {
                    return;
                }
            }
            else => return,
        }
    }
}
