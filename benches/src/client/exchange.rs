//! Questions that are answered one by one, with waiting.

use super::stream::wait;
use super::{Address, Api, Problem, Stream, answer, tls};
use std::io::{self, ErrorKind};
use std::time::Instant;

const READ_BYTES: usize = 16 << 10;

/// A connection on which one question waits for its answer before the next is asked.
#[derive(Debug)]
pub(super) struct Exchange {
    stream: Stream,
    address: Address,
    correlation: i32,
    out: Vec<u8>,
    received: Vec<u8>,
}

impl Exchange {
    pub(super) const fn new(stream: Stream, address: Address) -> Self {
        Self {
            stream,
            address,
            correlation: 0,
            out: Vec::new(),
            received: Vec::new(),
        }
    }

    /// Who answers.
    pub(super) const fn address(&self) -> &Address {
        &self.address
    }

    /// The connection, for others to go on. Everything asked for has been answered.
    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }

    /// Sends what `write` writes, and waits for the frame that answers it.
    pub(super) fn ask(
        &mut self,
        api: Api,
        deadline: Instant,
        write: impl FnOnce(&mut Vec<u8>, i32),
    ) -> Result<&[u8], Problem> {
        self.correlation = self.correlation.wrapping_add(1);
        self.out.clear();
        write(&mut self.out, self.correlation);
        self.send(deadline)
            .and_then(|()| self.receive(deadline))
            .map_err(|error| self.told(api, &error))?;
        let frame = answer::first(&self.received)?.expect("it was received to its end just now");
        let has_more = self.received.len() > answer::LENGTH_BYTES + frame.len();
        if has_more || answer::correlation(frame) != Some(self.correlation) {
            return Err(Problem::new(format!(
                "{} answered {api} with something else; is it a Kafka broker?",
                self.address
            )));
        }
        Ok(frame)
    }

    fn send(&mut self, deadline: Instant) -> io::Result<()> {
        let mut sent = 0;
        while let Some(rest) = self.out.get(sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(taken) => sent += taken,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(true, deadline)?;
                    self.stream.flush_pending()?;
                }
                Err(error) => return Err(error),
            }
        }
        while !self.stream.flush_pending()? {
            self.wait(true, deadline)?;
        }
        Ok(())
    }

    fn receive(&mut self, deadline: Instant) -> io::Result<()> {
        self.received.clear();
        let mut buffer = [0; READ_BYTES];
        loop {
            let frame = answer::first(&self.received)
                .map_err(|problem| io::Error::new(ErrorKind::InvalidData, problem))?;
            if frame.is_some() {
                return Ok(());
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    let came = buffer.get(..count).unwrap_or_default();
                    self.received.extend_from_slice(came);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(false, deadline)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn wait(&self, or_written: bool, deadline: Instant) -> io::Result<()> {
        if wait(&self.stream, or_written, deadline)? {
            Ok(())
        } else {
            Err(ErrorKind::TimedOut.into())
        }
    }

    fn told(&self, api: Api, error: &io::Error) -> Problem {
        let address = &self.address;
        let cause = error.get_ref();
        if let Some(problem) = cause.and_then(|cause| cause.downcast_ref::<Problem>()) {
            return Problem::new(format!("{address}: {problem}"));
        }
        if let Some(told) = tls::told(error, address) {
            return Problem::new(told);
        }
        Problem::new(match error.kind() {
            ErrorKind::TimedOut => format!(
                "{address} accepted the connection, but did not answer {api} in time; does this \
                 port speak TLS, or is the broker stuck?"
            ),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                format!(
                    "{address} closed the connection instead of answering {api}; it may want TLS, \
                     a user and password, or a client certificate, or not serve version {} of it; \
                     its log says which",
                    api.version()
                )
            }
            _ => format!("the connection to {address} broke during {api}: {error}"),
        })
    }
}
