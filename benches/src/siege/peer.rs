//! Peers that take of a broker what they can get.

use super::wire::{TIMEOUT, Wire, connect, hello, open};
use crate::client::TlsConfig;
use crate::client::request::{self, FetchBounds};
use crate::load::{Batches, Contents, Recipe, Sizes};
use crate::problem::Problem;
use felix_core::batch::Codec;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The names of all peers, in the order they are run. Others rely on them.
pub const PEERS: [&str; 9] = [
    "huge_batches",
    "packed_batches",
    "many_partitions",
    "many_appends",
    "drips",
    "connects",
    "garbage",
    "never_reads",
    "handshakes",
];

/// A batch just below the bound of a request.
const HUGE_RECORDS: usize = 7;
/// Of a batch that is 16 MiB when it is unpacked, the bound, or nearly.
const PACKED_RECORDS: usize = 15;
const RECORD_BYTES: usize = 1 << 20;
/// Sent in one call: a kernel that does not preempt itself lets nobody else have the processor meanwhile.
const PIECE_BYTES: usize = 64 << 10;

const DRIPPING: usize = 500;
const DRIP_PAUSE: Duration = Duration::from_millis(1);
/// Connections that get a byte before each pause.
const DRIPS: usize = 20;

const NEVER_READING: usize = 64;

/// Where a peer does what it does.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) address: SocketAddr,
    /// A topic of one partition, for large batches.
    pub(super) large: String,
    /// A topic of many.
    pub(super) many: String,
    /// How many.
    pub(super) partitions: usize,
    /// The processor it does it on.
    pub(super) cpu: usize,
    /// What those that send requests do it by, where the listener has TLS.
    pub(super) tls: Option<TlsConfig>,
}

/// What a peer does, over and over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    /// Produces batches as large as a request may be.
    HugeBatches,
    /// Produces small batches that are as large as they may be when they are unpacked.
    PackedBatches,
    /// Asks for records of all partitions.
    ManyPartitions,
    /// Produces to all partitions in one request.
    ManyAppends,
    /// Sends requests a byte at a time, on many connections.
    Drips,
    /// Connects, and closes.
    Connects,
    /// Sends what is no request.
    Garbage,
    /// Asks for records on many connections, and reads none.
    NeverReads,
    /// Begins handshakes of TLS, and closes where the broker has done its part.
    Handshakes,
}

impl Peer {
    const ALL: [Self; 9] = [
        Self::HugeBatches,
        Self::PackedBatches,
        Self::ManyPartitions,
        Self::ManyAppends,
        Self::Drips,
        Self::Connects,
        Self::Garbage,
        Self::NeverReads,
        Self::Handshakes,
    ];

    /// Those of these names; all, for none. There are handshakes with TLS only.
    pub(super) fn named(names: &[String], has_tls: bool) -> Vec<Self> {
        let is_wanted = |peer: &Self| {
            let is_named = names.is_empty() || names.iter().any(|name| name == peer.name());
            is_named && (has_tls || *peer != Self::Handshakes)
        };
        Self::ALL.into_iter().filter(is_wanted).collect()
    }

    /// As the report calls it.
    pub(super) fn name(self) -> &'static str {
        let mut all = Self::ALL.into_iter().zip(PEERS);
        let (_, name) = all.find(|(peer, _)| *peer == self).expect("each has one");
        name
    }

    /// Does it until the end.
    ///
    /// # Errors
    /// It cannot do it at all: the turn shows nothing.
    pub(super) fn press(self, place: &Place, end: &AtomicBool) -> Result<(), Problem> {
        let told = |error: io::Error| Problem::new(format!("{}: {error}", self.name()));
        match self {
            Self::HugeBatches => {
                let batch = batch(HUGE_RECORDS, Contents::Random, Codec::None)?;
                ask_again_and_again(place, &produce(place, &batch), end).map_err(told)
            }
            Self::PackedBatches => {
                let batch = batch(PACKED_RECORDS, Contents::Zeros, Codec::Gzip)?;
                ask_again_and_again(place, &produce(place, &batch), end).map_err(told)
            }
            Self::ManyPartitions => {
                ask_again_and_again(place, &fetch_all(place), end).map_err(told)
            }
            Self::ManyAppends => {
                let batch = batch(1, Contents::Random, Codec::None)?;
                let small = &batch[..];
                let mut frame = Vec::new();
                let partitions = 0..number(place.partitions);
                request::produce_to_all(&mut frame, 0, 1, &place.many, partitions, small);
                ask_again_and_again(place, &frame, end).map_err(told)
            }
            Self::Drips => drip(place, end).map_err(told),
            Self::Connects => connect_again_and_again(place, &[], end).map_err(told),
            Self::Garbage => {
                // TLS's first bytes, which are a length of 370 MB to whoever expects none.
                let garbage = [&[0x16, 0x03, 0x01, 0x02, 0x00], &[0xa5; 4096][..]].concat();
                connect_again_and_again(place, &garbage, end).map_err(told)
            }
            Self::NeverReads => never_read(place, end),
            Self::Handshakes => {
                let Some(tls) = &place.tls else {
                    return Err(Problem::new("there are no handshakes without TLS"));
                };
                let hello = hello(tls, place).map_err(told)?;
                connect_again_and_again(place, &hello, end).map_err(told)
            }
        }
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).expect("there are fewer")
}

