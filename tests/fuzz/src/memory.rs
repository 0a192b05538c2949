//! How much memory a piece of work takes, where [`Watched`] is the program's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes allocated by this thread and not freed, and the most there have been.
    static LIVE: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// The system's allocator, counting what each thread holds.
#[derive(Clone, Copy, Debug)]
pub struct Watched;

fn count(bytes: isize) {
    LIVE.with(|live| {
        let (now, most) = live.get();
        live.set((now + bytes, most.max(now + bytes)));
    });
}

#[expect(
    unsafe_code,
    reason = "an allocator can be watched only by standing in for it"
)]
// SAFETY: every call is passed on unchanged to the system's allocator; the counters are plain cells
// of the calling thread and allocate nothing.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promises are passed on with the call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promises are passed on with the call.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: as above; the pointer came from the same allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Old and new may exist at once.
        count(new_size.cast_signed());
        count(-layout.size().cast_signed());
        // SAFETY: as above; the pointer came from the same allocator.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

/// Does `work` and asserts that it had at most `bytes_max` in use at once beyond what was there
/// before. Where the allocator is not watched, nothing is asserted.
pub(crate) fn bounded<T>(bytes_max: usize, work: impl FnOnce() -> T) -> T {
    let before = LIVE.with(|live| {
        let (now, _) = live.get();
        live.set((now, now));
        now
    });
    let done = work();
    let (_, most) = LIVE.with(Cell::get);
    let peak = usize::try_from(most - before).expect("the peak is never below the start");
    assert!(
        peak <= bytes_max,
        "{peak} bytes were in use at once, at most {bytes_max} may be"
    );
    done
}
