//! What hostile requests cost in memory: every allocation of the decoding thread is measured.

use felix_core::limits::{REQUEST_BYTES_MAX, REQUEST_ELEMENTS_MAX};
use felix_kafka::codec::{Cursor, DecodeError, RequestHeader, fetch, metadata};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes allocated by this thread and not freed, and the most there have been.
    static LIVE: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// The system's allocator, counting.
struct Counting;

fn count(bytes: isize) {
    LIVE.with(|live| {
        let (now, most) = live.get();
        live.set((now + bytes, most.max(now + bytes)));
    });
}

#[expect(
    unsafe_code,
    reason = "an allocator can be measured only by standing in for it"
)]
// SAFETY: every call is passed on unchanged to the system's allocator; the counters are plain cells
// of the calling thread and allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promises are passed on with the call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: as above; the pointer came from the same allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory that `work` had in use at once, beyond what was there before.
fn peak(work: impl FnOnce()) -> usize {
    let before = LIVE.with(|live| {
        let (now, _) = live.get();
        live.set((now, now));
        now
    });
    work();
    let (_, most) = LIVE.with(Cell::get);
    usize::try_from(most - before).expect("the peak is never below the start")
}

fn decode_metadata(version: i16, body: &[u8]) -> Result<usize, DecodeError> {
    let request = metadata::Request::decode(version, &mut Cursor::new(body))?;
    Ok(request.topics.map_or(0, |topics| topics.len()))
}

#[test]
fn a_frame_of_forty_bytes_that_declares_two_billion_topics_allocates_next_to_nothing() {
    let mut classic = [0_u8; 40];
    classic[..4].copy_from_slice(&i32::MAX.to_be_bytes());
    let mut compact = [0_u8; 40];
    compact[..5].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
    for (version, body) in [(1, classic), (12, compact)] {
        let bytes = peak(|| assert!(decode_metadata(version, &body).is_err()));
        assert_eq!(bytes, 0, "version {version}");
    }
}

#[test]
fn a_count_that_the_frame_could_hold_costs_at_most_its_elements() {
    // 40 bytes could be 40 topics, for all a classic count tells.
    let mut body = [0xff_u8; 44];
    body[..4].copy_from_slice(&40_i32.to_be_bytes());
    let bytes = peak(|| assert!(decode_metadata(1, &body).is_err()));
    assert!(
        bytes <= 40 * size_of::<metadata::RequestTopic<'_>>(),
        "{bytes}"
    );
}

#[test]
fn the_greatest_frame_costs_less_than_itself_whatever_it_declares() {
    // Topics with an empty name and no partitions: the most structure that few bytes can ask for.
    for topics in [REQUEST_ELEMENTS_MAX, REQUEST_BYTES_MAX / 6 - 8] {
        let count = u32::try_from(topics).unwrap().to_be_bytes();
        let mut body = [&[0; 17][..], &count].concat();
        body.resize(body.len() + topics * 6, 0);
        let bytes = peak(|| {
            let decoded = fetch::Request::decode(4, &mut Cursor::new(&body));
            assert_eq!(decoded.is_ok(), topics == REQUEST_ELEMENTS_MAX);
        });
        assert!(bytes < REQUEST_BYTES_MAX, "{topics} topics: {bytes} bytes");
    }
}

#[test]
fn a_header_costs_nothing() {
    let frame = [0, 3, 0, 1, 0, 0, 0, 7, 0x7f, 0xff];
    let bytes = peak(|| assert!(RequestHeader::decode(&mut Cursor::new(&frame)).is_err()));
    assert_eq!(bytes, 0);
}
