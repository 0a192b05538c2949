//! Files that are read anew while the broker runs: all of them on SIGHUP, and each when it has
//! changed. A thread of its own does it, since a file system may hang.

use crate::given_file::GivenFault;
use crate::giving_way::giving_way;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use felix_core::metrics::{Kind, Sample};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Between two looks at the files.
const PERIOD: Duration = Duration::from_secs(1);

/// Looks between a file that could not be read, or written, and the next try, which double up to the
/// second: the cause may pass and leave no trace in the files that are looked at.
const RETRY_LOOKS: u32 = 1;
const RETRY_LOOKS_MAX: u32 = 60;

/// What can be read anew, as the metrics name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    /// The token file.
    Tokens,
    /// Certificate, key and the authority of clients.
    Certificate,
}

impl Subject {
    const ALL: [Self; 2] = [Self::Tokens, Self::Certificate];

    const fn label(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Certificate => "certificate",
        }
    }
}

/// Something that is read from files.
pub(crate) struct Reloadable {
    /// What it is.
    pub(crate) subject: Subject,
    /// Its files: a change of any is looked for.
    pub(crate) paths: Vec<PathBuf>,
    /// Those files as they were before they were read at the start, so that no change is missed.
    pub(crate) read: Stamps,
    /// Reads them and puts what they say in force. On an error all stays as it was.
    pub(crate) reload: Box<dyn FnMut() -> Result<Reloaded, GivenFault> + Send>,
}

/// Files that were read anew, and what they say is in force.
pub(crate) struct Reloaded {
    /// What is to be told of it.
    pub(crate) news: String,
    /// What is left to do, if anything is: tried until it is done, or until the files are read again.
    pub(crate) rest: Option<Rest>,
}

/// Something that may fail, with a sentence, and succeed later.
pub(crate) type Rest = Box<dyn FnMut() -> Result<(), String> + Send>;

/// How often what was read anew. Shared by the thread that reads and the one that tells.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    done: [AtomicU64; Subject::ALL.len()],
    failed: [AtomicU64; Subject::ALL.len()],
}

