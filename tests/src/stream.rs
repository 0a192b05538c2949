//! The streams that a broker of a test serves.

use std::fmt::Write as _;

/// When an append is flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// When the kernel pleases.
    None,
    /// Every interval.
    Periodic,
    /// Before it is acknowledged.
    OnCommit,
}

/// How much a stream keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// As the broker's settings say.
    Unsaid,
    /// So many bytes, or seconds.
    For(u64),
    /// Everything.
    Unlimited,
}

impl Kept {
    fn line(self, name: &str) -> String {
        match self {
            Self::Unsaid => String::new(),
            Self::For(number) => format!("{name} = {number}\n"),
            Self::Unlimited => format!("{name} = \"unlimited\"\n"),
        }
    }
}

/// A stream in the broker's catalog file.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    tenant: &'static str,
    topic: &'static str,
    shards: u32,
    policy: Policy,
    create_time: bool,
    bytes: Kept,
    seconds: Kept,
}

impl Stream {
    /// A periodic stream; `topic` is `<namespace>.<name>`.
    #[must_use]
    pub const fn new(topic: &'static str, shards: u32) -> Self {
        Self {
            tenant: "dev",
            topic,
            shards,
            policy: Policy::Periodic,
            create_time: false,
            bytes: Kept::Unsaid,
            seconds: Kept::Unsaid,
        }
    }

    /// The same of another tenant than `dev`.
    #[must_use]
    pub const fn of(self, tenant: &'static str) -> Self {
        Self { tenant, ..self }
    }

    /// The same, of which so much is kept.
    #[must_use]
    pub const fn keeping(self, bytes: Kept, seconds: Kept) -> Self {
        Self {
            bytes,
            seconds,
            ..self
        }
    }

    /// The same with another policy.
    #[must_use]
    pub const fn flushed(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// The same with the producers' timestamps instead of the broker's.
    #[must_use]
    pub const fn stamped_by_producers(self) -> Self {
        Self {
            create_time: true,
            ..self
        }
    }
}

/// The broker's catalog file.
pub(crate) fn catalog(streams: &[Stream]) -> String {
    let mut text = String::new();
    for stream in streams {
        let (namespace, name) = stream.topic.split_once('.').expect("<namespace>.<name>");
        let durability = match stream.policy {
            Policy::None => "none",
            Policy::Periodic => "periodic",
            Policy::OnCommit => "on_commit",
        };
        let timestamps = if stream.create_time {
            "create"
        } else {
            "append"
        };
        let (tenant, shards) = (stream.tenant, stream.shards);
        let bytes = stream.bytes.line("retention_bytes");
        let seconds = stream.seconds.line("retention_seconds");
        write!(
            text,
            "[[stream]]\ntenant = \"{tenant}\"\nnamespace = \"{namespace}\"\nname = \"{name}\"\n\
             shards = {shards}\ndurability = \"{durability}\"\ntimestamps = \"{timestamps}\"\n{bytes}{seconds}\n"
        )
        .expect("a string takes everything");
    }
    text
}
