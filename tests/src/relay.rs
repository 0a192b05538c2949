//! A relay between clients and a broker that loses acknowledgements.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// The API key of Produce.
const PRODUCE: [u8; 2] = [0, 0];

/// Hands frames on as they come, except for answers to Produce that it is told to lose: it swallows
/// the answer and cuts the connection, as a network does that fails between the write and the
/// acknowledgement. Only without TLS can it tell frames apart.
#[derive(Debug)]
pub struct Relay {
    port: u16,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    broker_port: AtomicU16,
    to_lose: AtomicU32,
}

impl Relay {
    /// Listens on a port of its own, and hands on once it knows to whom.
    #[must_use]
    pub fn listen() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(client, state));
            }
        });
        Self { port, state }
    }

    /// Where clients find it.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// From now on it hands on to this port.
    pub fn hand_on_to(&self, broker_port: u16) {
        self.state.broker_port.store(broker_port, Ordering::SeqCst);
    }

    /// Loses the next answers to Produce, so many.
    pub fn lose(&self, answers: u32) {
        self.state.to_lose.store(answers, Ordering::SeqCst);
    }

    /// How many of them are still to be lost.
    #[must_use]
    pub fn left_to_lose(&self) -> u32 {
        self.state.to_lose.load(Ordering::SeqCst)
    }
}

fn serve(client: TcpStream, state: Arc<State>) {
    let port = state.broker_port.load(Ordering::SeqCst);
    let Ok(broker) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
        return;
    };
    let (send, produces) = channel();
    let (from, to) = (clone(&client), clone(&broker));
    thread::spawn(move || {
        // Whichever side ends first, the other sees it.
        drop(requests(&from, &to, &send));
        drop(to.shutdown(Shutdown::Both));
    });
    drop(answers(&broker, &client, &produces, &state));
    drop(broker.shutdown(Shutdown::Both));
    drop(client.shutdown(Shutdown::Both));
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("descriptors are left")
}

/// Tells of each Produce before the broker sees it.
fn requests(mut from: &TcpStream, mut to: &TcpStream, send: &Sender<[u8; 4]>) -> io::Result<()> {
    loop {
        let frame = frame(&mut from)?;
        // Length, API key, version, correlation id.
        if frame.len() >= 12 && frame[4..6] == PRODUCE {
            let correlation = frame[8..12].try_into().expect("four bytes");
            // Nobody to tell is nobody to lose it for: the other side has ended.
            send.send(correlation).unwrap_or_default();
        }
        to.write_all(&frame)?;
    }
}

fn answers(
    mut from: &TcpStream,
    mut to: &TcpStream,
    produces: &Receiver<[u8; 4]>,
    state: &State,
) -> io::Result<()> {
    let mut waiting = HashSet::new();
    loop {
        let frame = frame(&mut from)?;
        waiting.extend(produces.try_iter());
        let one_less = |left: u32| left.checked_sub(1);
        if frame.len() >= 8
            && waiting.remove(&frame[4..8])
            && (state.to_lose)
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
                .is_ok()
        {
            return Ok(());
        }
        to.write_all(&frame)?;
    }
}

/// A whole frame with its length.
fn frame(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let bytes = usize::try_from(u32::from_be_bytes(length)).expect("64 bits");
    let mut frame = vec![0; 4 + bytes];
    frame[..4].copy_from_slice(&length);
    from.read_exact(&mut frame[4..])?;
    Ok(frame)
}
