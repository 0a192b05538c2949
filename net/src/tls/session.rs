//! The state of one TLS connection: bytes in, bytes out, nothing about sockets. It can cross
//! threads, so that its heavy steps are done beside the core.

use bytes::{Buf, BytesMut};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
    UnbufferedStatus, WriteTraffic,
};
use rustls::{Error, ServerConfig};
use std::fmt;
use std::io::IoSlice;
use std::sync::Arc;

/// Plain bytes of one record at most (RFC 8446, section 5.1).
pub(super) const RECORD_BYTES_MAX: usize = 16 << 10;

/// What a record has beside its plain bytes: a header of 5, and up to 256 of padding, tag and
/// nonce (RFC 8446, section 5.2; the 2048 of RFC 5246 are for compression, which nobody does).
pub(super) const RECORD_OVERHEAD_MAX: usize = 5 + 256;

/// What encrypting adds to one record: header, content type or nonce, tag.
const ENCRYPTED_OVERHEAD: usize = 64;

/// A record's header: type, version, length (RFC 8446, section 5.1).
pub(super) const HEADER_BYTES: usize = 5;

/// Records looked at in one go on the core. A peer may send them with a byte each, or with a change
/// of keys, which takes some microseconds.
pub(super) const RECORDS_MAX: usize = 32;

/// Ciphertext waiting to be sent that an idle connection's buffer keeps room for.
const KEPT_BYTES_MAX: usize = 4 << 10;

/// See the module.
pub(super) struct Session {
    connection: UnbufferedServerConnection,
    /// Received, and not decrypted yet.
    pub(super) incoming: BytesMut,
    /// Decrypted, and not asked for yet: at most what was received in one go.
    plain: BytesMut,
    /// To be sent.
    pub(super) outgoing: Outgoing,
    /// The peer has said that it sends no more.
    peer_closed: bool,
    /// What it broke by.
    broken: Option<Error>,
}

/// Where decrypted bytes go.
struct Sink<'a> {
    into: &'a mut BytesMut,
    room: usize,
}

/// What one step of the connection leads to.
enum Next {
    /// There may be more.
    Step,
    /// Nothing more without other bytes.
    Rest,
}

type Writing<'a> = &'a mut dyn FnMut(
    &mut WriteTraffic<'_, ServerConnectionData>,
    &mut Outgoing,
) -> Result<(), Error>;

impl Session {
    /// A connection that has not begun.
    pub(super) fn new(config: Arc<ServerConfig>) -> Result<Self, Error> {
        Ok(Self {
            connection: UnbufferedServerConnection::new(config)?,
            incoming: BytesMut::new(),
            plain: BytesMut::new(),
            outgoing: Outgoing::default(),
            peer_closed: false,
            broken: None,
        })
    }

    /// What rustls knows of it.
    pub(super) fn connection(&self) -> &UnbufferedServerConnection {
        &self.connection
    }

    /// Whether the peer has said that it sends no more.
    pub(super) fn is_peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// Whether a whole record waits to be looked at, after [`read`](Self::read) has looked at as many
    /// as it does in one go.
    pub(super) fn has_whole_record(&self) -> bool {
        record_end(&self.incoming, 0).is_some_and(|end| end <= self.incoming.len())
    }

    /// Takes the handshake as far as what was received allows.
    ///
    /// # Errors
    /// It fails. What the peer is told of it is in `outgoing`.
    pub(super) fn shake_hands(&mut self) -> Result<(), Error> {
        let mut nothing = BytesMut::new();
        self.drive(
            &mut Sink {
                into: &mut nothing,
                room: 0,
            },
            None,
        )
    }

    /// Decrypts into `into`, up to `bytes_max`; how much. 0: more has to be received, or the peer
    /// has closed.
    ///
    /// # Errors
    /// The peer broke the protocol. What it is told of it is in `outgoing`.
    pub(super) fn read(&mut self, into: &mut BytesMut, bytes_max: usize) -> Result<usize, Error> {
        let before = into.len();
        let held = self.plain.len().min(bytes_max);
        if held > 0 {
            into.extend_from_slice(&self.plain.split_to(held));
        }
        if self.plain.is_empty() {
            self.plain = BytesMut::new();
            let mut sink = Sink {
                room: bytes_max - held,
                into,
            };
            let is_owed = !self.incoming.is_empty() || self.broken.is_some();
            let driven = if sink.room > 0 && is_owed {
                self.drive_some(&mut sink, None)
            } else {
                Ok(())
            };
            // What came before a fault still counts; the fault is told with the next call.
            if into.len() == before {
                driven?;
            }
        }
        if self.incoming.is_empty() {
            // An idle connection holds no buffer.
            self.incoming = BytesMut::new();
        }
        Ok(into.len() - before)
    }

