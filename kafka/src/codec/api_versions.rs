//! ApiVersions (18): what a client asks first.

use super::{ApiKey, Cursor, DecodeError, ErrorCode, Fault, Writer};

const API: ApiKey = ApiKey::ApiVersions;

/// An ApiVersions request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// The client library's name; empty before version 3.
    pub client_software_name: &'a str,
    /// The client library's version; empty before version 3.
    pub client_software_version: &'a str,
}

impl<'a> Request<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// The bytes are no such request.
    pub fn decode(version: i16, cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        if !API.serves(version) {
            return Err(cursor.error(Fault::Version(version)));
        }
        cursor.begin_body(API.is_flexible(version));
        let (mut client_software_name, mut client_software_version) = ("", "");
        if version >= 3 {
            client_software_name = cursor.string()?;
            client_software_version = cursor.string()?;
        }
        cursor.tagged_fields()?;
        cursor.finish()?;
        Ok(Self {
            client_software_name,
            client_software_version,
        })
    }
}

/// An ApiVersions answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// The error, if any.
    pub error_code: ErrorCode,
    /// The APIs told, each with the versions advertised.
    pub apis: Vec<ApiKey>,
    /// How long the client is asked to hold back. Version 1 and later.
    pub throttle_time_ms: i32,
}

impl Response {
    /// All that is served.
    #[must_use]
    pub fn served() -> Self {
        Self {
            error_code: ErrorCode::None,
            apis: ApiKey::ALL.to_vec(),
            throttle_time_ms: 0,
        }
    }

    /// The answer to a version we do not speak, to be encoded as version 0. It tells the versions
    /// of ApiVersions, so that a client can ask again at the highest that both know (KIP-511).
    #[must_use]
    pub fn unsupported_version() -> Self {
        Self {
            error_code: ErrorCode::UnsupportedVersion,
            apis: vec![API],
            throttle_time_ms: 0,
        }
    }

    /// Writes the body.
    pub fn encode(&self, version: i16, writer: &mut Writer) {
        writer.begin_body(API.is_flexible(version));
        writer.error_code(self.error_code);
        writer.array(&self.apis, |writer, api| {
            let versions = api.versions();
            writer.i16(api.wire());
            writer.i16(versions.min);
            writer.i16(versions.max);
            writer.tagged_fields();
        });
        if version >= 1 {
            writer.i32(self.throttle_time_ms);
        }
        writer.tagged_fields();
    }
}
