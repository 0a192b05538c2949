//! A frame whose header has been read.

use crate::answer::Outcome;
use crate::codec::{
    ApiKey, Cursor, DecodeError, RequestHeader, Support, Versions, Writer, api_name,
};
use crate::metrics::Refused;
use crate::session::Session;
use bytes::BytesMut;
use std::fmt;

/// A request whose body has not been read yet.
#[derive(Debug)]
pub(crate) struct Request {
    /// The whole frame, without its length prefix.
    pub(crate) frame: BytesMut,
    /// Where in the frame the body begins.
    pub(crate) body: usize,
    /// What is asked for.
    pub(crate) reply: Reply,
}

/// What an answer needs to know of its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    /// The API.
    pub(crate) api: ApiKey,
    /// Its version: one we serve, unless it is ApiVersions.
    pub(crate) version: i16,
    correlation_id: i32,
}

/// Why a connection has to be closed over a request.
#[derive(Debug)]
pub(crate) struct RequestError {
    /// The API, by name where we know it.
    pub(crate) api: Api,
    /// The version; `None` where it could not be read.
    pub(crate) version: Option<i16>,
    /// What is wrong.
    pub(crate) fault: RequestFault,
}

/// An API as a request names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Api {
    /// One we serve.
    Known(ApiKey),
    /// One we do not.
    Number(i16),
    /// The frame is too short to tell.
    Unread,
}

/// What is wrong with a request.
#[derive(Debug)]
pub(crate) enum RequestFault {
    /// Its bytes are not what they should be.
    Malformed(DecodeError),
    /// We do not serve the API, or not in this version but in these (T14).
    Unsupported(Option<Versions>),
}

impl Request {
    /// Reads the header of a frame, and notes in the session who sent it.
    pub(crate) fn parse(frame: BytesMut, session: &mut Session) -> Result<Self, RequestError> {
        let mut cursor = Cursor::new(&frame);
        let header = match RequestHeader::decode(&mut cursor) {
            Ok(header) => header,
            Err(error) => return Err(RequestError::header(&frame, error)),
        };
        session.note_client_id(header.client_id);
        let version = header.api_version;
        let api = match header.support {
            Support::Served(api) => api,
            Support::ApiVersionsUnsupported => ApiKey::ApiVersions,
            Support::Unsupported => {
                let api = Api::of(header.api_key);
                return Err(RequestError {
                    api,
                    version: Some(version),
                    fault: RequestFault::Unsupported(api.versions()),
                });
            }
        };
        let reply = Reply {
            api,
            version,
            correlation_id: header.correlation_id,
        };
        let body = cursor.position();
        Ok(Self { frame, body, reply })
    }

    /// A cursor at the body.
    pub(crate) fn cursor(&self) -> Cursor<'_> {
        let mut cursor = Cursor::new(&self.frame);
        cursor
            .take(self.body)
            .expect("the header was read from these bytes");
        cursor
    }
}

impl Reply {
    /// An answer whose body is to be written.
    pub(crate) fn begin(self) -> Writer {
        Writer::response(self.api, self.version, self.correlation_id)
    }

    /// The answer whose body `encode` writes.
    pub(crate) fn answer(self, encode: impl FnOnce(i16, &mut Writer)) -> Outcome {
        let mut writer = self.begin();
        encode(self.version, &mut writer);
        Outcome::written(writer)
    }

    /// The same reply in the layout of another version.
    pub(crate) fn at_version(self, version: i16) -> Self {
        Self { version, ..self }
    }
}

impl RequestError {
    /// The body of a request cannot be read.
    pub(crate) fn body(reply: Reply, error: DecodeError) -> Self {
        Self {
            api: Api::Known(reply.api),
            version: Some(reply.version),
            fault: RequestFault::Malformed(error),
        }
    }

    /// The header of a frame cannot be read; what can be told of it goes to the log.
    fn header(frame: &[u8], error: DecodeError) -> Self {
        let mut cursor = Cursor::new(frame);
        let api = cursor.i16().map_or(Api::Unread, Api::of);
        let version = cursor.i16().ok();
        Self {
            api,
            version,
            fault: RequestFault::Malformed(error),
        }
    }
}

impl RequestFault {
    /// As it is counted.
    pub(crate) fn refused(&self) -> Refused {
        match self {
            Self::Malformed(_) => Refused::Malformed,
            Self::Unsupported(_) => Refused::Version,
        }
    }
}

impl Api {
    fn of(key: i16) -> Self {
        ApiKey::from_wire(key).map_or(Self::Number(key), Self::Known)
    }

    /// Those that we serve.
    fn versions(self) -> Option<Versions> {
        match self {
            Self::Known(api) => Some(api.versions()),
            Self::Number(_) | Self::Unread => None,
        }
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(api) => f.write_str(api.name()),
            Self::Number(key) => match api_name(*key) {
                Some(name) => f.write_str(name),
                None => write!(f, "{key}"),
            },
            Self::Unread => f.write_str("unread"),
        }
    }
}

impl fmt::Display for RequestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::Unsupported(None) => write!(
                f,
                "this API is not served: docs/kafka-compatibility.md says which are"
            ),
            Self::Unsupported(Some(Versions { min, max, .. })) => {
                write!(f, "this version is not served: {min} to {max} are")
            }
        }
    }
}