    /// Encrypts the first `bytes_max` bytes of `pieces`; how many there were. Small pieces share
    /// records.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn write(
        &mut self,
        pieces: &[IoSlice<'_>],
        bytes_max: usize,
    ) -> Result<usize, Error> {
        let records = bytes_max / RECORD_BYTES_MAX + 2;
        self.outgoing
            .make_room(bytes_max + records * ENCRYPTED_OVERHEAD);
        let mut left = bytes_max;
        let mut gathered = Vec::new();
        let mut pieces = pieces.iter().peekable();
        while let Some(piece) = pieces.next() {
            let (mut rest, _) = piece.split_at(piece.len().min(left));
            left -= rest.len();
            let is_last = left == 0 || pieces.peek().is_none();
            while !rest.is_empty() {
                let take = if gathered.is_empty() && (is_last || rest.len() >= RECORD_BYTES_MAX) {
                    // Straight from where it lies: whole records, or whatever is left of all.
                    let whole = rest.len() - rest.len() % RECORD_BYTES_MAX;
                    let take = if is_last { rest.len() } else { whole };
                    self.encrypt(&rest[..take])?;
                    take
                } else {
                    let take = rest.len().min(RECORD_BYTES_MAX - gathered.len());
                    gathered.extend_from_slice(&rest[..take]);
                    take
                };
                rest = &rest[take..];
                if gathered.len() == RECORD_BYTES_MAX {
                    self.encrypt(&gathered)?;
                    gathered.clear();
                }
            }
        }
        if !gathered.is_empty() {
            self.encrypt(&gathered)?;
        }
        Ok(bytes_max - left)
    }

    /// Tells the peer that we send no more.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        self.writing(&mut |traffic, outgoing| {
            outgoing.append(ENCRYPTED_OVERHEAD, |room| {
                fitting(traffic.queue_close_notify(room))
            })
        })
    }

    fn encrypt(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let records = bytes.len().div_ceil(RECORD_BYTES_MAX).max(1);
        let room = bytes.len() + records * ENCRYPTED_OVERHEAD;
        self.writing(&mut |traffic, outgoing| {
            outgoing.append(room, |room| fitting(traffic.encrypt(bytes, room)))
        })
    }

    fn writing(&mut self, writing: Writing<'_>) -> Result<(), Error> {
        let mut nothing = BytesMut::new();
        let mut written = false;
        let driven = self.drive_some(
            &mut Sink {
                into: &mut nothing,
                room: 0,
            },
            Some(&mut |traffic, outgoing| {
                written = true;
                writing(traffic, outgoing)
            }),
        );
        driven?;
        if written {
            Ok(())
        } else {
            // After both farewells nothing is written any more.
            Err(Error::General("the connection is closed".into()))
        }
    }

    /// [`drive`](Self::drive) over the first records alone, so that it takes its time only.
    fn drive_some(&mut self, sink: &mut Sink<'_>, write: Option<Writing<'_>>) -> Result<(), Error> {
        let rest = self.incoming.split_off(records_end(&self.incoming));
        let before = (self.incoming.len(), sink.room);
        let reading = write.is_none();
        self.drive(sink, write)?;
        let stuck = reading && before == (self.incoming.len(), sink.room) && self.plain.is_empty();
        if stuck && !rest.is_empty() {
            let error = Error::General("a message comes in too many records".into());
            self.broken = Some(error.clone());
            return Err(error);
        }
        self.incoming.unsplit(rest);
        Ok(())
    }

    /// Steps until nothing more can be done with the bytes that are here. To read it stops as soon
    /// as there is no room; to write it goes on until it may.
    fn drive(&mut self, sink: &mut Sink<'_>, mut write: Option<Writing<'_>>) -> Result<(), Error> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        loop {
            match self.step(sink, &mut write) {
                Ok(Next::Step) if write.is_none() && !self.plain.is_empty() => return Ok(()),
                Ok(Next::Step) => {}
                Ok(Next::Rest) => return Ok(()),
                Err(error) => {
                    self.last_words();
                    self.broken = Some(error.clone());
                    self.incoming = BytesMut::new();
                    return Err(error);
                }
            }
        }
    }

    fn step(
        &mut self,
        sink: &mut Sink<'_>,
        write: &mut Option<Writing<'_>>,
    ) -> Result<Next, Error> {
        let UnbufferedStatus { discard, state } =
            self.connection.process_tls_records(&mut self.incoming);
        let mut discard = discard;
        let stepped = match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                let mut read = Ok(Next::Step);
                while let Some(record) = traffic.next_record() {
                    match record {
                        Ok(record) => {
                            discard += record.discard;
                            let now = record.payload.len().min(sink.room);
                            let (now, later) = record.payload.split_at(now);
                            sink.into.extend_from_slice(now);
                            sink.room -= now.len();
                            self.plain.extend_from_slice(later);
                        }
                        Err(error) => {
                            read = Err(error);
                            break;
                        }
                    }
                }
                read
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                encode(&mut data, &mut self.outgoing).map(|()| Next::Step)
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                Ok(Next::Step)
            }
            Ok(ConnectionState::PeerClosed) => {
                self.peer_closed = true;
                Ok(Next::Step)
            }
            Ok(ConnectionState::WriteTraffic(mut traffic)) => match write {
                Some(write) => write(&mut traffic, &mut self.outgoing).map(|()| Next::Rest),
                None => Ok(Next::Rest),
            },
            Ok(ConnectionState::Closed | ConnectionState::BlockedHandshake) => Ok(Next::Rest),
            // No early data is offered, so none is taken.
            Ok(_) => Err(Error::HandshakeNotComplete),
            Err(error) => Err(error),
        };
        self.incoming.advance(discard);
        stepped
    }

    /// Gathers the alert that rustls has ready after a fault, if it has one. It must not be asked for
    /// anything else: it would look at the faulty bytes again, and panic over a second alert.
    fn last_words(&mut self) {
        while self.connection.wants_write() {
            let UnbufferedStatus { discard: _, state } =
                self.connection.process_tls_records(&mut []);
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    if encode(&mut data, &mut self.outgoing).is_err() {
                        return;
                    }
                }
                Ok(_) | Err(_) => return,
            }
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("incoming", &self.incoming.len())
            .field("plain", &self.plain.len())
            .field("outgoing", &self.outgoing.bytes().len())
            .field("peer_closed", &self.peer_closed)
            .finish_non_exhaustive()
    }
}

