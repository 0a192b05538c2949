//! What a request leads to.

use crate::codec::{Errors, Writer};
use crate::mute::Throttle;
use bytes::Bytes;
use futures_util::future::LocalBoxFuture;

/// The end of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// These bytes are sent, one piece after the other, the length prefix included.
    Answer {
        /// What is sent.
        pieces: Vec<Bytes>,
        /// The errors it tells.
        errors: Errors,
        /// How long it tells its client to wait.
        throttle: Throttle,
    },
    /// Nothing is sent: a Produce with `acks=0`. Its client is to wait all the same.
    Silence(Throttle),
    /// The connection is closed, since the peer could not be told what went wrong in another way.
    /// What was answered before is still sent. The reason has been logged.
    Close,
}

impl Outcome {
    /// The answer that is written.
    pub(crate) fn written(writer: Writer) -> Self {
        Self::Answer {
            errors: writer.errors(),
            throttle: Throttle::default(),
            pieces: writer.finish(),
        }
    }

    /// The same answer, which tells its client to wait.
    pub(crate) fn throttled(self, throttle: Throttle) -> Self {
        match self {
            Self::Answer {
                pieces,
                errors,
                throttle: _,
            } => Self::Answer {
                pieces,
                errors,
                throttle,
            },
            Self::Silence(_) => Self::Silence(throttle),
            Self::Close => Self::Close,
        }
    }

    /// Bytes to be sent.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Answer {
                pieces,
                errors: _,
                throttle: _,
            } => pieces.iter().map(Bytes::len).sum(),
            Self::Silence(_) | Self::Close => 0,
        }
    }
}

/// How far a handler came at once.
pub(crate) enum Handled {
    /// To the end.
    Done(Outcome),
    /// The rest takes time, and later requests may be handled meanwhile.
    Waiting(LocalBoxFuture<'static, Outcome>),
    /// As [`Handled::Waiting`], for a long poll that may bring this many bytes of records.
    Polling {
        /// The rest.
        answer: LocalBoxFuture<'static, Outcome>,
        /// The most it may bring that is not paid for, little excepted.
        bytes_max: usize,
    },
    /// No later request may be handled before this: something is to be handed to shards in order, or
    /// the answer is too large to be made beside others. The future's result is how it goes on.
    First(LocalBoxFuture<'static, Handled>),
}
