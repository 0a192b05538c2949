//! What the broker needs of the kernel and of its limits, asked before anything starts. Each
//! refusal is a sentence that names the cause and the cure.

use rustix::io::Errno;
use rustix::io_uring::{io_uring_params, io_uring_setup};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::system::uname;
use signal_hook::consts::SIGXFSZ;
use std::fmt;
use std::fs;
use std::sync::Arc;

/// The oldest kernel: glommio's rings use operations that came with Linux 5.8, and it ends the
/// process where one is missing.
const KERNEL_MIN: (u32, u32) = (5, 8);

/// Locked memory glommio insists on, whatever it uses.
const MEMLOCK_BYTES_MIN: u64 = 512 << 10;

/// Locked memory of one core: three rings that each register its 64 KiB of I/O memory, and before
/// Linux 5.12 the rings themselves.
const MEMLOCK_BYTES_PER_CORE: u64 = 256 << 10;

/// Files a core holds: rings, epoll sets, eventfds, listeners.
const FILES_PER_CORE: u64 = 24;

/// Files of the process as a whole: logs, the HTTP listener and its connections.
const FILES_OF_PROCESS: u64 = 256;

/// Files that one shard may need at the same time, whatever is closed to make room: the segment that
/// grows, and the space that is prepared for it. Old segments and indexes share what is left.
const FILES_PER_SHARD: u64 = 2;

/// Whether a ring can be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IoUring {
    /// It can.
    Works,
    /// The kernel answers with this error.
    Fails(Errno),
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Readings {
    /// The kernel's release, such as `6.1.0-13-amd64`.
    pub(crate) kernel: String,
    /// The answer to a call of io_uring_setup.
    pub(crate) io_uring: IoUring,
    /// The value of `kernel.io_uring_disabled`, where the kernel has it.
    pub(crate) io_uring_disabled: Option<u32>,
    /// The limit of locked memory, bytes; `None`: none.
    pub(crate) memlock_bytes: Option<u64>,
    /// The limit of open files; `None`: none.
    pub(crate) files: Option<u64>,
    /// The limit of a file's size, bytes; `None`: none.
    pub(crate) file_bytes: Option<u64>,
}

/// What the broker is about to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Needs {
    /// Cores.
    pub(crate) cores: u64,
    /// Connections at once, over all listeners.
    pub(crate) connections: u64,
    /// Shards of the catalog.
    pub(crate) shards: u64,
    /// Bytes of the largest file.
    pub(crate) file_bytes: u64,
}

/// Room that the limits leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    /// Shards that fit beside the connections; `None`: no limit.
    pub(crate) shards: Option<u64>,
    /// Files of logs that each core may keep open; `None`: no limit.
    pub(crate) files_per_core: Option<usize>,
}

/// Why the broker does not start here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// Too old, or not understood.
    Kernel(String),
    /// Switched off for everybody.
    IoUringDisabled(u32),
    /// Refused to this process.
    IoUringForbidden,
    /// Not there.
    IoUringMissing,
    /// Another error.
    IoUring(Errno),
    /// Too little locked memory.
    Memlock {
        /// The limit.
        bytes: u64,
        /// What is needed.
        needed: u64,
    },
    /// Too few open files.
    Files {
        /// The limit.
        files: u64,
        /// What is needed.
        needed: u64,
    },
    /// Files may not be as large as a segment.
    FileSize {
        /// The limit.
        bytes: u64,
        /// What is needed.
        needed: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = KERNEL_MIN;
        match self {
            Self::Kernel(release) => write!(
                f,
                "the kernel is {release}, and the broker's I/O needs Linux {major}.{minor} or \
                 later; run it on a newer kernel"
            ),
            Self::IoUringDisabled(value) => write!(
                f,
                "io_uring is switched off on this machine (kernel.io_uring_disabled = {value}); \
                 allow it with `sysctl -w kernel.io_uring_disabled=0`"
            ),
            Self::IoUringForbidden => write!(
                f,
                "this process may not use io_uring: a seccomp profile or security module forbids \
                 it, as container runtimes do by default; allow io_uring_setup, io_uring_enter \
                 and io_uring_register in the profile (Docker: `--security-opt seccomp=...`; \
                 Kubernetes: `seccompProfile`)"
            ),
            Self::IoUringMissing => write!(
                f,
                "the kernel has no io_uring, or a seccomp profile hides it; use a kernel built \
                 with CONFIG_IO_URING, and allow io_uring_setup, io_uring_enter and \
                 io_uring_register in the profile"
            ),
            Self::IoUring(error) => {
                write!(
                    f,
                    "the kernel makes no io_uring: {error}; the broker cannot do I/O here"
                )
            }
            Self::Memlock { bytes, needed } => write!(
                f,
                "{bytes} bytes of memory may be locked, and the cores need {needed}; raise the \
                 limit (`ulimit -l {}`; systemd: LimitMEMLOCK; Docker: `--ulimit memlock=-1`) or \
                 use fewer FELIX_CORES",
                needed.div_ceil(1024)
            ),
            Self::Files { files, needed } => write!(
                f,
                "{files} files may be open, and this catalog with its connections needs {needed}; \
                 raise the limit (`ulimit -Hn {needed}`; systemd: LimitNOFILE; Docker: `--ulimit \
                 nofile={needed}`) or lower FELIX_KAFKA_MAX_CONNECTIONS"
            ),
            Self::FileSize { bytes, needed } => write!(
                f,
                "a file may have {bytes} bytes, and log files get up to {needed}; raise the limit \
                 (`ulimit -f unlimited`; systemd: LimitFSIZE) or lower FELIX_DURABLE_SEGMENT_BYTES"
            ),
        }
    }
}

