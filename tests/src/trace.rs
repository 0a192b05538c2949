//! What the kernel saw a process do, in the order it happened: system calls that write and send,
//! and the life of each request on an io_uring. From the tracepoints of the kernel itself
//! (tracefs), which see what no debugger of system calls can: when a request on a ring is done.

use crate::scale::is_strict;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const TRACEFS: &str = "/sys/kernel/tracing";
/// Per processor; a run that needs more is found out.
const BUFFER_KIB: &str = "32768";
/// Calls that put bytes into a file at a place.
const WRITES: [&str; 2] = ["pwrite64", "pwritev"];
/// Calls that put bytes into a socket. Not `write`: a file may have had the number of a connection
/// just before.
const SENDS: [&str; 3] = ["sendmsg", "sendto", "sendmmsg"];

/// A trace being taken. What it set up in the kernel goes with it.
#[derive(Debug)]
pub struct Tracing {
    dir: PathBuf,
}

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A thread asks to write or send.
    Call {
        /// The thread.
        thread: i32,
        /// The call's name.
        call: String,
        /// What it writes to.
        descriptor: i32,
        /// Where in the file, if the call says so.
        position: Option<u64>,
    },
    /// The call of that thread is done.
    Return {
        /// The thread.
        thread: i32,
        /// The call's name.
        call: String,
        /// Bytes, or an error below 0.
        value: i64,
    },
    /// A ring took a request.
    Submitted {
        /// Ring and request; the pair means another request once it is completed.
        request: Request,
        /// As the kernel names it: `FSYNC`.
        operation: String,
    },
    /// What the request is about.
    About {
        /// Ring and request.
        request: Request,
        /// The file.
        descriptor: i32,
    },
    /// The request is done and the process may know it.
    Completed {
        /// Ring and request.
        request: Request,
        /// 0 or more, or an error below 0.
        result: i64,
    },
}

/// The kernel's names for a ring and a request on it.
pub type Request = (String, String);

/// A system call from beginning to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Done {
    /// Its place in the order of events.
    pub begin: usize,
    /// The place of its end.
    pub end: usize,
    /// Where in the file, if the call says so.
    pub position: Option<u64>,
    /// Bytes, or an error below 0.
    pub value: i64,
}

/// A request on a ring from submission to completion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ringed {
    /// Its place in the order of events.
    pub begin: usize,
    /// The place of its end.
    pub end: usize,
    /// 0 or more, or an error below 0.
    pub result: i64,
}

/// Everything that happened, in order.
#[derive(Debug)]
pub struct Trace(Vec<Event>);

impl Tracing {
    /// Begins to trace the threads that the process has now.
    ///
    /// # Errors
    /// Why it cannot be done here: not root, or a kernel without the tracepoints.
    pub fn start(pid: i32) -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        mount()?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("felix-tests-{}-{number}", std::process::id());
        let dir = Path::new(TRACEFS).join("instances").join(name);
        fs::create_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let tracing = Self { dir };
        tracing.set("buffer_size_kb", BUFFER_KIB)?;
        // The one clock that never disagrees between processors about what came first.
        tracing.set("trace_clock", "global")?;
        let threads = threads(pid)?;
        for call in WRITES.into_iter().chain(SENDS) {
            for side in ["enter", "exit"] {
                let event = format!("events/syscalls/sys_{side}_{call}");
                tracing.set(&format!("{event}/filter"), &threads)?;
                tracing.set(&format!("{event}/enable"), "1")?;
            }
        }
        tracing.set("events/io_uring/io_uring_submit_req/filter", &threads)?;
        // Workers of the kernel complete requests, so a filter by thread would lose some here. Those
        // of other processes are told by their submissions, which are not in the trace.
        for event in ["submit_req", "file_get", "complete"] {
            tracing.set(&format!("events/io_uring/io_uring_{event}/enable"), "1")?;
        }
        Ok(tracing)
    }

    fn set(&self, file: &str, value: &str) -> Result<(), String> {
        let path = self.dir.join(file);
        fs::write(&path, value).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn get(&self, file: &str) -> String {
        let read = fs::read(self.dir.join(file)).expect("what was set up can be read");
        String::from_utf8_lossy(&read).into_owned()
    }

    /// Ends the trace; panics if the kernel had no room for all of it.
    #[must_use]
    pub fn stop(self) -> Trace {
        self.set("tracing_on", "0").expect("it was on");
        for processor in fs::read_dir(self.dir.join("per_cpu")).expect("there are processors") {
            let processor = processor.expect("the folder can be read").file_name();
            let stats = self.get(&format!("per_cpu/{}/stats", processor.display()));
            for lost in ["overrun: ", "commit overrun: ", "dropped events: "] {
                let count = stats.lines().find_map(|line| line.strip_prefix(lost));
                assert_eq!(count, Some("0"), "{lost}of {processor:?}: {stats}");
            }
        }
        let text = self.get("trace");
        Trace(text.lines().filter_map(parse).collect())
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        // Fails while another reads it; then it stays until the machine restarts, switched off.
        drop(self.set("tracing_on", "0"));
        drop(fs::remove_dir(&self.dir));
    }
}

