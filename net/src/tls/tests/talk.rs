//! A client of rustls at the other end of the pipe, and certificates for both.

use super::super::{
    Accepted, TlsAcceptor, TlsConfig, TlsError, TlsPem, TlsPolicy, TlsStream, TlsVersion,
};
use super::pipe::{ServerEnd, State};
use bytes::BytesMut;
use felix_core::blocking::{Here, Job, JobDone};
use felix_core::{Blocking, ByteStream, Clock, Monotonic, Timestamp};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{
    ClientConfig, ClientConnection, Error, ProtocolVersion, RootCertStore, SupportedProtocolVersion,
};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::{Read, Write};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// More polls than any conversation here needs.
const POLLS_MAX: usize = 2_000_000;

/// A certificate and its key, as PEM.
pub(super) struct Own {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// A self-signed one for `localhost`.
pub(super) fn own() -> Own {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    Own {
        certificate: made.cert.pem(),
        key: made.signing_key.serialize_pem(),
    }
}

/// One that signs the certificates of clients.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) certificate: String,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    /// A certificate with these names: URIs have a colon.
    pub(super) fn issue(&self, names: &[&str]) -> Own {
        let (uris, others): (Vec<&str>, Vec<&str>) =
            names.iter().copied().partition(|name| name.contains(':'));
        let others: Vec<String> = others.into_iter().map(str::to_owned).collect();
        let mut params = CertificateParams::new(others).unwrap();
        for uri in uris {
            let uri = SanType::URI(uri.try_into().unwrap());
            params.subject_alt_names.push(uri);
        }
        let key = KeyPair::generate().unwrap();
        Own {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

pub(super) fn config(own: &Own, clients: Option<&Authority>, policy: &TlsPolicy) -> TlsConfig {
    let pem = TlsPem {
        certificate: own.certificate.as_bytes(),
        key: own.key.as_bytes(),
        client_ca: clients.map(|authority| authority.certificate.as_bytes()),
    };
    TlsConfig::new(pem, policy).unwrap()
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

/// An acceptor that allows everything, and its certificate.
pub(super) fn acceptor() -> (TlsAcceptor, Own) {
    let own = own();
    let policy = TlsPolicy::new(TlsVersion::V12, &[]).unwrap();
    (acceptor_with(config(&own, None, &policy)), own)
}

pub(super) fn acceptor_with(config: TlsConfig) -> TlsAcceptor {
    TlsAcceptor::new(config, Rc::new(Here), Rc::new(Still))
}

struct Counting(Rc<Cell<usize>>);

impl Blocking for Counting {
    fn run(&self, job: Job) -> JobDone {
        self.0.set(self.0.get() + 1);
        Here.run(job)
    }
}

/// One that counts the steps it has done beside the core.
pub(super) fn acceptor_counting(config: TlsConfig) -> (TlsAcceptor, Rc<Cell<usize>>) {
    let steps: Rc<Cell<usize>> = Rc::default();
    let blocking = Rc::new(Counting(Rc::clone(&steps)));
    (TlsAcceptor::new(config, blocking, Rc::new(Still)), steps)
}

/// How a client connects. Clones share its sessions.
#[derive(Clone)]
pub(super) struct Client {
    versions: Vec<&'static SupportedProtocolVersion>,
    suite: Option<String>,
    roots: RootCertStore,
    shown: Option<(String, String)>,
    made: Rc<RefCell<Option<Arc<ClientConfig>>>>,
}

impl Client {
    pub(super) fn trusting(own: &Own) -> Self {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes());
        roots.add(certificate.unwrap()).unwrap();
        Self {
            versions: rustls::ALL_VERSIONS.to_vec(),
            suite: None,
            roots,
            shown: None,
            made: Rc::default(),
        }
    }

    pub(super) fn speaking(mut self, version: &'static SupportedProtocolVersion) -> Self {
        self.versions = vec![version];
        self
    }

    pub(super) fn with_suite(mut self, suite: &str) -> Self {
        let v13 = suite.starts_with("TLS13");
        self.suite = Some(suite.to_owned());
        self.speaking(if v13 {
            &rustls::version::TLS13
        } else {
            &rustls::version::TLS12
        })
    }

    pub(super) fn showing(mut self, own: &Own) -> Self {
        self.shown = Some((own.certificate.clone(), own.key.clone()));
        self
    }

    fn config(&self) -> Arc<ClientConfig> {
        let mut made = self.made.borrow_mut();
        Arc::clone(made.get_or_insert_with(|| {
            let mut provider = ring::default_provider();
            if let Some(suite) = &self.suite {
                let suites = &mut provider.cipher_suites;
                suites.retain(|known| format!("{:?}", known.suite()) == *suite);
            }
            let builder = ClientConfig::builder_with_provider(Arc::new(provider))
                .with_protocol_versions(&self.versions)
                .unwrap()
                .with_root_certificates(self.roots.clone());
            Arc::new(match &self.shown {
                None => builder.with_no_client_auth(),
                Some((certificate, key)) => {
                    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes());
                    let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
                    let chain = vec![certificate.unwrap()];
                    builder.with_client_auth_cert(chain, key.unwrap()).unwrap()
                }
            })
        }))
    }
}

/// Both ends of a connection.
pub(super) struct Talk {
    client: ClientConnection,
    wire: Rc<RefCell<State>>,
    heard: Vec<u8>,
    farewell: bool,
    failed: Option<Error>,
    /// The client says nothing by itself any more.
    mute: bool,
}

impl Talk {
    pub(super) fn new(client: Client) -> Self {
        let name = "localhost".try_into().unwrap();
        let state = State {
            window: usize::MAX,
            ..State::default()
        };
        Self {
            client: ClientConnection::new(client.config(), name).unwrap(),
            wire: Rc::new(RefCell::new(state)),
            heard: Vec::new(),
            farewell: false,
            failed: None,
            mute: false,
        }
    }

    pub(super) fn chop(&self, chops: &[usize]) {
        self.wire.borrow_mut().chops = chops.to_vec();
    }

    pub(super) fn window(&self, bytes: usize) {
        self.wire.borrow_mut().window = bytes;
    }

    /// Bytes as they are; the client itself stays silent.
    pub(super) fn inject(&mut self, bytes: &[u8]) {
        self.mute = true;
        self.wire.borrow_mut().to_server.extend(bytes);
    }

    pub(super) fn say(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let count = self.client.writer().write(bytes).unwrap();
            bytes = &bytes[count..];
            self.flush();
        }
    }

    /// Sends with other keys from now on, which takes a record.
    pub(super) fn change_keys(&mut self) {
        self.client.refresh_traffic_keys().unwrap();
        self.flush();
    }

    /// Says that it sends no more, and leaves the connection as it is.
    pub(super) fn farewell(&mut self) {
        self.client.send_close_notify();
        self.flush();
    }

    /// Ends without a farewell, after so many of the bytes under way.
    pub(super) fn cut(&mut self, kept: usize) {
        self.flush();
        self.mute = true;
        let mut wire = self.wire.borrow_mut();
        wire.to_server.truncate(kept);
        wire.client_ended = true;
    }

    /// Changes the last byte under way.
    pub(super) fn corrupt(&mut self) {
        self.flush();
        let mut wire = self.wire.borrow_mut();
        *wire.to_server.back_mut().unwrap() ^= 1;
    }

    /// Changes bytes under way.
    pub(super) fn tamper(&mut self, changes: &[(proptest::sample::Index, u8)]) {
        self.flush();
        let mut wire = self.wire.borrow_mut();
        for (at, change) in changes {
            let at = at.index(wire.to_server.len());
            wire.to_server[at] ^= change;
        }
    }

    pub(super) fn heard(&self) -> &[u8] {
        &self.heard
    }

    pub(super) fn heard_farewell(&self) -> bool {
        self.farewell
    }

    pub(super) fn failed(&self) -> Option<Error> {
        self.failed.clone()
    }

    pub(super) fn version(&self) -> Option<ProtocolVersion> {
        self.client.protocol_version()
    }

    pub(super) fn is_server_closed(&self) -> bool {
        self.wire.borrow().server_closed
    }

    pub(super) fn sent_by_server(&self) -> usize {
        self.wire.borrow().sent_by_server
    }

    pub(super) fn accept(
        &mut self,
        acceptor: &TlsAcceptor,
    ) -> Result<Accepted<ServerEnd>, TlsError> {
        let end = ServerEnd(Rc::clone(&self.wire));
        let accepted = self.drive(acceptor.accept(end));
        self.turn();
        accepted.map_err(|refused| refused.error)
    }

    /// Polls the server's `future` and lets the client have its turn in between.
    pub(super) fn drive<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..POLLS_MAX {
            self.turn();
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                self.turn();
                return output;
            }
        }
        panic!("nothing comes of it");
    }

    /// Has the server send what only receiving sends, until nothing is left.
    pub(super) fn settle(&mut self, stream: &mut TlsStream<ServerEnd>) {
        let mut cx = Context::from_waker(Waker::noop());
        let mut dropped = BytesMut::new();
        let mut quiet = 0;
        while quiet < 10 {
            let before = self.sent_by_server();
            drop(stream.poll_recv(&mut cx, &mut dropped, 100));
            self.turn();
            quiet = if self.sent_by_server() == before {
                quiet + 1
            } else {
                0
            };
        }
    }

    fn turn(&mut self) {
        let bytes: Vec<u8> = self.wire.borrow_mut().to_client.drain(..).collect();
        let mut rest = &bytes[..];
        while !rest.is_empty() && self.failed.is_none() && !self.farewell {
            self.client.read_tls(&mut rest).unwrap();
            match self.client.process_new_packets() {
                Ok(state) => self.farewell |= state.peer_has_closed(),
                Err(error) => self.failed = Some(error),
            }
            let mut buffer = [0; 1 << 14];
            while let Ok(count @ 1..) = self.client.reader().read(&mut buffer) {
                self.heard.extend_from_slice(&buffer[..count]);
            }
        }
        self.flush();
    }

    fn flush(&mut self) {
        if self.mute {
            return;
        }
        let mut wire = self.wire.borrow_mut();
        while self.client.wants_write() {
            let mut bytes = Vec::new();
            self.client.write_tls(&mut bytes).unwrap();
            wire.to_server.extend(bytes);
        }
    }
}
