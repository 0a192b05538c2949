//! What a panic leaves: the end of the process, who did it, and a note of that beside the shard.

use crate::clock::SystemClock;
use felix_core::Clock;
use felix_shard::Suspect;
use std::io::{self, Write};
use std::panic::{self, PanicHookInfo};
use std::process::abort;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// How long last words may take, on a pipe nobody reads or a disk that is stuck: other cores go on
/// meanwhile.
const LAST_WORDS_MAX: Duration = Duration::from_secs(10);

/// A panic is our own fault, and whatever it left half done must not be served: it ends the
/// process, whichever way the program was built.
pub(crate) fn abort_on_panic() {
    panic::set_hook(Box::new(|panic| {
        end_in_time();
        last_words(panic);
        abort();
    }));
}

/// The thread's name says which core it was. The line goes straight to standard error, since the
/// log's thread would not get to it.
fn last_words(panic: &PanicHookInfo<'_>) {
    let suspect = Suspect::of_this_thread();
    let thread = thread::current();
    let name = thread.name().unwrap_or("a side thread");
    let at_work = suspect.as_ref().map_or(String::new(), |suspect| {
        let (shard, directory) = (suspect.name(), suspect.directory().display());
        format!(", at work for shard {shard} in {directory}")
    });
    let backtrace = std::backtrace::Backtrace::force_capture();
    complain(&format!("panic on {name}{at_work}: {panic}\n{backtrace}"));
    if let Some(suspect) = suspect
        && let Err(error) = suspect.note_crash(SystemClock.wall())
    {
        complain(&format!(
            "this crash could not be noted beside the shard, and will not count: {error}"
        ));
    }
}

fn complain(what: &str) {
    // Nothing is left to be done about a standard error that is closed.
    drop(writeln!(io::stderr(), "felix-broker: {what}"));
}

/// Ends the process in a while, whatever this thread is held up by.
fn end_in_time() {
    let end = || {
        let (_held, never) = channel::<()>();
        if never.recv_timeout(LAST_WORDS_MAX).is_err() {
            abort();
        }
    };
    // Where no thread can be had it ends with the last words.
    drop(thread::Builder::new().name("felix-end".into()).spawn(end));
}

/// Has this thread, a core's, panic where a test wants it to.
#[cfg(debug_assertions)]
pub(crate) fn set_tripwire() {
    if let Ok(shard) = std::env::var("FELIX_TESTS_STUMBLE_OVER") {
        felix_shard::tripwire::stumble_over(shard);
    }
}