impl Trace {
    /// Everything, in order.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.0
    }

    /// The writes at places of a file that ended, in the order of their beginnings.
    #[must_use]
    pub fn writes(&self, descriptor: i32) -> Vec<Done> {
        self.calls(Some(descriptor), &WRITES)
    }

    /// The same of all files: a thread beside a core has a descriptor of its own.
    #[must_use]
    pub fn writes_of_all(&self) -> Vec<Done> {
        self.calls(None, &WRITES)
    }

    /// The sends into a socket that ended, in the order of their beginnings.
    #[must_use]
    pub fn sends(&self, descriptor: i32) -> Vec<Done> {
        self.calls(Some(descriptor), &SENDS)
    }

    /// Calls with the descriptor, or with any.
    fn calls(&self, wanted: Option<i32>, names: &[&str]) -> Vec<Done> {
        let mut open: HashMap<i32, (usize, Option<u64>)> = HashMap::new();
        let mut done = Vec::new();
        for (place, event) in self.0.iter().enumerate() {
            match event {
                Event::Call {
                    thread,
                    call,
                    descriptor,
                    position,
                } => {
                    open.remove(thread);
                    let is_wanted = wanted.is_none_or(|wanted| *descriptor == wanted);
                    if is_wanted && names.contains(&call.as_str()) {
                        open.insert(*thread, (place, *position));
                    }
                }
                Event::Return { thread, value, .. } => {
                    if let Some((begin, position)) = open.remove(thread) {
                        done.push(Done {
                            begin,
                            end: place,
                            position,
                            value: *value,
                        });
                    }
                }
                Event::Submitted { .. } | Event::About { .. } | Event::Completed { .. } => {}
            }
        }
        done
    }

    /// The flushes of a file that ended, in the order of their ends.
    #[must_use]
    pub fn flushes(&self, descriptor: i32) -> Vec<Ringed> {
        self.ringed("FSYNC", descriptor)
    }

    /// The reads of a file on a ring that ended, in the order of their ends.
    #[must_use]
    pub fn reads(&self, descriptor: i32) -> Vec<Ringed> {
        self.ringed("READ", descriptor)
    }

    /// How many requests of one kind the process gave to its rings, whatever they are about.
    #[must_use]
    pub fn submitted(&self, wanted: &str) -> usize {
        let is_one = |event: &&Event| matches!(event, Event::Submitted { operation, .. } if operation == wanted);
        self.0.iter().filter(is_one).count()
    }

    fn ringed(&self, wanted: &str, descriptor: i32) -> Vec<Ringed> {
        let mut open: HashMap<&Request, (usize, Option<i32>)> = HashMap::new();
        let mut done = Vec::new();
        for (place, event) in self.0.iter().enumerate() {
            match event {
                Event::Submitted { request, operation } if operation == wanted => {
                    open.insert(request, (place, None));
                }
                Event::About {
                    request,
                    descriptor,
                } => {
                    if let Some((_, about)) = open.get_mut(request) {
                        *about = Some(*descriptor);
                    }
                }
                Event::Completed { request, result } => match open.remove(request) {
                    Some((begin, Some(about))) if about == descriptor => done.push(Ringed {
                        begin,
                        end: place,
                        result: *result,
                    }),
                    Some(_) | None => {}
                },
                Event::Submitted { .. } | Event::Call { .. } | Event::Return { .. } => {}
            }
        }
        done
    }
}

/// Says that a test cannot trace here and why, and that it proves nothing. Panics where it must.
pub fn not_checked(what: &str, reason: &str) {
    assert!(!is_strict(), "tracing is impossible here: {reason}");
    // Past the harness, which swallows what a passed test prints.
    let warning = format!("\nNOT CHECKED: {what}: tracing is impossible here: {reason}\n");
    std::io::stderr()
        .write_all(warning.as_bytes())
        .expect("a warning can be printed");
}

/// Sees to it that the kernel shows its tracepoints.
fn mount() -> Result<(), String> {
    if Path::new(TRACEFS).join("instances").is_dir() {
        return Ok(());
    }
    let mounted = Command::new("mount")
        .args(["-t", "tracefs", "tracefs", TRACEFS])
        .output()
        .map_err(|error| format!("mount: {error}"))?;
    if mounted.status.success() {
        Ok(())
    } else {
        let said = String::from_utf8_lossy(&mounted.stderr);
        Err(format!("{TRACEFS} is not there and cannot be: {said}"))
    }
}

