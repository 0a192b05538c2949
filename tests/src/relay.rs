//! A relay between clients and a broker that loses acknowledgements: what a network does to
//! producers.
#![expect(
    clippy::disallowed_types,
    reason = "the threads of the relay and of the test meet here; no core of a broker does"
)]

use crate::clock::eventually;
use bytes::Bytes;
use kafka_protocol::messages::{ProduceResponse, ResponseHeader};
use kafka_protocol::protocol::{Decodable, HeaderVersion};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The API key of Produce.
const PRODUCE: [u8; 2] = [0, 0];

/// Larger than any frame of a test.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// Hands frames on as they come, except for answers to Produce that are due to be lost: it swallows
/// the answer and cuts the connection, as a network does that fails between the write and the
/// acknowledgement, or keeps it back with all that follows, as one does that lets nothing through.
/// Only without TLS can it tell frames apart; messages of SASL have a length before them as well.
/// Ends when dropped.
#[derive(Debug)]
pub struct Relay {
    port: u16,
    state: Arc<State>,
    answers: Receiver<Acknowledgement>,
}

/// An answer to Produce that has come from the broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledgement {
    /// Its client has not heard of it.
    pub is_lost: bool,
    /// The code of its first partition.
    pub error_code: i16,
    /// The offset of that partition's first record.
    pub base_offset: i64,
}

#[derive(Debug, Default)]
struct State {
    broker_port: AtomicU16,
    /// The next answers to Produce to lose, so many.
    to_lose: AtomicU32,
    /// One in so many answers is lost; 0: none is.
    lost_every: AtomicU64,
    answers: AtomicU64,
    lost: AtomicU64,
    /// Answers to requests that have this in their records are kept back.
    unanswered: Mutex<Option<&'static str>>,
    hold: Mutex<Hold>,
    /// What was held is not any more.
    hold_changed: Condvar,
    ended: AtomicBool,
}

/// What becomes of requests to Produce on their way to the broker.
#[derive(Debug, Default)]
struct Hold {
    /// So many come, and the last of them is held; 0: none is.
    until_held: u32,
    is_holding: bool,
}

/// A Produce on its way.
#[derive(Debug)]
struct Asked {
    version: i16,
    correlation: [u8; 4],
    /// Its connection brings nothing more once its answer is due.
    is_unanswered: bool,
}

