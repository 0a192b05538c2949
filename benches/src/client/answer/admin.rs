//! The answers that come before the load.

use super::super::api::Served;
use super::super::cursor::Cursor;
use super::super::{Address, Api, Problem, error_name};

/// Why a broker did not do as it was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) struct Refusal {
    pub(in super::super) error: i16,
    /// In the broker's words, where it has some.
    pub(in super::super) message: Option<String>,
}

impl Refusal {
    /// The name of the error and the broker's words.
    pub(in super::super) fn told(&self) -> String {
        let name = error_name(self.error);
        match &self.message {
            Some(message) => format!("{name}: {message}"),
            None => name.into_owned(),
        }
    }
}

/// The refusal that an error code is, if it is one.
pub(in super::super) fn refusal(error: i16, message: Option<&str>) -> Result<(), Refusal> {
    if error == 0 {
        return Ok(());
    }
    let message = message.filter(|message| !message.is_empty());
    Err(Refusal {
        error,
        message: message.map(str::to_owned),
    })
}

/// A cursor after the correlation id, which the exchange has compared.
fn body(frame: &[u8], api: Api) -> Result<Cursor<'_>, Problem> {
    let mut cursor = Cursor::new(frame, api);
    cursor.i32()?;
    Ok(cursor)
}

/// What the broker serves.
pub(in super::super) fn versions(frame: &[u8]) -> Result<Result<Vec<Served>, Refusal>, Problem> {
    let mut cursor = body(frame, Api::ApiVersions)?;
    let error = cursor.i16()?;
    let mut all = Vec::new();
    for _ in 0..cursor.count()? {
        all.push(Served {
            key: cursor.i16()?,
            min: cursor.i16()?,
            max: cursor.i16()?,
        });
    }
    cursor.end()?;
    Ok(refusal(error, None).map(|()| all))
}

/// What the broker knows of one topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) struct Described {
    /// Where the brokers listen, by their ids.
    pub(in super::super) brokers: Vec<(i32, Address)>,
    pub(in super::super) controller: i32,
    /// 0, or why there is nothing to tell.
    pub(in super::super) error: i16,
    pub(in super::super) partitions: Vec<PartitionDescribed>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct PartitionDescribed {
    pub(in super::super) error: i16,
    pub(in super::super) index: i32,
    /// Id of a broker; -1: none.
    pub(in super::super) leader: i32,
}

/// Metadata of exactly one topic.
pub(in super::super) fn metadata(frame: &[u8]) -> Result<Described, Problem> {
    let mut cursor = body(frame, Api::Metadata)?;
    cursor.i32()?; // throttle
    let mut brokers = Vec::new();
    for _ in 0..cursor.count()? {
        let id = cursor.i32()?;
        let host = cursor.text()?.to_owned();
        let port = u16::try_from(cursor.i32()?);
        let port = port.map_err(|_| cursor.wrong("has a port that is none"))?;
        cursor.nullable_text()?; // rack
        brokers.push((id, Address { host, port }));
    }
    cursor.nullable_text()?; // cluster
    let controller = cursor.i32()?;
    if cursor.count()? != 1 {
        return Err(cursor.wrong("is not about one topic"));
    }
    let error = cursor.i16()?;
    cursor.text()?;
    cursor.i8()?; // internal
    let mut partitions = Vec::new();
    for _ in 0..cursor.count()? {
        partitions.push(PartitionDescribed {
            error: cursor.i16()?,
            index: cursor.i32()?,
            leader: cursor.i32()?,
        });
        for _ in 0..2 {
            // replicas, and those in sync
            for _ in 0..cursor.count()? {
                cursor.i32()?;
            }
        }
    }
    cursor.end()?;
    Ok(Described {
        brokers,
        controller,
        error,
        partitions,
    })
}

/// The offset that a partition's next record gets.
pub(in super::super) fn end_offset(frame: &[u8]) -> Result<Result<i64, Refusal>, Problem> {
    let mut cursor = body(frame, Api::ListOffsets)?;
    cursor.i32()?; // throttle
    one(&mut cursor)?;
    cursor.text()?;
    one(&mut cursor)?;
    cursor.i32()?; // partition
    let error = cursor.i16()?;
    cursor.i64()?; // timestamp
    let offset = cursor.i64()?;
    cursor.end()?;
    Ok(refusal(error, None).map(|()| offset))
}

/// Whether a topic was made.
pub(in super::super) fn created(frame: &[u8]) -> Result<Result<(), Refusal>, Problem> {
    let mut cursor = body(frame, Api::CreateTopics)?;
    cursor.i32()?; // throttle
    one(&mut cursor)?;
    cursor.text()?;
    let error = cursor.i16()?;
    let message = cursor.nullable_text()?;
    cursor.end()?;
    Ok(refusal(error, message))
}

/// Whether a topic was dropped.
pub(in super::super) fn deleted(frame: &[u8]) -> Result<Result<(), Refusal>, Problem> {
    let mut cursor = body(frame, Api::DeleteTopics)?;
    cursor.i32()?; // throttle
    one(&mut cursor)?;
    cursor.text()?;
    let error = cursor.i16()?;
    cursor.end()?;
    Ok(refusal(error, None))
}

/// Id and epoch of an idempotent producer.
pub(in super::super) fn producer_id(frame: &[u8]) -> Result<Result<(i64, i16), Refusal>, Problem> {
    let mut cursor = body(frame, Api::InitProducerId)?;
    cursor.i32()?; // throttle
    let error = cursor.i16()?;
    let id = cursor.i64()?;
    let epoch = cursor.i16()?;
    cursor.end()?;
    Ok(refusal(error, None).map(|()| (id, epoch)))
}

/// Whether the broker takes the mechanism; those it takes.
pub(in super::super) fn sasl_mechanisms(
    frame: &[u8],
) -> Result<(Result<(), Refusal>, Vec<String>), Problem> {
    let mut cursor = body(frame, Api::SaslHandshake)?;
    let error = cursor.i16()?;
    let mut mechanisms = Vec::new();
    for _ in 0..cursor.count()? {
        mechanisms.push(cursor.text()?.to_owned());
    }
    cursor.end()?;
    Ok((refusal(error, None), mechanisms))
}

/// Whether the broker knows the user.
pub(in super::super) fn authenticated(frame: &[u8]) -> Result<Result<(), Refusal>, Problem> {
    let mut cursor = body(frame, Api::SaslAuthenticate)?;
    let error = cursor.i16()?;
    let message = cursor.nullable_text()?;
    cursor.blob()?; // token
    cursor.i64()?; // lifetime
    cursor.end()?;
    Ok(refusal(error, message))
}

fn one(cursor: &mut Cursor<'_>) -> Result<(), Problem> {
    match cursor.count()? {
        1 => Ok(()),
        _ => Err(cursor.wrong("is not about what was asked alone")),
    }
}
