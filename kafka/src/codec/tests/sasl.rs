//! SaslHandshake and SaslAuthenticate.

use super::*;
use crate::codec::{sasl_authenticate, sasl_handshake};
use std::borrow::Cow;

proptest! {
    #[test]
    fn handshakes_of_every_version_are_read_as_they_were_meant(mechanism in text()) {
        const API: ApiKey = ApiKey::SaslHandshake;
        for version in advertised(API) {
            let sent = oracle::SaslHandshakeRequest::default().with_mechanism(text_of(&mechanism));
            let frame = request_frame(API, version, &sent);
            let mut body = open(API, version, &frame);
            let read = sasl_handshake::Request::decode(version, &mut body).unwrap();
            prop_assert_eq!(read.mechanism, &mechanism);
        }
    }

    #[test]
    fn handshake_answers_of_every_version_are_read_by_others_as_they_were_meant(
        error_code in error_code(),
        mechanisms in few(text()),
    ) {
        const API: ApiKey = ApiKey::SaslHandshake;
        let mechanisms: Vec<&str> = mechanisms.iter().map(String::as_str).collect();
        let response = sasl_handshake::Response { error_code, mechanisms: &mechanisms };
        for version in advertised(API) {
            let read: oracle::SaslHandshakeResponse =
                answer(API, version, |writer| response.encode(version, writer));
            prop_assert_eq!(read.error_code, error_code.wire());
            let told: Vec<&str> = read.mechanisms.iter().map(StrBytes::as_str).collect();
            prop_assert_eq!(&told, &mechanisms);
        }
    }

    #[test]
    fn authentications_of_every_version_are_read_as_they_were_meant(
        message in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        const API: ApiKey = ApiKey::SaslAuthenticate;
        for version in advertised(API) {
            let sent = oracle::SaslAuthenticateRequest::default()
                .with_auth_bytes(Bytes::from(message.clone()))
                .with_unknown_tagged_fields(tags(API.is_flexible(version)));
            let frame = request_frame(API, version, &sent);
            let mut body = open(API, version, &frame);
            let read = sasl_authenticate::Request::decode(version, &mut body).unwrap();
            prop_assert_eq!(&frame[read.auth_bytes], &message);
        }
    }

    #[test]
    fn authentication_answers_of_every_version_are_read_by_others_as_they_were_meant(
        error_code in error_code(),
        error_message in prop::option::of(text()),
        auth_bytes in prop::collection::vec(any::<u8>(), 0..300),
        session_lifetime_ms: i64,
    ) {
        const API: ApiKey = ApiKey::SaslAuthenticate;
        let response = sasl_authenticate::Response {
            error_code,
            error_message: error_message.as_deref().map(Cow::Borrowed),
            auth_bytes: &auth_bytes,
            session_lifetime_ms,
        };
        for version in advertised(API) {
            let read: oracle::SaslAuthenticateResponse =
                answer(API, version, |writer| response.encode(version, writer));
            prop_assert_eq!(read.error_code, error_code.wire());
            prop_assert_eq!(read.error_message.as_deref(), error_message.as_deref());
            prop_assert_eq!(&read.auth_bytes, &auth_bytes);
            let told = if version >= 1 { session_lifetime_ms } else { 0 };
            prop_assert_eq!(read.session_lifetime_ms, told);
        }
    }
}
