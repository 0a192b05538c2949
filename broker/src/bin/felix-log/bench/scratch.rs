//! The one directory that is written to: made fresh, and gone afterwards.

use crate::output::Trouble;
use felix_shard::log::inspect;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A directory that is removed with all that is in it when this is dropped, or the process is asked
/// to end.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    made: Cell<u64>,
}

impl Scratch {
    /// Makes one in `dir`, which has to be there and be no broker's.
    pub(crate) fn make(dir: &Path) -> Result<Self, Trouble> {
        let shown = dir.display();
        if !dir.is_dir() {
            return Err(Trouble::NotOurs(format!("{shown} is not a directory")));
        }
        if inspect::is_shard(dir) || dir.join("streams").is_dir() {
            return Err(Trouble::NotOurs(format!(
                "{shown} holds logs; name another directory, on the same file system"
            )));
        }
        // A process that was killed may have left one of the same name.
        let names =
            (0..1000).map(|number| format!("felix-log-bench-{}-{number}", std::process::id()));
        for name in names {
            let path = dir.join(name);
            match fs::create_dir(&path) {
                Ok(()) => {
                    remove_when_asked_to_end(path.clone())
                        .map_err(|cause| Trouble::Unreadable(format!("no signals: {cause}")))?;
                    return Ok(Self {
                        path,
                        made: Cell::new(0),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(Trouble::Unreadable(format!(
                        "no directory can be made in {shown}: {error}"
                    )));
                }
            }
        }
        Err(Trouble::Unreadable(format!("{shown} is full of leftovers")))
    }

    /// A new directory in it, which goes when it is dropped. What was written and removed before is
    /// on the device by then, and not on its way there beside what is measured next.
    pub(crate) fn fresh(&self) -> Result<Fresh, String> {
        let path = self.path.join(self.made.get().to_string());
        self.made.set(self.made.get() + 1);
        fs::create_dir(&path)
            .and_then(|()| File::open(&path))
            .and_then(|dir| Ok(rustix::fs::syncfs(dir)?))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Fresh { path })
    }
}

/// A directory that is removed with all that is in it when this is dropped.
#[derive(Debug)]
pub(crate) struct Fresh {
    path: PathBuf,
}

impl Deref for Fresh {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a directory of ours and what is in it.
fn remove(path: &Path) {
    // Whoever still writes there may add files meanwhile.
    for _ in 0..10 {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {}
            Ok(()) | Err(_) => return,
        }
    }
    crate::output::complain(&format_args!("{} could not be removed", path.display()));
}

/// Set once the process was asked to end and its files go.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Whether whatever fails now does so because of that.
pub(crate) fn is_ending() -> bool {
    ENDING.load(Ordering::Acquire)
}

fn remove_when_asked_to_end(path: PathBuf) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                ENDING.store(true, Ordering::Release);
                remove(&path);
                std::process::exit(128 + signal);
            }
        })?;
    Ok(())
}
