//! TLS: what a handshake costs the core, and the threads beside it; and what the core pays for
//! bytes. The client's share is left out. Certificates are ECDSA P-256, as the broker makes them; a
//! signature with RSA takes the threads about half a millisecond more.
//!
//! `on_core` is what counts against the 250 us that no task may take: setting up, moving bytes and
//! giving the steps away. `beside` is what the heavy threads do for one handshake.

use bytes::BytesMut;
use criterion::{BenchmarkId, Criterion, Throughput};
use felix_core::blocking::{Job, JobDone};
use felix_core::{Blocking, ByteStream, Clock, Monotonic, Timestamp};
use felix_net::tls::{TlsAcceptor, TlsConfig, TlsPem, TlsPolicy, TlsStream, TlsVersion};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::{self, IoSlice, Read, Write};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

const BYTES: usize = 64 << 10;

pub(super) fn measure(criterion: &mut Criterion) {
    let place = Place::new();
    let mut group = criterion.benchmark_group("tls");
    for (name, version) in [
        ("v12", &rustls::version::TLS12),
        ("v13", &rustls::version::TLS13),
    ] {
        for (share, beside) in [("on_core", false), ("beside", true)] {
            let id = BenchmarkId::new(format!("handshake_{share}"), name);
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|rounds| {
                    let mut sum = Duration::ZERO;
                    for _ in 0..rounds {
                        let (_, _, costs) = place.shake_hands(version);
                        sum += if beside { costs.beside } else { costs.on_core };
                    }
                    sum
                });
            });
        }
    }
    group.throughput(Throughput::Bytes(
        u64::try_from(BYTES).expect("it is small"),
    ));
    let (mut stream, mut client, _) = place.shake_hands(&rustls::version::TLS13);
    group.bench_function("send_64k", |bencher| {
        bencher.iter_custom(|rounds| (0..rounds).map(|_| send(&mut stream, &mut client)).sum());
    });
    group.bench_function("recv_64k", |bencher| {
        bencher.iter_custom(|rounds| (0..rounds).map(|_| recv(&mut stream, &mut client)).sum());
    });
}

fn send(stream: &mut TlsStream<End>, client: &mut Client) -> Duration {
    let bytes = vec![7; BYTES];
    let mut cx = Context::from_waker(Waker::noop());
    let mut sent = 0;
    let begun = Instant::now();
    while sent < BYTES {
        // Pending: its turn is over, and the next call begins another.
        if let Poll::Ready(count) = stream.poll_send(&mut cx, &[IoSlice::new(&bytes[sent..])]) {
            sent += count.expect("the connection holds");
        }
    }
    let took = begun.elapsed();
    assert_eq!(client.turn(), BYTES);
    took
}

fn recv(stream: &mut TlsStream<End>, client: &mut Client) -> Duration {
    let mut bytes = &vec![7; BYTES][..];
    while !bytes.is_empty() {
        let count = client.connection.writer().write(bytes);
        bytes = &bytes[count.expect("it takes some")..];
        client.turn();
    }
    let mut cx = Context::from_waker(Waker::noop());
    let mut got = BytesMut::with_capacity(BYTES);
    let begun = Instant::now();
    while got.len() < BYTES {
        let room = BYTES - got.len();
        if let Poll::Ready(count) = stream.poll_recv(&mut cx, &mut got, room) {
            assert!(count.expect("the connection holds") > 0);
        }
    }
    begun.elapsed()
}

/// What one handshake took.
struct Costs {
    on_core: Duration,
    beside: Duration,
}

/// The server, and what a client needs to trust it.
struct Place {
    acceptor: TlsAcceptor,
    beside: Rc<Cell<Duration>>,
    roots: RootCertStore,
}

