//! TLS over a socket that does not wait.

use super::{Address, Identity, Problem, Trust};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

/// What all TLS connections of a run share. Files are read once, when it is made.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    config: Arc<ClientConfig>,
}

impl TlsConfig {
    /// Reads what is needed to check a broker, and to be checked.
    ///
    /// # Errors
    /// A file that cannot be read or holds something else.
    pub fn new(trust: &Trust, identity: Option<&Identity>) -> Result<Self, Problem> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Problem::new(format!("TLS cannot be set up: {error}")))?;
        let builder = match trust {
            Trust::System => builder.with_root_certificates(system_roots()?),
            Trust::File(path) => builder.with_root_certificates(file_roots(path)?),
            Trust::Anybody => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Believing { provider })),
        };
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = certificates(&identity.certificate)?;
                let key = PrivateKeyDer::from_pem_file(&identity.key)
                    .map_err(|error| unreadable("a private key", &identity.key, error))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| {
                    Problem::new(format!(
                        "the certificate in {} and the key in {} do not go together: {error}",
                        identity.certificate.display(),
                        identity.key.display()
                    ))
                })?
            }
        };
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// As rustls has it.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }
}

fn system_roots() -> Result<RootCertStore, Problem> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Stores of systems hold certificates that nobody can use; the others count.
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(roots);
    }
    let reason = found.errors.first().map(ToString::to_string);
    Err(Problem::new(format!(
        "this machine trusts no certificate authority ({}); install the package ca-certificates, \
         or name a file with the certificate of the broker's authority",
        reason.unwrap_or_else(|| "it has no store of certificates".to_owned())
    )))
}

fn file_roots(path: &Path) -> Result<RootCertStore, Problem> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| {
            Problem::new(format!(
                "{} holds a certificate that is none of an authority: {error}",
                path.display()
            ))
        })?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).and_then(|certificates| certificates.collect());
    match found {
        Ok(certificates) if certificates.is_empty() => Err(Problem::new(format!(
            "{} holds no certificate; it should have a part that begins with \
             -----BEGIN CERTIFICATE-----",
            path.display()
        ))),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(unreadable("certificates", path, error)),
    }
}

fn unreadable(what: &str, path: &Path, error: rustls::pki_types::pem::Error) -> Problem {
    let path = path.display();
    match error {
        rustls::pki_types::pem::Error::NoItemsFound => Problem::new(format!(
            "{path} does not hold {what}; it should be a PEM file"
        )),
        error => Problem::new(format!("{what} cannot be read from {path}: {error}")),
    }
}

/// What a fault of TLS means to who reads of it; `None` where TLS is not at fault.
pub(super) fn told(error: &io::Error, address: &Address) -> Option<String> {
    let cause = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match cause {
        rustls::Error::InvalidCertificate(fault) => format!(
            "{address} has a certificate that does not hold ({fault}); name the file of the \
             authority that signed it, and reach the broker by a name that is in it"
        ),
        // Since TLS 1.3 this may come some time after the handshake.
        rustls::Error::AlertReceived(alert) => format!(
            "{address} ended the TLS connection with the alert {alert:?}; it may want a client \
             certificate that it trusts"
        ),
        rustls::Error::InvalidMessage(_) => {
            format!("{address} does not speak TLS ({cause}); use its TLS port, or no TLS")
        }
        _ => format!("TLS with {address} failed: {cause}"),
    })
}

/// Believes whatever certificate comes, but has the broker prove that it is its own.
#[derive(Debug)]
struct Believing {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Believing {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// As much as one system call takes in. The library itself asks for a quarter of a record at a
/// time, which would be the most of what large fetches cost.
const INBOX_BYTES: usize = 64 << 10;

/// An encrypted connection.
#[derive(Debug)]
pub(super) struct TlsStream {
    socket: TcpStream,
    connection: ClientConnection,
    inbox: Inbox,
}

/// What the socket gave and was not decrypted yet.
#[derive(Debug)]
struct Inbox {
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
}

impl Inbox {
    fn new() -> Self {
        Self {
            bytes: vec![0; INBOX_BYTES].into(),
            from: 0,
            to: 0,
        }
    }

    const fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// Takes in what the socket has, once; false at its end. Only when empty.
    fn fill(&mut self, socket: &mut TcpStream) -> io::Result<bool> {
        self.from = 0;
        self.to = 0;
        self.to = socket.read(&mut self.bytes)?;
        Ok(self.to > 0)
    }
}

impl Read for Inbox {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let held = self.bytes.get(self.from..self.to).unwrap_or_default();
        let count = held.len().min(buffer.len());
        let (taken, _) = held.split_at(count);
        let (room, _) = buffer.split_at_mut(count);
        room.copy_from_slice(taken);
        self.from += count;
        Ok(count)
    }
}

impl TlsStream {
    /// Nothing is sent yet.
    pub(super) fn new(socket: TcpStream, host: &str, tls: &TlsConfig) -> Result<Self, Problem> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            Problem::new(format!(
                "`{host}` is no name that a certificate could hold; use the broker's DNS name or \
                 its address"
            ))
        })?;
        let connection = ClientConnection::new(Arc::clone(&tls.config), name)
            .map_err(|error| Problem::new(format!("TLS cannot begin: {error}")))?;
        Ok(Self {
            socket,
            connection,
            inbox: Inbox::new(),
        })
    }

    pub(super) const fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    pub(super) fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Takes a step in decrypting what came, from the socket where nothing is left; false at its
    /// end.
    pub(super) fn receive(&mut self) -> io::Result<bool> {
        if self.inbox.is_empty() && !self.inbox.fill(&mut self.socket)? {
            return Ok(false);
        }
        // After the farewell of the other side nothing is taken any more.
        if self.connection.read_tls(&mut self.inbox)? == 0 {
            return Ok(false);
        }
        if let Err(error) = self.connection.process_new_packets() {
            // The broker is to be told why we leave; the reason itself is what counts.
            drop(self.flush_pending());
            return Err(io::Error::new(ErrorKind::InvalidData, error));
        }
        Ok(true)
    }

    /// Whether something that came was not decrypted yet.
    pub(super) const fn has_received(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Fills the buffer as far as what came reaches: nothing is left where it is not filled.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) {
            match self.connection.reader().read(room) {
                // The farewell of the other side.
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if filled > 0 && self.inbox.is_empty() {
                        break;
                    }
                    // A connection that is closed without a farewell is closed all the same.
                    if !self.receive()? {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // What waits already goes first: that bounds what we hold, and keeps the order.
        if !self.flush_pending()? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let taken = self.connection.writer().write(bytes)?;
        self.flush_pending()?;
        Ok(taken)
    }

    /// Sends what waits; whether nothing is left.
    pub(super) fn flush_pending(&mut self) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
