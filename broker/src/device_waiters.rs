//! The kernel threads that wait for devices on behalf of a core.
//!
//! A flush holds one of them until it ends. The kernel would allow a thread as many as its first
//! ring has entries, and that is whichever ring its libraries made first: two for one core and eight
//! for another, so that a few flushes of a device that hangs would stop every flush of the core.

use felix_core::limits::DEVICE_WAITERS_MAX;
use rustix::io::{self, Errno};
use rustix::io_uring::{IoringRegisterOp, io_uring_params, io_uring_register, io_uring_setup};

/// Lets the calling thread have as many as [`DEVICE_WAITERS_MAX`] says, for whatever rings it makes.
/// Before Linux 5.15 this cannot be said, and the kernel's own bound stays.
///
/// They run where the core is pinned, and that is not changed: the core sleeps while its appends wait for
/// a flush, and to wake another processor takes longer (`docs/decisions/0009-flushes.md`).
///
/// # Errors
/// No ring can be made.
pub(crate) fn allow() -> io::Result<()> {
    let most = u32::try_from(DEVICE_WAITERS_MAX).expect("a small number");
    // Zero leaves the other kind, for sockets and pipes, as it is.
    match say([most, 0]) {
        Ok(_) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(error),
    }
}

/// How many the calling thread may have of each kind from here on, zero for as many as before; how
/// many it could have until now.
fn say(mut most: [u32; 2]) -> io::Result<[u32; 2]> {
    let mut params = io_uring_params::default();
    #[expect(
        unsafe_code,
        reason = "rustix leaves the rules of rings to its callers"
    )]
    // SAFETY: the parameters ask for nothing special, so the kernel takes no pointer from them.
    let ring = unsafe { io_uring_setup(1, &mut params) }?;
    #[expect(
        unsafe_code,
        reason = "rustix leaves the rules of rings to its callers"
    )]
    // SAFETY: this operation reads and writes an array of two numbers, which outlives the call.
    unsafe {
        io_uring_register(
            &ring,
            IoringRegisterOp::RegisterIowqMaxWorkers,
            most.as_mut_ptr().cast(),
            2,
        )
    }?;
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_have_many_whatever_ring_it_made_first() {
        let Ok([before, _]) = say([0, 0]) else {
            // A kernel that cannot be told cannot be asked.
            return allow().unwrap();
        };
        let most = u32::try_from(DEVICE_WAITERS_MAX).unwrap();
        assert!(before < most, "one entry, one thread: {before}");
        allow().unwrap();
        assert_eq!(say([0, 0]).unwrap()[0], most);
    }
}
