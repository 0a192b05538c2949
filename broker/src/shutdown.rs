//! The end: readiness off, no more connections, what was asked is finished within a budget, logs
//! closed, and the control thread last, so that all of it can be watched.

use crate::boot::{Event, Running};
use crate::clock::SystemClock;
use crate::core_task::Message;
use crate::readiness::Phase;
use felix_core::ShardId;
use felix_core::{Clock, Monotonic};
use std::collections::HashSet;
use std::time::Duration;

/// How long cores may take to close their logs after their connections have ended. A flush of
/// what was written in the last interval takes milliseconds; a device that hangs takes for ever.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Ends a running broker. `served` is how it came to that: its error is passed on. How many shards
/// have a log that was open and is not closed.
pub(crate) fn shut_down(
    running: Running,
    drain_timeout: Duration,
    served: Result<(), String>,
) -> Result<usize, String> {
    running.phase.send_replace(Phase::Draining);
    let now = SystemClock.monotonic();
    let deadline = now.after(drain_timeout);
    // A core that has ended takes no message and needs none.
    for core in &running.cores {
        core.send(Message::Drain { deadline });
    }
    let result = served
        .and_then(|()| wait(&running, deadline.after(CLOSE_TIMEOUT), Step::Drained))
        .and_then(|_| {
            for core in &running.cores {
                core.send(Message::Close);
            }
            let deadline = SystemClock.monotonic().after(CLOSE_TIMEOUT);
            wait(&running, deadline, Step::Ended)
        });
    if result.is_ok() {
        for thread in running.threads {
            // It has said that it ended; its thread is about to.
            drop(thread.join());
        }
        if let Some((data, _)) = &running.storage {
            data.put_reserve_back();
        }
    }
    running.control.end();
    result.map(|unclosed| unclosed.len())
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// No core has connections.
    Drained,
    /// All cores have ended.
    Ended,
}

/// Waits until every core has taken the step. The shards whose logs the cores could not close.
fn wait(running: &Running, deadline: Monotonic, step: Step) -> Result<HashSet<ShardId>, String> {
    let mut unclosed = HashSet::new();
    let mut left = running.cores.len();
    while left > 0 {
        let patience = deadline.until(SystemClock.monotonic());
        let taken = match running.events.recv_timeout(patience) {
            Ok(Event::CoreDrained(_)) => Step::Drained,
            Ok(Event::CoreEnded {
                unclosed: these, ..
            }) => {
                unclosed.extend(these);
                Step::Ended
            }
            Ok(Event::CoreOpened { .. } | Event::ShardReopened { .. } | Event::Signal(_)) => {
                continue;
            }
            Ok(Event::CoreFailed { core, fault }) => {
                return Err(format!("core {core} failed while shutting down: {fault}"));
            }
            Err(_) => return Err(late(left, step)),
        };
        if taken == step {
            left -= 1;
        }
    }
    Ok(unclosed)
}

fn late(cores: usize, step: Step) -> String {
    let what = match step {
        Step::Drained => "let go of their connections",
        Step::Ended => "closed their logs",
    };
    let seconds = CLOSE_TIMEOUT.as_secs();
    format!(
        "{cores} core(s) have not {what} after {seconds} s more than the drain budget; what was \
         acknowledged is recovered at the next start"
    )
}