impl std::error::Error for Refusal {}

/// Judges what was found.
///
/// # Errors
/// The first thing that would not work.
pub(crate) fn judge(readings: &Readings, needs: Needs) -> Result<Room, Refusal> {
    if version(&readings.kernel).is_none_or(|version| version < KERNEL_MIN) {
        return Err(Refusal::Kernel(readings.kernel.clone()));
    }
    // Before the ring: a limit that is too low is also why the kernel makes none.
    let memlock_needed = MEMLOCK_BYTES_MIN.max(needs.cores * MEMLOCK_BYTES_PER_CORE);
    if let Some(bytes) = readings
        .memlock_bytes
        .filter(|bytes| *bytes < memlock_needed)
    {
        return Err(Refusal::Memlock {
            bytes,
            needed: memlock_needed,
        });
    }
    if let IoUring::Fails(error) = readings.io_uring {
        return Err(ring_refusal(error, readings.io_uring_disabled));
    }
    // The kernel would kill the process with a signal.
    if let Some(bytes) = readings
        .file_bytes
        .filter(|bytes| *bytes < needs.file_bytes)
    {
        return Err(Refusal::FileSize {
            bytes,
            needed: needs.file_bytes,
        });
    }
    let fixed = FILES_OF_PROCESS + needs.cores * FILES_PER_CORE + needs.connections;
    let needed = fixed + needs.shards * FILES_PER_SHARD;
    if let Some(files) = readings.files.filter(|files| *files < needed) {
        return Err(Refusal::Files { files, needed });
    }
    Ok(Room {
        shards: readings
            .files
            .map(|files| (files - fixed) / FILES_PER_SHARD),
        files_per_core: readings.files.map(|files| {
            usize::try_from((files - fixed) / needs.cores.max(1)).unwrap_or(usize::MAX)
        }),
    })
}

