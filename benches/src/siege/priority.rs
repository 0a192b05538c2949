//! Who has the processor first that the client shares with its peers, and with the broker's side threads
//! where a machine has no third one. What the client waits for is to be the broker's core alone.

use crate::problem::Problem;
use std::io;

/// The least of the real-time priorities: above every thread without one.
const FIRST: i32 = 1;

/// The least that a thread can have of a processor that others want.
const NICE: i32 = 19;

/// The calling thread, and those that it starts from here on, run as soon as they can, whatever else
/// does. That takes a privilege; the setting tells whether it is so.
pub(super) fn first_of_all() -> (String, String) {
    let told = match schedule(libc::SCHED_FIFO, FIRST) {
        Ok(()) => format!("real-time, {FIRST}"),
        Err(error) => format!("as started: {error}"),
    };
    ("priority of the client".to_owned(), told)
}

/// The calling thread runs when nothing else wants to.
pub(super) fn last_of_all() -> Result<(), Problem> {
    let scheduled = schedule(libc::SCHED_OTHER, 0);
    let last = scheduled
        .and_then(|()| rustix::process::setpriority_process(None, NICE).map_err(io::Error::from));
    last.map_err(|error| Problem::new(format!("a thread cannot be nice: {error}")))
}

#[expect(
    unsafe_code,
    reason = "neither the standard library nor rustix has this call"
)]
fn schedule(policy: i32, priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the kernel reads the parameters, which live until it returns; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_all_may_become_so_whatever_it_was() {
        let (_, told) = first_of_all();
        assert!(told.starts_with("real-time") || told.starts_with("as started: "));
        last_of_all().unwrap();
        assert_eq!(rustix::process::getpriority_process(None).unwrap(), NICE);
    }
}