impl Counts {
    /// As numbers to be shown.
    pub(crate) fn samples(&self, take: &mut dyn FnMut(Sample)) {
        for (name, help, counts) in [
            (
                "felix_reloads_total",
                "Times that files were read anew and what they say was put in force.",
                &self.done,
            ),
            (
                "felix_reload_failures_total",
                "Times that files were read anew and refused; what was in force stayed so.",
                &self.failed,
            ),
        ] {
            for (subject, count) in Subject::ALL.iter().zip(counts) {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "scrapes carry floating-point numbers"
                )]
                let value = count.load(Ordering::Relaxed) as f64;
                let labels = vec![("subject", subject.label().to_owned())];
                take(Sample {
                    name,
                    help,
                    kind: Kind::Counter,
                    labels,
                    value,
                });
            }
        }
    }

    fn count(counts: &[AtomicU64], subject: Subject) {
        let mut all = Subject::ALL.iter().zip(counts);
        let of_subject = all.find(|(known, _)| **known == subject);
        let (_, count) = of_subject.expect("every subject has its count");
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// What tells one state of a file from another; `None`: there is no file.
type Stamp = Option<FileState>;

#[derive(Clone, PartialEq, Eq, Debug)]
struct FileState {
    device: u64,
    inode: u64,
    bytes: u64,
    /// In seconds and nanoseconds.
    modified: (i64, i64),
    /// As well, since rights that are mended modify nothing.
    changed: (i64, i64),
}

/// What tells one state of some files from another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stamps(Vec<Stamp>);

impl Stamps {
    /// What these files are now.
    pub(crate) fn of(paths: &[PathBuf]) -> Self {
        let stamp = |path: &PathBuf| {
            let found = fs::metadata(path).ok()?;
            Some(FileState {
                device: found.dev(),
                inode: found.ino(),
                bytes: found.size(),
                modified: (found.mtime(), found.mtime_nsec()),
                changed: (found.ctime(), found.ctime_nsec()),
            })
        };
        Self(paths.iter().map(stamp).collect())
    }
}

/// A [`Reloadable`], and its files as they were looked at last.
struct Watched {
    what: Reloadable,
    /// When they were read.
    read: Stamps,
    /// At the last look.
    seen: Stamps,
    /// The last reading failed for a cause that may pass.
    retry: Option<Retry>,
    /// What the last reading that did not fail has left.
    left: Option<Left>,
}

/// Files that are to be read once more although they have not changed.
struct Retry {
    pause: Pause,
    /// What the log has already.
    fault: GivenFault,
}

/// What could not be done when files were read.
struct Left {
    rest: Rest,
    pause: Pause,
    /// What the log has already.
    fault: String,
}

/// Looks between a try and the next.
#[derive(Clone, Copy, Debug)]
struct Pause {
    left: u32,
    all: u32,
}

impl Pause {
    const FIRST: Self = Self {
        left: RETRY_LOOKS,
        all: RETRY_LOOKS,
    };

    /// The one after a try that failed again.
    fn longer(self) -> Self {
        let all = (2 * self.all).min(RETRY_LOOKS_MAX);
        Self { left: all, all }
    }

    /// One more look; whether it is time.
    fn is_over(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }
}

/// Asks for everything to be read anew. The thread ends when this is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Hangup(Sender<()>);

impl Hangup {
    /// Somebody sent SIGHUP.
    pub(crate) fn tell(&self) {
        // One that waits already is as good as two.
        if self.0.try_send(()).is_err() {
            tracing::debug!("SIGHUP while files are read anew");
        }
    }
}

/// Starts to look after these.
///
/// # Errors
/// No thread can be had.
pub(crate) fn start(list: Vec<Reloadable>, counts: Arc<Counts>) -> io::Result<Hangup> {
    let (tell, hangups) = crossbeam_channel::bounded(1);
    let mut list: Vec<Watched> = list.into_iter().map(Watched::new).collect();
    giving_way(|| {
        let thread = thread::Builder::new().name("felix-reload".into());
        // It holds nothing that anybody waits for, and ends by itself.
        thread.spawn(move || watch(&mut list, &hangups, &counts))
    })?;
    Ok(Hangup(tell))
}

fn watch(list: &mut [Watched], hangups: &Receiver<()>, counts: &Counts) {
    loop {
        // Where there is nothing to look at nobody wakes up for it.
        let heard = if list.is_empty() {
            hangups.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            hangups.recv_timeout(PERIOD)
        };
        match heard {
            Ok(()) => {
                if list.is_empty() {
                    tracing::info!(
                        "SIGHUP: there is no file that is read anew while the broker runs"
                    );
                } else {
                    tracing::info!("SIGHUP: files are read anew");
                }
                list.iter_mut().for_each(|watched| watched.reload(counts));
            }
            Err(RecvTimeoutError::Timeout) => {
                list.iter_mut().for_each(|watched| watched.look(counts));
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Watched {
    fn new(what: Reloadable) -> Self {
        Self {
            read: what.read.clone(),
            seen: what.read.clone(),
            retry: None,
            left: None,
            what,
        }
    }

    /// Whether the files are others than those that were read, and have been left alone since the
    /// last look: one that is being written is not read.
    fn has_changed(&mut self) -> bool {
        let now = Stamps::of(&self.what.paths);
        let settled = now == self.seen;
        self.seen = now;
        settled && self.seen != self.read
    }

    /// One look at the files: read anew if they have changed, or once more if it is time.
    fn look(&mut self, counts: &Counts) {
        let is_over = |pause: Option<&mut Pause>| pause.is_some_and(Pause::is_over);
        if is_over(self.left.as_mut().map(|left| &mut left.pause)) {
            let left = self.left.take().expect("it has a pause");
            self.left = left.again(self.what.subject);
        }
        if self.has_changed() {
            self.reload(counts);
        } else if is_over(self.retry.as_mut().map(|retry| &mut retry.pause)) {
            self.read(counts);
        }
    }

    /// Reads the files, whatever came of the last time.
    fn reload(&mut self, counts: &Counts) {
        self.retry = None;
        self.read(counts);
    }

    fn read(&mut self, counts: &Counts) {
        // Before they are read: what changes meanwhile is seen at the next look.
        self.read = Stamps::of(&self.what.paths);
        let subject = self.what.subject;
        match (self.what.reload)() {
            Ok(Reloaded { news, rest }) => {
                self.retry = None;
                Counts::count(&counts.done, subject);
                tracing::info!(subject = subject.label(), news, "read anew");
                self.left = rest.and_then(|rest| Left::of(rest, subject));
            }
            Err(fault) => {
                Counts::count(&counts.failed, subject);
                let known = self.retry.take();
                if known.as_ref().is_none_or(|retry| retry.fault != fault) {
                    tracing::error!(
                        subject = subject.label(),
                        %fault,
                        "could not be read anew; what was in force stays so"
                    );
                }
                self.retry = Retry::after(known, fault);
            }
        }
    }
}

impl Retry {
    /// When to read again after this fault; `None`: not before the file changes.
    fn after(last: Option<Self>, fault: GivenFault) -> Option<Self> {
        if matches!(fault, GivenFault::Refused(_)) {
            return None;
        }
        let pause = last.map_or(Pause::FIRST, |last| last.pause.longer());
        Some(Self { pause, fault })
    }
}

impl Left {
    /// Does it at once; what is left of it.
    fn of(mut rest: Rest, subject: Subject) -> Option<Self> {
        let fault = rest().err()?;
        tell_left(subject, &fault);
        Some(Self {
            rest,
            pause: Pause::FIRST,
            fault,
        })
    }

    /// Does it once more; what is left of it.
    fn again(mut self, subject: Subject) -> Option<Self> {
        let Err(fault) = (self.rest)() else {
            tracing::info!(
                subject = subject.label(),
                "written, after it could not be for a while"
            );
            return None;
        };
        if fault != self.fault {
            tell_left(subject, &fault);
        }
        Some(Self {
            rest: self.rest,
            pause: self.pause.longer(),
            fault,
        })
    }
}

fn tell_left(subject: Subject, fault: &str) {
    tracing::error!(
        subject = subject.label(),
        fault,
        "what was read is in force, and not written for clients; it is tried again"
    );
}

impl fmt::Debug for Reloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloaded")
            .field("news", &self.news)
            .field("is_whole", &self.rest.is_none())
            .finish()
    }
}

impl fmt::Debug for Reloadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloadable")
            .field("subject", &self.subject)
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn watched(path: PathBuf, outcome: Result<&'static str, GivenFault>) -> Watched {
        Watched::new(Reloadable {
            subject: Subject::Tokens,
            read: Stamps::of(std::slice::from_ref(&path)),
            paths: vec![path],
            reload: Box::new(move || outcome.clone().map(news)),
        })
    }

    fn news(text: &str) -> Reloaded {
        Reloaded {
            news: text.to_owned(),
            rest: None,
        }
    }

    fn counted(counts: &Counts) -> Vec<f64> {
        let mut values = Vec::new();
        counts.samples(&mut |sample| values.push(sample.value));
        values
    }

    #[test]
    fn a_file_is_read_anew_once_after_it_has_changed_and_was_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "1").unwrap();
        let mut watched = watched(path.clone(), Ok("news"));
        let counts = Counts::default();
        assert!(!watched.has_changed());
        fs::write(&path, "22").unwrap();
        assert!(!watched.has_changed(), "it may still be written");
        fs::write(&path, "333").unwrap();
        assert!(!watched.has_changed(), "it is");
        assert!(watched.has_changed());
        watched.reload(&counts);
        assert!(!watched.has_changed());
        // As a new file under the old name, of the same length and perhaps within the same tick.
        let other = directory.path().join("other");
        fs::write(&other, "444").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(!watched.has_changed());
        assert!(watched.has_changed());
        // It goes, and comes back.
        fs::remove_file(&path).unwrap();
        watched.reload(&counts);
        assert!(!watched.has_changed());
        assert_eq!(counted(&counts), [2.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn rights_that_are_mended_are_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "1").unwrap();
        let before = Stamps::of(std::slice::from_ref(&path));
        // The clock of a file system may tick a hundred times a second.
        let tick = crossbeam_channel::after(Duration::from_millis(30));
        tick.recv().unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_ne!(Stamps::of(&[path]), before);
    }

    /// The looks, of so many, at which files that do not change are read.
    fn read_at(fault: GivenFault, looks: u32) -> Vec<u32> {
        let counts = Counts::default();
        let mut watched = watched("nowhere".into(), Err(fault));
        watched.reload(&counts);
        let failed = |counts: &Counts| counts.failed[0].load(Ordering::Relaxed);
        let read = |look: &u32| {
            let before = failed(&counts);
            watched.look(&counts);
            assert!(failed(&counts) <= before + 1, "at look {look}");
            failed(&counts) > before
        };
        (1..=looks).filter(read).collect()
    }

    #[test]
    fn what_could_not_be_read_is_tried_again_less_and_less_often_and_what_is_bad_is_not() {
        let unread = GivenFault::Unread("no device".into());
        let expected = [1, 3, 7, 15, 31, 63, 123, 183, 243];
        assert_eq!(read_at(unread, 300), expected);
        let refused = GivenFault::Refused("no token file".into());
        assert_eq!(read_at(refused, 300), [0; 0]);
    }

    #[test]
    fn a_cause_that_passes_leaves_nothing_to_try_again() {
        let counts = Counts::default();
        let mut outcomes = vec![Ok(""), Err(GivenFault::Unread("busy".into()))];
        let mut watched = watched("nowhere".into(), Ok(""));
        watched.what.reload = Box::new(move || outcomes.pop().expect("it is read twice").map(news));
        watched.reload(&counts);
        for _ in 0..100 {
            watched.look(&counts);
        }
        assert_eq!(counted(&counts), [1.0, 0.0, 1.0, 0.0]);
    }

    /// What is left to do after each reading, until a try of that number, and how often it was tried.
    fn with_rest(watched: &mut Watched, fails: usize) -> Arc<AtomicU64> {
        let tries = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&tries);
        watched.what.reload = Box::new(move || {
            let counted = Arc::clone(&counted);
            let mut outcomes = std::iter::repeat_n(Err("no directory".to_owned()), fails);
            Ok(Reloaded {
                news: String::new(),
                rest: Some(Box::new(move || {
                    counted.fetch_add(1, Ordering::Relaxed);
                    outcomes.next().unwrap_or(Ok(()))
                })),
            })
        });
        tries
    }

    #[test]
    fn what_is_left_to_do_is_tried_less_and_less_often_until_it_is_done_and_nothing_is_read_for_it()
    {
        let counts = Counts::default();
        let mut watched = watched("nowhere".into(), Ok(""));
        let tries = with_rest(&mut watched, 4);
        watched.reload(&counts);
        let tried = || tries.load(Ordering::Relaxed);
        assert_eq!(tried(), 1, "at once");
        let mut tried_at = Vec::new();
        for look in 1..100 {
            let before = tried();
            watched.look(&counts);
            tried_at.extend((tried() > before).then_some(look));
        }
        assert_eq!(tried_at, [1, 3, 7, 15]);
        assert_eq!(counted(&counts), [1.0, 0.0, 0.0, 0.0], "read once");
    }

    #[test]
    fn what_a_reading_left_to_do_is_not_done_after_the_next_one() {
        let counts = Counts::default();
        let mut watched = watched("nowhere".into(), Ok(""));
        let old = with_rest(&mut watched, 100);
        watched.reload(&counts);
        let new = with_rest(&mut watched, 0);
        watched.reload(&counts);
        for _ in 0..100 {
            watched.look(&counts);
        }
        assert_eq!(
            [old, new].map(|tries| tries.load(Ordering::Relaxed)),
            [1, 1]
        );
    }

    #[test]
    fn what_is_refused_is_counted_by_itself() {
        let counts = Counts::default();
        let refused = GivenFault::Refused("a fault".into());
        watched("nowhere".into(), Err(refused)).reload(&counts);
        watched("nowhere".into(), Ok("news")).reload(&counts);
        assert_eq!(counted(&counts), [1.0, 0.0, 1.0, 0.0]);
    }
}