fn ring_refusal(error: Errno, disabled: Option<u32>) -> Refusal {
    match (error, disabled) {
        // 1: for processes without CAP_SYS_ADMIN and outside kernel.io_uring_group; 2: for all.
        (Errno::PERM, Some(value @ 1..)) => Refusal::IoUringDisabled(value),
        (Errno::PERM | Errno::ACCESS, _) => Refusal::IoUringForbidden,
        (Errno::NOSYS, _) => Refusal::IoUringMissing,
        (other, _) => Refusal::IoUring(other),
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Reads the kernel and the limits, which it first raises as far as this process may. From then on the
/// process outlives files that reach the limit of their size.
#[must_use]
pub(crate) fn read() -> Readings {
    outlive_large_files();
    Readings {
        kernel: uname().release().to_string_lossy().into_owned(),
        io_uring: try_ring(),
        io_uring_disabled: fs::read_to_string("/proc/sys/kernel/io_uring_disabled")
            .ok()
            .and_then(|text| text.trim().parse().ok()),
        memlock_bytes: raise(Resource::Memlock),
        files: raise(Resource::Nofile),
        file_bytes: raise(Resource::Fsize),
    }
}

/// Has the write to a file that is as large as files may be fail, which the log of one shard knows to deal
/// with. The signal would end the process, and still does where it cannot be caught.
fn outlive_large_files() {
    if let Err(error) = signal_hook::flag::register(SIGXFSZ, Arc::default()) {
        tracing::warn!(%error, "SIGXFSZ cannot be caught: a file that reaches its limit ends the process");
    }
}

/// Raises a limit to its maximum; what it then is.
fn raise(resource: Resource) -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(resource);
    match setrlimit(
        resource,
        Rlimit {
            current: maximum,
            maximum,
        },
    ) {
        Ok(()) => maximum,
        // The old limit still stands; whether it is enough is judged like any other.
        Err(_) => current,
    }
}

#[expect(
    unsafe_code,
    reason = "only the kernel knows whether it lets this process make a ring"
)]
fn try_ring() -> IoUring {
    let mut params = io_uring_params::default();
    // SAFETY: `params` is a valid, zeroed io_uring_params that outlives the call, and asks for
    // nothing that the kernel would keep a pointer to. The ring is closed at once.
    match unsafe { io_uring_setup(2, &mut params) } {
        Ok(ring) => {
            drop(ring);
            IoUring::Works
        }
        Err(error) => IoUring::Fails(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Readings {
        Readings {
            kernel: "6.1.0-13-amd64".into(),
            io_uring: IoUring::Works,
            io_uring_disabled: Some(0),
            memlock_bytes: Some(8 << 20),
            files: Some(20_000),
            file_bytes: None,
        }
    }

    const NEEDS: Needs = Needs {
        cores: 2,
        connections: 1024,
        shards: 3,
        file_bytes: 256 << 20,
    };

    fn sentence(change: impl FnOnce(&mut Readings)) -> String {
        let mut readings = good();
        change(&mut readings);
        judge(&readings, NEEDS).unwrap_err().to_string()
    }

    #[test]
    fn a_machine_that_does_is_told_how_many_shards_fit() {
        let fixed = 256 + 2 * 24 + 1024;
        assert_eq!(
            judge(&good(), NEEDS),
            Ok(Room {
                shards: Some((20_000 - fixed) / 2),
                files_per_core: Some(usize::try_from((20_000 - fixed) / 2).unwrap()),
            })
        );
        let unlimited = Readings {
            memlock_bytes: None,
            files: None,
            ..good()
        };
        assert_eq!(
            judge(&unlimited, NEEDS),
            Ok(Room {
                shards: None,
                files_per_core: None
            })
        );
    }

    #[test]
    fn an_old_kernel_is_refused_by_name() {
        for kernel in ["5.7.19", "4.19.0-amd64", "3.10", "plan9"] {
            let sentence = sentence(|readings| readings.kernel = kernel.into());
            assert!(
                sentence.contains(kernel) && sentence.contains("5.8"),
                "{sentence}"
            );
        }
        for kernel in ["5.8.0", "5.10.0-28-amd64", "10.0.1"] {
            assert!(
                judge(
                    &Readings {
                        kernel: kernel.into(),
                        ..good()
                    },
                    NEEDS
                )
                .is_ok()
            );
        }
    }

    #[test]
    fn each_way_to_lack_io_uring_has_its_own_cure() {
        let disabled = sentence(|readings| {
            readings.io_uring = IoUring::Fails(Errno::PERM);
            readings.io_uring_disabled = Some(2);
        });
        assert!(
            disabled.contains("kernel.io_uring_disabled=0"),
            "{disabled}"
        );
        let seccomp = sentence(|readings| readings.io_uring = IoUring::Fails(Errno::PERM));
        assert!(seccomp.contains("seccomp"), "{seccomp}");
        let missing = sentence(|readings| readings.io_uring = IoUring::Fails(Errno::NOSYS));
        assert!(missing.contains("CONFIG_IO_URING"), "{missing}");
        let other = sentence(|readings| readings.io_uring = IoUring::Fails(Errno::NOMEM));
        assert!(other.contains("io_uring"), "{other}");
    }

    #[test]
    fn limits_that_are_too_low_are_refused_with_the_value_that_does() {
        // As the kernel answers then: the limit is the cause, the ring only where it shows.
        let memlock = sentence(|readings| {
            readings.memlock_bytes = Some(65_536);
            readings.io_uring = IoUring::Fails(Errno::NOMEM);
        });
        assert!(
            memlock.contains("65536 bytes") && memlock.contains("ulimit -l 512"),
            "{memlock}"
        );
        let files = sentence(|readings| readings.files = Some(1024));
        assert!(
            files.contains("1024 files") && files.contains("nofile=1334"),
            "{files}"
        );
    }

    #[test]
    fn files_that_may_not_be_as_large_as_a_segment_are_refused_with_both_sizes() {
        let limited = |bytes| Readings {
            file_bytes: Some(bytes),
            ..good()
        };
        assert!(judge(&limited(NEEDS.file_bytes), NEEDS).is_ok());
        let refused = judge(&limited(NEEDS.file_bytes - 1), NEEDS);
        let sentence = refused.unwrap_err().to_string();
        assert!(
            sentence.contains("a file may have 268435455 bytes"),
            "{sentence}"
        );
        assert!(
            sentence.contains("FELIX_DURABLE_SEGMENT_BYTES"),
            "{sentence}"
        );
    }

    #[test]
    fn many_cores_need_more_locked_memory() {
        let readings = Readings {
            memlock_bytes: Some(4 << 20),
            ..good()
        };
        assert!(judge(&readings, Needs { cores: 16, ..NEEDS }).is_ok());
        let refused = judge(&readings, Needs { cores: 17, ..NEEDS });
        assert!(matches!(refused, Err(Refusal::Memlock { .. })));
    }

    #[test]
    fn this_machine_can_be_read() {
        let readings = read();
        assert!(version(&readings.kernel).is_some());
    }
}