/// Where the record that begins at `start` ends, which may lie beyond what is there; `None`: not
/// even its header is there.
fn record_end(incoming: &[u8], start: usize) -> Option<usize> {
    let header = incoming.get(start..)?.first_chunk::<HEADER_BYTES>()?;
    let [_, _, _, high, low] = header;
    Some(start + HEADER_BYTES + usize::from(u16::from_be_bytes([*high, *low])))
}

/// Where the last of the first [`RECORDS_MAX`] records ends, or what is there of them.
fn records_end(incoming: &[u8]) -> usize {
    let mut end = 0;
    for _ in 0..RECORDS_MAX {
        match record_end(incoming, end) {
            Some(next) if next < incoming.len() => end = next,
            Some(_) | None => return incoming.len(),
        }
    }
    end
}

/// What rustls wrote into a buffer, or how large it has to be.
enum Wrote {
    Bytes(usize),
    Needs(usize),
}

fn fitting(wrote: Result<usize, EncryptError>) -> Result<Wrote, Error> {
    match wrote {
        Ok(bytes) => Ok(Wrote::Bytes(bytes)),
        Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
            Ok(Wrote::Needs(required_size))
        }
        Err(EncryptError::EncryptExhausted) => Err(Error::EncryptError),
    }
}

fn encode(
    data: &mut EncodeTlsData<'_, ServerConnectionData>,
    outgoing: &mut Outgoing,
) -> Result<(), Error> {
    outgoing.append(0, |room| match data.encode(room) {
        Ok(bytes) => Ok(Wrote::Bytes(bytes)),
        Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
            Ok(Wrote::Needs(required_size))
        }
        Err(EncodeError::AlreadyEncoded) => Ok(Wrote::Bytes(0)),
    })
}

/// Ciphertext on its way out: bytes from `start` to `end`; what lies behind is room that has been
/// zeroed before.
#[derive(Default)]
pub(super) struct Outgoing {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Outgoing {
    /// What is to be sent.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer
            .get(self.start..self.end)
            .expect("start and end lie in the buffer")
    }

    /// So many bytes have been sent.
    pub(super) fn sent(&mut self, count: usize) {
        self.start += count;
        assert!(self.start <= self.end, "no more is sent than there is");
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            if self.buffer.len() > KEPT_BYTES_MAX {
                self.buffer = Vec::new();
            }
        }
    }

    /// Makes room behind what is to be sent.
    fn make_room(&mut self, bytes: usize) {
        if self.end + bytes <= self.buffer.len() {
            return;
        }
        if self.end == 0 {
            // Zeroed by the allocator, which does it faster where it does it at all.
            self.buffer = vec![0; bytes];
        } else {
            self.buffer.resize(self.end + bytes, 0);
        }
    }

    /// Has `write` put something behind the rest, into `room` bytes or as many as it says it needs.
    fn append(
        &mut self,
        room: usize,
        mut write: impl FnMut(&mut [u8]) -> Result<Wrote, Error>,
    ) -> Result<(), Error> {
        let mut needs = room;
        loop {
            self.make_room(needs);
            let free = self.buffer.get_mut(self.end..).unwrap_or_default();
            match write(free)? {
                Wrote::Bytes(count) => {
                    self.end += count;
                    return Ok(());
                }
                Wrote::Needs(more) => {
                    assert!(more > needs, "what fits is written");
                    needs = more;
                }
            }
        }
    }
}