fn batch(records: usize, contents: Contents, codec: Codec) -> Result<Vec<u8>, Problem> {
    let bytes = match (contents, records) {
        (Contents::Random, 1) => 64,
        _ => RECORD_BYTES,
    };
    let recipe = Recipe {
        records,
        sizes: Sizes::Between(bytes, bytes),
        contents,
        codec,
        ..Recipe::default()
    };
    let mut random = fastrand::Rng::with_seed(1);
    let mut batches = Batches::make(&recipe, &[0], 1, &mut random)?;
    Ok(batches.take().bytes().to_vec())
}

fn produce(place: &Place, batch: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    request::produce(&mut frame, 0, 1, 0, &place.large, 0, batch);
    frame
}

fn fetch_all(place: &Place) -> Vec<u8> {
    let bounds = FetchBounds {
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: 50 << 20,
        partition_max_bytes: 1 << 20,
    };
    let mut frame = Vec::new();
    let partitions = (0..number(place.partitions)).map(|partition| (partition, 0));
    request::fetch(&mut frame, 0, &bounds, &place.many, partitions);
    frame
}

/// Sends the request whenever the one before was answered.
fn ask_again_and_again(place: &Place, frame: &[u8], end: &AtomicBool) -> io::Result<()> {
    let mut stream = open(place)?;
    let mut answers: u64 = 0;
    let mut dropped = vec![0; 1 << 20];
    while !end.load(Ordering::Relaxed) {
        let mut length = [0; 4];
        if !write(&mut *stream, frame, end)? || !read(&mut *stream, &mut length, end)? {
            break;
        }
        let mut left = usize::try_from(u32::from_be_bytes(length)).expect("64 bits");
        while left > 0 {
            let part = left.min(dropped.len());
            if !read(&mut *stream, &mut dropped[..part], end)? {
                return Ok(());
            }
            left -= part;
        }
        answers += 1;
    }
    if answers == 0 {
        return Err(io::Error::other("not one request was answered"));
    }
    Ok(())
}

/// Whether there was the time.
fn write(stream: &mut dyn Wire, mut bytes: &[u8], end: &AtomicBool) -> io::Result<bool> {
    while !bytes.is_empty() {
        // The client may have its processor after each piece only.
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        match stream.write(piece) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if is_early(&error) && !end.load(Ordering::Relaxed) => {}
            Err(error) if is_early(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Whether there was the time.
fn read(stream: &mut dyn Wire, mut bytes: &mut [u8], end: &AtomicBool) -> io::Result<bool> {
    while !bytes.is_empty() {
        match stream.read(bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) if is_early(&error) && !end.load(Ordering::Relaxed) => {}
            Err(error) if is_early(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn is_early(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn drip(place: &Place, end: &AtomicBool) -> io::Result<()> {
    let frame = match &place.tls {
        Some(tls) => hello(tls, place)?,
        None => fetch_all(place),
    };
    let mut streams = Vec::new();
    for _ in 0..DRIPPING {
        streams.push(connect(place)?);
    }
    for byte in frame.iter().cycle() {
        for few in streams.chunks_mut(DRIPS) {
            for stream in few {
                // The broker ends one that takes too long, or says nothing of use.
                if stream.write_all(&[*byte]).is_err() {
                    *stream = connect(place)?;
                }
            }
            thread::sleep(DRIP_PAUSE);
            if end.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Sends `bytes` on a new connection, again and again. Each is reset, or there were no ports left
/// soon.
fn connect_again_and_again(place: &Place, bytes: &[u8], end: &AtomicBool) -> io::Result<()> {
    while !end.load(Ordering::Relaxed) {
        let mut stream = connect(place)?;
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        if !bytes.is_empty() {
            // The broker may close at any of them.
            drop(stream.write_all(bytes));
            drop(stream.read(&mut [0; 16]));
        }
    }
    Ok(())
}

fn never_read(place: &Place, end: &AtomicBool) -> Result<(), Problem> {
    let told = |error: io::Error| Problem::new(format!("never_reads: {error}"));
    let batch = batch(HUGE_RECORDS, Contents::Random, Codec::None)?;
    let mut writer = open(place).map_err(told)?;
    let mut answer = [0; 64];
    write(&mut *writer, &produce(place, &batch), end).map_err(told)?;
    // Whatever it says, the topic has a batch now, or had.
    drop(writer.read(&mut answer));
    let bounds = FetchBounds {
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: 50 << 20,
        partition_max_bytes: 50 << 20,
    };
    let mut frame = Vec::new();
    for _ in 0..8 {
        request::fetch(&mut frame, 0, &bounds, &place.large, [(0, 0)].into_iter());
    }
    while !end.load(Ordering::Relaxed) {
        let mut streams = Vec::new();
        for _ in 0..NEVER_READING {
            let mut stream = open(place).map_err(told)?;
            stream.write_all(&frame).map_err(told)?;
            streams.push(stream);
        }
        thread::sleep(TIMEOUT);
    }
    Ok(())
}
