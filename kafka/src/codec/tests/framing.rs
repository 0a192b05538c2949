//! Headers, primitives and the tables of numbers.

use super::*;
use crate::codec::{DecodeError, Fault};
use kafka_protocol::error::ResponseError;

/// A header of version 1: key, version, correlation id 7, client id.
fn header(key: i16, version: i16, client_id: Option<&str>) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_i16(key);
    bytes.put_i16(version);
    bytes.put_i32(7);
    match client_id {
        None => bytes.put_i16(-1),
        Some(id) => {
            bytes.put_i16(id.len().try_into().unwrap());
            bytes.put_slice(id.as_bytes());
        }
    }
    bytes
}

#[test]
fn flexible_versions_begin_where_others_say_they_do() {
    for api in ApiKey::ALL {
        let theirs = oracle_key(api);
        for version in advertised(api) {
            let flexible = theirs.request_header_version(version) >= 2;
            assert_eq!(api.is_flexible(version), flexible, "{api:?} {version}");
            let flexible = theirs.response_header_version(version) >= 1;
            assert_eq!(
                api.has_flexible_response_header(version),
                flexible,
                "{api:?} {version}"
            );
        }
        assert_eq!(ApiKey::from_wire(api.wire()), Some(api));
        assert_eq!(format!("{theirs:?}"), api.name());
    }
}

#[test]
fn error_codes_have_the_numbers_that_others_give_them() {
    let mut below = i16::MIN;
    for code in ErrorCode::ALL {
        assert!(code.wire() > below, "{code:?} is out of order");
        below = code.wire();
        let theirs = ResponseError::try_from_code(code.wire());
        let name = theirs.map_or_else(|| "None".to_owned(), |error| format!("{error:?}"));
        let ours = match code {
            // Spelled otherwise there.
            ErrorCode::InvalidTopic => "InvalidTopicException".to_owned(),
            code => format!("{code:?}"),
        };
        assert_eq!(ours, name);
    }
}

#[test]
fn a_client_without_a_name_is_named_by_the_empty_string() {
    for client_id in [None, Some("")] {
        let frame = header(3, 1, client_id);
        let mut cursor = Cursor::new(&frame);
        let header = RequestHeader::decode(&mut cursor).unwrap();
        assert_eq!((header.client_id, header.correlation_id), ("", 7));
        assert_eq!(header.support, Support::Served(ApiKey::Metadata));
        assert_eq!(cursor.remaining(), 0);
    }
}

#[test]
fn api_versions_at_any_unknown_version_can_be_answered() {
    for version in [5, 99, i16::MAX, -1] {
        let mut frame = header(18, version, Some("me"));
        frame.extend([0xff; 9]); // a body we cannot read
        let header = RequestHeader::decode(&mut Cursor::new(&frame)).unwrap();
        assert_eq!(header.support, Support::ApiVersionsUnsupported);
        assert_eq!((header.client_id, header.correlation_id), ("me", 7));
    }
    // Not even the client id is needed.
    let frame = frame_start(18, 99);
    let header = RequestHeader::decode(&mut Cursor::new(&frame)).unwrap();
    assert_eq!(header.support, Support::ApiVersionsUnsupported);
    assert_eq!((header.client_id, header.correlation_id), ("", 7));
}

fn frame_start(key: i16, version: i16) -> Vec<u8> {
    let mut frame = header(key, version, None);
    frame.truncate(8);
    frame
}

#[test]
fn what_is_not_served_is_named_by_its_header() {
    for (key, version) in [
        (1, 3),
        (1, 13),
        (0, 12),
        (11, 0),
        (999, 0),
        (-1, -1),
        (0, -1),
    ] {
        let frame = header(key, version, Some("me"));
        let header = RequestHeader::decode(&mut Cursor::new(&frame)).unwrap();
        assert_eq!(header.support, Support::Unsupported);
        assert_eq!(
            (header.api_key, header.api_version, header.client_id),
            (key, version, "me")
        );
        assert!(RequestHeader::decode(&mut Cursor::new(&frame_start(key, version))).is_ok());
    }
}

#[test]
fn variable_length_integers_are_read_back_and_never_hold_more_than_32_bits() {
    for value in [
        0,
        1,
        0x7f,
        0x80,
        0x3fff,
        0x4000,
        0x1f_ffff,
        0x0fff_ffff,
        0x1000_0000,
        u32::MAX,
    ] {
        let mut writer = Writer::response(ApiKey::Metadata, 0, 0);
        writer.uvarint(value);
        let bytes = writer.finish().concat();
        let mut cursor = Cursor::new(&bytes[8..]);
        assert_eq!(cursor.uvarint(), Ok(value));
        assert_eq!(cursor.finish(), Ok(()));
    }
    for too_much in [
        [0xff, 0xff, 0xff, 0xff, 0x10],
        [0x80, 0x80, 0x80, 0x80, 0x80],
    ] {
        let error = Cursor::new(&too_much).uvarint().unwrap_err();
        assert_eq!(error.fault, Fault::Varint);
    }
}

#[test]
fn an_error_says_what_was_wrong_and_where() {
    let error = |at, fault| DecodeError { at, fault }.to_string();
    assert_eq!(
        error(9, Fault::Truncated { needed: 4, left: 1 }),
        "malformed request at byte 9: truncated: a field of 4 bytes where 1 are left"
    );
    assert!(error(0, Fault::NegativeLength(-1)).contains("null where the field cannot be null"));
    assert!(error(0, Fault::NegativeLength(-7)).contains("negative length -7"));
    let count = Fault::Count {
        count: 1000,
        left: 3,
    };
    assert!(error(0, count).contains("array of 1000 elements where 3 bytes are left"));
    assert!(error(0, Fault::Elements).contains("more than 32768 array elements"));
    assert!(error(0, Fault::Utf8).contains("not UTF-8"));
    assert!(error(0, Fault::Trailing(5)).contains("5 bytes left over"));
    assert!(error(0, Fault::Version(99)).contains("no layout for version 99"));
}

#[test]
fn a_sentence_that_quotes_too_much_is_cut_between_characters() {
    let quoted = "é".repeat(40_000);
    for (api, version) in [(ApiKey::FindCoordinator, 2), (ApiKey::FindCoordinator, 4)] {
        let mut writer = Writer::response(api, version, 0);
        writer.begin_body(api.is_flexible(version));
        writer.sentence(Some(&format!("x{quoted}")));
        let bytes = writer.finish().concat();
        let text = std::str::from_utf8(&bytes[10 + usize::from(version == 4)..]).unwrap();
        assert!(quoted.starts_with(&text[1..]), "{version}");
        assert_eq!(text.len(), 1023);
    }
}