impl Place {
    fn new() -> Self {
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
        let own = own.expect("a certificate can be made");
        let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
        let pem = TlsPem {
            certificate: certificate.as_bytes(),
            key: key.as_bytes(),
            client_ca: None,
        };
        let policy = TlsPolicy::new(TlsVersion::V12, &[]).expect("all suites go");
        let config = TlsConfig::new(pem, &policy).expect("certificate and key fit");
        let beside: Rc<Cell<Duration>> = Rc::default();
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from(own.cert.der().to_vec());
        roots.add(root).expect("it is a certificate");
        let blocking = Rc::new(Timed(Rc::clone(&beside)));
        Self {
            acceptor: TlsAcceptor::new(config, blocking, Rc::new(Still)),
            beside,
            roots,
        }
    }

    /// A full handshake.
    fn shake_hands(
        &self,
        version: &'static SupportedProtocolVersion,
    ) -> (TlsStream<End>, Client, Costs) {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .expect("the provider has it")
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        let name = "localhost".try_into().expect("it is a name");
        let wire: Rc<RefCell<Wire>> = Rc::default();
        let mut client = Client {
            connection: ClientConnection::new(Arc::new(config), name).expect("it can begin"),
            wire: Rc::clone(&wire),
        };
        self.beside.set(Duration::ZERO);
        let mut polled = Duration::ZERO;
        let mut cx = Context::from_waker(Waker::noop());
        let mut accepting = pin!(self.acceptor.accept(End(wire)));
        let accepted = loop {
            client.turn();
            let begun = Instant::now();
            let accepted = accepting.as_mut().poll(&mut cx);
            polled += begun.elapsed();
            if let Poll::Ready(accepted) = accepted {
                break accepted;
            }
        };
        let accepted = accepted.expect("client and server go together");
        client.turn();
        let beside = self.beside.get();
        let on_core = polled - beside;
        (accepted.stream, client, Costs { on_core, beside })
    }
}

/// Does jobs at once and adds up what they take.
struct Timed(Rc<Cell<Duration>>);

impl Blocking for Timed {
    fn run(&self, job: Job) -> JobDone {
        let sum = Rc::clone(&self.0);
        Box::pin(async move {
            let begun = Instant::now();
            job();
            sum.set(sum.get() + begun.elapsed());
        })
    }
}

struct Still;

impl Clock for Still {
    fn wall(&self) -> Timestamp {
        Timestamp(0)
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic::default()
    }
}

struct Client {
    connection: ClientConnection,
    wire: Rc<RefCell<Wire>>,
}

impl Client {
    /// Takes what has come and says what it has to; how many plain bytes came.
    fn turn(&mut self) -> usize {
        let mut wire = self.wire.borrow_mut();
        let came = std::mem::take(&mut wire.to_client);
        let mut rest = &came[..];
        let mut plain = 0;
        let mut buffer = [0; 16 << 10];
        while !rest.is_empty() {
            self.connection.read_tls(&mut rest).expect("there is room");
            self.connection.process_new_packets().expect("it holds");
            while let Ok(count @ 1..) = self.connection.reader().read(&mut buffer) {
                plain += count;
            }
        }
        while self.connection.wants_write() {
            let said = &mut wire.to_server;
            self.connection.write_tls(said).expect("a vector takes it");
        }
        plain
    }
}

#[derive(Debug, Default)]
struct Wire {
    to_server: Vec<u8>,
    to_client: Vec<u8>,
}

/// The server's end: a copy each way, as a socket would make.
#[derive(Debug)]
struct End(Rc<RefCell<Wire>>);

impl ByteStream for End {
    fn poll_recv(
        &mut self,
        _: &mut Context<'_>,
        into: &mut BytesMut,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        let said = &mut self.0.borrow_mut().to_server;
        if said.is_empty() {
            return Poll::Pending;
        }
        let count = said.len().min(bytes_max);
        into.extend_from_slice(&said[..count]);
        said.drain(..count);
        Poll::Ready(Ok(count))
    }

    fn poll_send(
        &mut self,
        _: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let heard = &mut self.0.borrow_mut().to_client;
        let before = heard.len();
        for piece in pieces {
            heard.extend_from_slice(piece);
        }
        Poll::Ready(Ok(heard.len() - before))
    }

    fn close_write(&mut self) {}
}
