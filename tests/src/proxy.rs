//! A proxy that loses acknowledgements: what a network does to producers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Produce's number on the wire.
const PRODUCE: i16 = 0;

/// Larger than any frame of a test.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// Passes connections on to a broker, and cuts one each time in place of passing on an answer to a
/// Produce request that is due to be lost: the broker has done what was asked, and its client does
/// not hear of it. Ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    /// The broker's port; set once it is known.
    broker: AtomicU64,
    /// One in so many answers is lost; 0: none is.
    lost_every: AtomicU64,
    answers: AtomicU64,
    lost: AtomicU64,
    ended: AtomicBool,
}

impl Proxy {
    /// Listens on a port of this machine, and loses nothing until it is told to.
    #[must_use]
    pub fn listen() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        let state = Arc::new(State {
            broker: AtomicU64::new(0),
            lost_every: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.ended.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(client) = client {
                    accepting.pass(client);
                }
            }
        });
        Self { port, state }
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Passes connections on to this port of this machine from now on.
    pub fn lead_to(&self, broker: u16) {
        self.state.broker.store(broker.into(), Ordering::SeqCst);
    }

    /// From now on one in so many acknowledgements is lost; 0: none.
    pub fn lose_one_in(&self, every: u64) {
        self.state.lost_every.store(every, Ordering::SeqCst);
    }

    /// Acknowledgements that were lost so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.state.lost.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        // It is accepting: one more connection has it look.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl State {
    /// Passes both directions of a connection on, until either side ends it.
    fn pass(self: &Arc<Self>, client: TcpStream) {
        let broker = u16::try_from(self.broker.load(Ordering::SeqCst)).expect("a port was stored");
        // A broker that is down is a connection that ends at once.
        let Ok(broker) = TcpStream::connect(("127.0.0.1", broker)) else {
            return;
        };
        let pair = || Ok::<_, io::Error>((client.try_clone()?, broker.try_clone()?));
        let (Ok(there), Ok(back)) = (pair(), pair()) else {
            return;
        };
        let (tell, asked) = channel();
        let state = Arc::clone(self);
        thread::spawn(move || {
            drop(pass_requests(&there.0, &there.1, &tell));
            end(&there);
        });
        thread::spawn(move || {
            drop(state.pass_answers(&back.1, &back.0, &asked));
            end(&back);
        });
    }

    fn pass_answers(
        &self,
        from: &TcpStream,
        to: &TcpStream,
        asked: &Receiver<i16>,
    ) -> io::Result<()> {
        loop {
            let frame = read_frame(from)?;
            // Answers come in the order of the requests, each of which was told of before it was sent.
            let api = asked.recv().map_err(io::Error::other)?;
            if api == PRODUCE && self.is_due() {
                self.lost.fetch_add(1, Ordering::SeqCst);
                return Ok(());
            }
            write_frame(to, &frame)?;
        }
    }

    /// Whether the acknowledgement that has come is to be lost.
    fn is_due(&self) -> bool {
        let every = self.lost_every.load(Ordering::SeqCst);
        every > 0 && self.answers.fetch_add(1, Ordering::SeqCst) % every == every - 1
    }
}

fn end((client, broker): &(TcpStream, TcpStream)) {
    for side in [client, broker] {
        // The other direction may have ended it before.
        drop(side.shutdown(Shutdown::Both));
    }
}

fn pass_requests(from: &TcpStream, to: &TcpStream, tell: &Sender<i16>) -> io::Result<()> {
    loop {
        let frame = read_frame(from)?;
        let Some(api) = frame.first_chunk().map(|key| i16::from_be_bytes(*key)) else {
            return Ok(());
        };
        tell.send(api).map_err(io::Error::other)?;
        write_frame(to, &frame)?;
    }
}

fn read_frame(mut from: &TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).expect("64 bits");
    assert!(length <= FRAME_BYTES_MAX, "a frame of {length} bytes");
    let mut frame = vec![0; length];
    from.read_exact(&mut frame)?;
    Ok(frame)
}

fn write_frame(mut to: &TcpStream, frame: &[u8]) -> io::Result<()> {
    let length = u32::try_from(frame.len()).expect("it was read as 32 bits");
    to.write_all(&[&length.to_be_bytes(), frame].concat())
}