/// A filter that lets the threads of a process pass.
fn threads(pid: i32) -> Result<String, String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let mut filter = String::new();
    for task in tasks.map_err(|error| format!("process {pid}: {error}"))? {
        let task = task.map_err(|error| error.to_string())?.file_name();
        let or = if filter.is_empty() { "" } else { " || " };
        write!(filter, "{or}common_pid == {}", task.display()).expect("a string takes everything");
    }
    Ok(filter)
}

/// `  felix-core-0-264   [000] .....  4880.745992: sys_sendmsg(fd: 0x1c, msg: 0x7f, flags: 0x40)`
fn parse(line: &str) -> Option<Event> {
    let (task, rest) = line.split_once(" [")?;
    let thread = task.trim_end().rsplit_once('-')?.1.parse().ok()?;
    let (_, what) = rest.split_once(": ")?;
    if let Some(call) = what.strip_prefix("sys_") {
        return parse_call(thread, call);
    }
    let (event, fields) = what.split_once(": ")?;
    let field = |name: &str| {
        let fields = fields.split(", ");
        let found = fields.filter_map(|field| field.trim().split_once(' '));
        let mut found = found.filter(|(found, _)| *found == name);
        found.next().map(|(_, value)| value.to_owned())
    };
    let request = (field("ring")?, field("req")?);
    match event {
        "io_uring_submit_req" => Some(Event::Submitted {
            request,
            operation: field("opcode")?,
        }),
        "io_uring_file_get" => Some(Event::About {
            request,
            descriptor: field("fd")?.parse().ok()?,
        }),
        "io_uring_complete" => Some(Event::Completed {
            request,
            result: field("result")?.parse().ok()?,
        }),
        _ => None,
    }
}

fn parse_call(thread: i32, text: &str) -> Option<Event> {
    let hex = |text: &str| {
        let digits = text.trim().trim_end_matches(')');
        u64::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).ok()
    };
    if let Some((call, value)) = text.split_once(" -> ") {
        return Some(Event::Return {
            thread,
            call: call.to_owned(),
            value: hex(value)?.cast_signed(),
        });
    }
    let (call, arguments) = text.split_once('(')?;
    let argument = |name: &str| {
        let value = arguments.split(", ").find_map(|a| a.strip_prefix(name))?;
        hex(value.strip_prefix(": ")?)
    };
    Some(Event::Call {
        thread,
        call: call.to_owned(),
        descriptor: i32::try_from(argument("fd")?).ok()?,
        position: argument("pos"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# tracer: nop
 felix-core-0-64  [000] .....  1.000001: sys_pwrite64(fd: 0x1c, buf: 0x7f, count: 0x37, pos: 0x40)
 felix-core-0-64  [000] .....  1.000002: sys_pwrite64 -> 0x37
 felix-core-0-64  [000] .....  1.000003: io_uring_submit_req: ring 0a, req 0b, user_data 0x4, opcode FSYNC, flags 0x0, sq_thread 0
 felix-core-0-64  [000] .....  1.000003: io_uring_submit_req: ring 0a, req 0c, user_data 0x5, opcode FSYNC, flags 0x0, sq_thread 0
 iou-wrk-64-99    [001] .....  1.000004: io_uring_file_get: ring 0a, req 0b, user_data 0x4, fd 28
 iou-wrk-64-98    [001] .....  1.000004: io_uring_file_get: ring 0a, req 0c, user_data 0x5, fd 29
 felix-core-1-65  [001] .....  1.000004: sys_sendmsg(fd: 0x8, msg: 0x7f, flags: 0x4040)
 felix-core-0-64  [000] ...1.  1.000005: io_uring_complete: ring 0a, req 0b, user_data 0x4, result -5, cflags 0x0 extra1 0 extra2 0 
 felix-core-1-65  [001] .....  1.000006: sys_sendmsg -> 0xfffffffffffffff5
";

    #[test]
    fn what_the_kernel_prints_is_read_with_its_order() {
        let trace = Trace(TEXT.lines().filter_map(parse).collect());
        assert_eq!(trace.events().len(), 9);
        let write = Done {
            begin: 0,
            end: 1,
            position: Some(64),
            value: 55,
        };
        assert_eq!(trace.writes(28), [write]);
        let send = Done {
            begin: 6,
            end: 8,
            position: None,
            value: -11,
        };
        assert_eq!(trace.sends(8), [send]);
        let flush = Ringed {
            begin: 2,
            end: 7,
            result: -5,
        };
        assert_eq!(trace.flushes(28), [flush]);
        // The other one has not ended.
        assert_eq!(trace.flushes(29), []);
        assert_eq!(trace.reads(28), []);
        assert_eq!((trace.submitted("FSYNC"), trace.submitted("READ")), (2, 0));
    }
}