impl Relay {
    /// Listens on a port of its own, and loses nothing until it is told to.
    #[must_use]
    pub fn listen() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let (tell, answers) = channel();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.ended.load(Ordering::SeqCst) {
                    return;
                }
                let (state, tell) = (Arc::clone(&shared), tell.clone());
                thread::spawn(move || serve(client, state, &tell));
            }
        });
        Self {
            port,
            state,
            answers,
        }
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

    /// From now on one in so many answers to Produce is lost; 0: none.
    pub fn lose_one_in(&self, every: u64) {
        self.state.lost_every.store(every, Ordering::SeqCst);
    }

    /// Answers that were lost so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.state.lost.load(Ordering::SeqCst)
    }

    /// The answers to Produce since this was asked last, in the order in which they came.
    #[must_use]
    pub fn answers(&self) -> Vec<Acknowledgement> {
        self.answers.try_iter().collect()
    }

    /// From now on no answer comes to a Produce that has `text` in its records, nor anything behind
    /// that answer on its connection, which stays open.
    pub fn leave_unanswered(&self, text: Option<&'static str>) {
        *lock(&self.state.unanswered) = text;
    }

    /// Holds the second request to Produce from now on, until it has let it go.
    pub fn hold_second(&self) {
        self.state.hold().until_held = 2;
    }

    /// Waits until one is held; whether it is. It may be that none comes.
    #[must_use]
    pub fn is_holding(&self, mut none_comes: impl FnMut() -> bool) -> bool {
        let is_holding = || self.state.hold().is_holding;
        eventually("a request is held", || is_holding() || none_comes());
        is_holding()
    }

    /// Lets go what is held, and holds nothing more.
    pub fn let_go(&self) {
        *self.state.hold() = Hold::default();
        self.state.hold_changed.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        self.let_go();
        // It is accepting: one more connection has it look.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

impl State {
    /// Whether the answer that has come is to be lost.
    fn is_due(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        let is_next = (self.to_lose)
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
            .is_ok();
        let every = self.lost_every.load(Ordering::SeqCst);
        let is_turn = every > 0 && self.answers.fetch_add(1, Ordering::SeqCst) % every == every - 1;
        is_next || is_turn
    }

    fn hold(&self) -> MutexGuard<'_, Hold> {
        lock(&self.hold)
    }

    /// Whether no answer to this request is to come through.
    fn is_unanswered(&self, frame: &[u8]) -> bool {
        lock(&self.unanswered).is_some_and(|text| {
            let mut places = frame.windows(text.len());
            places.any(|place| place == text.as_bytes())
        })
    }

    /// Waits with the request that is to be held.
    fn wait_while_held(&self) {
        let mut hold = self.hold();
        let is_turn = hold.until_held == 1;
        hold.until_held = hold.until_held.saturating_sub(1);
        if !is_turn {
            return;
        }
        hold.is_holding = true;
        let let_go = self.hold_changed.wait_while(hold, |hold| hold.is_holding);
        drop(let_go.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Nobody panics while holding one of these, and whoever drops must get through.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(client: TcpStream, state: Arc<State>, tell: &Sender<Acknowledgement>) {
    let port = state.broker_port.load(Ordering::SeqCst);
    // A broker that is down is a connection that ends at once.
    let Ok(broker) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
        return;
    };
    let (send, produces) = channel();
    let (from, to) = (clone(&client), clone(&broker));
    let holding = Arc::clone(&state);
    thread::spawn(move || {
        // Whichever side ends first, the other sees it.
        drop(requests(&from, &to, &send, &holding));
        drop(to.shutdown(Shutdown::Both));
    });
    drop(answers(&broker, &client, &produces, &state, tell));
    drop(broker.shutdown(Shutdown::Both));
    drop(client.shutdown(Shutdown::Both));
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("descriptors are left")
}

/// Tells of each Produce before the broker sees it.
fn requests(
    mut from: &TcpStream,
    mut to: &TcpStream,
    send: &Sender<Asked>,
    state: &State,
) -> io::Result<()> {
    loop {
        let frame = frame(&mut from)?;
        // Length, API key, version, correlation id. A bare message of SASL/PLAIN is none of these: it
        // begins with one zero, and a user.
        if frame.len() >= 12 && frame[4..6] == PRODUCE {
            state.wait_while_held();
            let asked = Asked {
                version: i16::from_be_bytes([frame[6], frame[7]]),
                correlation: frame[8..12].try_into().expect("four bytes"),
                is_unanswered: state.is_unanswered(&frame),
            };
            // Nobody to tell is nobody to lose it for: the other side has ended.
            send.send(asked).unwrap_or_default();
        }
        to.write_all(&frame)?;
    }
}

fn answers(
    mut from: &TcpStream,
    mut to: &TcpStream,
    produces: &Receiver<Asked>,
    state: &State,
    tell: &Sender<Acknowledgement>,
) -> io::Result<()> {
    // With acks=0 there is no answer, so what was asked is found by its correlation id.
    let mut waiting: Vec<Asked> = Vec::new();
    let mut is_silent = false;
    loop {
        let frame = frame(&mut from)?;
        waiting.extend(produces.try_iter());
        let is_its = |asked: &Asked| frame.get(4..8) == Some(&asked.correlation[..]);
        if let Some(place) = waiting.iter().position(is_its) {
            let asked = waiting.remove(place);
            is_silent |= asked.is_unanswered;
            let is_cut = !is_silent && state.is_due();
            let is_lost = is_silent || is_cut;
            // A relay that is going does not listen.
            tell.send(acknowledgement(&frame, asked.version, is_lost))
                .unwrap_or_default();
            if is_lost {
                state.lost.fetch_add(1, Ordering::SeqCst);
            }
            if is_cut {
                return Ok(());
            }
        }
        if !is_silent {
            to.write_all(&frame)?;
        }
    }
}

fn acknowledgement(frame: &[u8], version: i16, is_lost: bool) -> Acknowledgement {
    let mut bytes = Bytes::copy_from_slice(&frame[4..]);
    let header = ProduceResponse::header_version(version);
    ResponseHeader::decode(&mut bytes, header).expect("the header is valid");
    let answer = ProduceResponse::decode(&mut bytes, version).expect("the answer is valid");
    let part = &answer.responses[0].partition_responses[0];
    Acknowledgement {
        is_lost,
        error_code: part.error_code,
        base_offset: part.base_offset,
    }
}

/// A whole frame with its length. What answers a bare message of SASL is empty.
fn frame(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let bytes = usize::try_from(u32::from_be_bytes(length)).expect("64 bits");
    assert!(bytes <= FRAME_BYTES_MAX, "{bytes} bytes");
    let mut frame = vec![0; 4 + bytes];
    frame[..4].copy_from_slice(&length);
    from.read_exact(&mut frame[4..])?;
    Ok(frame)
}
