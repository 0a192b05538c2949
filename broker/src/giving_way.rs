//! Threads beside the cores give way to them where both have to share a processor: a thread that wakes
//! up would otherwise take it from the core in the middle of a request.

use std::io;

/// Runs `start`. The threads that it starts take no processor from a core by waking up; they have it
/// while the core sleeps, and their share of it where the core never does (`SCHED_BATCH`, sched(7)).
///
/// A process that was given another policy than the usual one keeps that, and so does one that may not
/// change it.
pub(crate) fn giving_way<T>(start: impl FnOnce() -> T) -> T {
    if policy() != Ok(libc::SCHED_OTHER) || set_policy(libc::SCHED_BATCH).is_err() {
        return start();
    }
    let started = start();
    // It is a thread's own right to have the usual one.
    if let Err(error) = set_policy(libc::SCHED_OTHER) {
        tracing::warn!(%error, "a thread cannot be scheduled as usual again");
    }
    started
}

/// How the calling thread is scheduled.
fn policy() -> Result<libc::c_int, io::ErrorKind> {
    #[expect(unsafe_code, reason = "neither std nor rustix has it")]
    // SAFETY: it takes no pointer; zero is the calling thread.
    let policy = unsafe { libc::sched_getscheduler(0) };
    match policy {
        -1 => Err(io::Error::last_os_error().kind()),
        policy => Ok(policy),
    }
}

/// Has the calling thread, and those it starts from here on, scheduled so.
fn set_policy(policy: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    #[expect(unsafe_code, reason = "neither std nor rustix has it")]
    // SAFETY: the parameters outlive the call, which only reads them; zero is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn threads_started_so_give_way_and_whoever_started_them_does_not() {
        let before = policy().unwrap();
        let inside = giving_way(|| thread::spawn(policy).join().unwrap().unwrap());
        assert_eq!(inside, libc::SCHED_BATCH);
        assert_eq!(policy().unwrap(), before);
        let outside = thread::spawn(policy).join().unwrap();
        assert_eq!(outside, Ok(before));
    }
}
