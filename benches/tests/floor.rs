//! Floors as processes of their own, over real sockets.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a pause is told by the clock, and a parent tells its test of its child"
)]

use felix_bench::child::{self, Child, Output};
use felix_bench::floor::{Floor, FloorKind, FloorSettings, Pause};
use felix_bench::{pin, usage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getpgid, kill_process, pidfd_open};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Whatever takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(60);

const ECHOES: [FloorKind; 3] = [FloorKind::Echo, FloorKind::LoopEcho, FloorKind::WriteEcho];

/// A floor with the directory it may write to.
struct Served {
    floor: Floor,
    dir: TempDir,
}

fn serve(kind: FloorKind, settings: FloorSettings) -> Served {
    child::start_with(Path::new(env!("CARGO_BIN_EXE_felix-bench")));
    let dir = tempfile::tempdir().unwrap();
    let settings = FloorSettings {
        cpu: pin::allowed()[0],
        dir: Some(dir.path().to_owned()),
        file_bytes: settings.file_bytes.min(64 << 20),
        ..settings
    };
    let floor = Floor::start(kind, &settings).unwrap();
    Served { floor, dir }
}

/// Parked and spinning.
fn each_echo(answer_bytes: usize, check: impl Fn(FloorKind, &Served)) {
    for kind in ECHOES {
        for spin_us in [0, 100_000] {
            let settings = FloorSettings {
                answer_bytes,
                spin_us,
                ..FloorSettings::default()
            };
            check(kind, &serve(kind, settings));
        }
    }
}

struct Client(TcpStream);

impl Client {
    fn of(served: &Served) -> Self {
        let stream = TcpStream::connect(served.floor.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// The next answer is this long and to that request.
    fn expect(&mut self, answer_bytes: usize, correlation: u32) {
        let mut answer = vec![0; answer_bytes];
        self.0.read_exact(&mut answer).unwrap();
        let length = u32::from_be_bytes(answer[..4].try_into().unwrap());
        assert_eq!(usize::try_from(length).unwrap(), answer_bytes - 4);
        let number = u32::from_be_bytes(answer[4..8].try_into().unwrap());
        assert_eq!(number, correlation);
    }

    /// Nothing more comes, and the connection ends. With a reset, if something was not read.
    fn expect_end(&mut self) {
        let end = self.0.read_to_end(&mut Vec::new());
        match end {
            Ok(count) => assert_eq!(count, 0),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
}

fn request(correlation: u32, body_bytes: usize) -> Vec<u8> {
    let length = u32::try_from(8 + body_bytes).unwrap();
    let mut request = length.to_be_bytes().to_vec();
    request.extend([0, 0, 0, 7]);
    request.extend(correlation.to_be_bytes());
    request.resize(12 + body_bytes, 0xab);
    request
}

#[test]
fn each_answer_has_the_size_asked_for_and_the_number_of_its_request() {
    for answer_bytes in [8, 64, 300_000] {
        each_echo(answer_bytes, |_, served| {
            let mut client = Client::of(served);
            for (correlation, body_bytes) in [(7, 0), (u32::MAX, 1_000), (0, 1 << 20)] {
                client.send(&request(correlation, body_bytes));
                client.expect(answer_bytes, correlation);
            }
        });
    }
}

#[test]
fn connections_are_served_side_by_side_and_outlive_each_other() {
    each_echo(64, |_, served| {
        let mut first = Client::of(served);
        first.send(&request(1, 10));
        first.expect(64, 1);
        let mut others: Vec<Client> = (0..5).map(|_| Client::of(served)).collect();
        for correlation in 2..5 {
            first.send(&request(correlation, 10));
            for other in others.iter_mut().rev() {
                other.send(&request(100 + correlation, 3));
                other.expect(64, 100 + correlation);
            }
            first.expect(64, correlation);
            // In the middle of a request, too.
            others.pop().unwrap().send(&request(0, 10)[..9]);
        }
    });
}

#[test]
fn requests_may_arrive_in_pieces_and_several_at_once() {
    each_echo(20, |_, served| {
        let mut client = Client::of(served);
        for correlation in 0..3 {
            for byte in request(correlation, 5) {
                client.send(&[byte]);
            }
            client.expect(20, correlation);
        }
        let many: Vec<Vec<u8>> = (0..100)
            .map(|correlation| request(correlation, 30))
            .collect();
        let many = many.concat();
        let (most, rest) = many.split_at(many.len() - 35);
        client.send(most);
        (0..99).for_each(|correlation| client.expect(20, correlation));
        client.send(rest);
        client.expect(20, 99);
    });
}

#[test]
fn a_length_that_no_request_has_ends_its_connection_only() {
    each_echo(64, |_, served| {
        let mut other = Client::of(served);
        for length in [0, 7, (128 << 20) - 3, u32::MAX] {
            let mut client = Client::of(served);
            client.send(&request(1, 1));
            client.expect(64, 1);
            client.send(&length.to_be_bytes());
            client.expect_end();
            other.send(&request(length, 0));
            other.expect(64, length);
        }
    });
}

#[test]
fn the_longest_request_takes_no_memory_before_it_is_there() {
    for kind in ECHOES {
        let served = serve(kind, FloorSettings::default());
        let mut client = Client::of(&served);
        let resident = || usage::Usage::of(served.floor.pid()).unwrap().resident_bytes;
        client.send(&request(1, 0));
        client.expect(64, 1);
        let before = resident();
        client.send(&((128_u32 << 20) - 4).to_be_bytes());
        client.send(&[0; 1_000]);
        let mut other = Client::of(&served);
        other.send(&request(2, 0));
        other.expect(64, 2);
        assert!(resident() < before + (32 << 20), "{kind:?}");
    }
}

#[test]
fn a_peer_that_does_not_read_delays_nobody_and_still_gets_all_its_answers() {
    each_echo(1 << 20, |_, served| {
        let mut slow = Client::of(served);
        let requests: Vec<Vec<u8>> = (0..64).map(|correlation| request(correlation, 0)).collect();
        slow.send(&requests.concat());
        let mut other = Client::of(served);
        other.send(&request(7, 0));
        other.expect(1 << 20, 7);
        (0..64).for_each(|correlation| slow.expect(1 << 20, correlation));
        slow.send(&request(64, 0));
        slow.expect(1 << 20, 64);
    });
}

#[test]
fn answers_still_go_out_to_a_peer_that_sends_no_more() {
    each_echo(64, |_, served| {
        let mut client = Client::of(served);
        client.send(&request(1, 100));
        client.0.shutdown(Shutdown::Write).unwrap();
        client.expect(64, 1);
        client.expect_end();
    });
}

#[test]
fn a_pause_comes_before_the_answer_it_is_set_for_and_again_if_repeated() {
    let ms = 300;
    for kind in [FloorKind::Echo, FloorKind::WriteEcho] {
        let settings = FloorSettings {
            pause: Some(Pause {
                after: 3,
                ms,
                is_repeated: true,
            }),
            ..FloorSettings::default()
        };
        let served = serve(kind, settings);
        // Counted over all connections.
        let mut clients = [Client::of(&served), Client::of(&served)];
        for correlation in 1..=6 {
            let client = &mut clients[usize::try_from(correlation % 2).unwrap()];
            let begun = Instant::now();
            client.send(&request(correlation, 0));
            client.expect(64, correlation);
            if correlation % 3 == 0 {
                assert!(
                    begun.elapsed() >= Duration::from_millis(ms),
                    "{correlation}"
                );
            }
        }
    }
}

/// The file without a name that the floor writes to.
fn written_file(served: &Served) -> File {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", served.floor.pid())).unwrap();
    let mut files = descriptors.filter_map(|entry| {
        let path = entry.unwrap().path();
        let target = std::fs::read_link(&path).ok()?;
        target
            .starts_with(served.dir.path())
            .then(|| File::open(path).unwrap())
    });
    files.next().expect("the floor has it open")
}

#[test]
fn requests_are_written_one_behind_the_other_before_they_are_answered() {
    for is_flushed in [false, true] {
        let settings = FloorSettings {
            file_bytes: 1_000,
            is_flushed,
            ..FloorSettings::default()
        };
        let served = serve(FloorKind::WriteEcho, settings);
        let mut client = Client::of(&served);
        let file = written_file(&served);
        let [first, second, third] = [(1, 88), (2, 200), (3, 400)]
            .map(|(correlation, body_bytes)| request(correlation, body_bytes));
        // The first answer tells that the beginning of the second request is there, too.
        client.send(&[&first, &second[..100]].concat());
        client.expect(64, 1);
        client.send(&[&second[100..], &third].concat());
        client.expect(64, 2);
        client.expect(64, 3);
        let mut written = vec![1; 1_001];
        assert_eq!(
            file.read_at(&mut written, 0).unwrap(),
            1_000,
            "no more, no less"
        );
        let all = [first, second, third].concat();
        assert_eq!(written[..all.len()], all);
        assert!(written[all.len()..1_000].iter().all(|byte| *byte == 0));

        // There is no room for it at the end.
        let fourth = request(4, 600);
        client.send(&fourth);
        client.expect(64, 4);
        file.read_at(&mut written, 0).unwrap();
        assert_eq!(written[..fourth.len()], fourth);
        client.send(&request(5, 1_000));
        client.expect_end();
    }
}

/// Bytes of clean pages of files on a device that the floor has written to. A page that has been
/// written to and not flushed is not counted again.
fn dirtied_bytes(served: &Served) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{}/io", served.floor.pid())).unwrap();
    let mut lines = io.lines();
    let count = lines.find_map(|line| line.strip_prefix("write_bytes: "));
    count.unwrap().parse().unwrap()
}

#[test]
fn a_flush_comes_before_the_answer_where_it_is_asked_for() {
    let requests = 8;
    let [unflushed, flushed] = [false, true].map(|is_flushed| {
        let settings = FloorSettings {
            file_bytes: 1_000,
            is_flushed,
            ..FloorSettings::default()
        };
        let served = serve(FloorKind::WriteEcho, settings);
        let mut client = Client::of(&served);
        let before = dirtied_bytes(&served);
        for correlation in 0..requests {
            client.send(&request(correlation, 88));
            client.expect(64, correlation);
        }
        dirtied_bytes(&served) - before
    });
    // A file system in memory counts nothing.
    if unflushed > 0 {
        assert!(flushed >= u64::from(requests) * 4_096, "{flushed}");
        assert!(unflushed < flushed, "{unflushed} of {flushed}");
    }
}

#[test]
fn blocks_are_sent_from_the_first_request_on_until_the_peer_hangs_up() {
    let settings = FloorSettings {
        block_bytes: 10_000,
        ..FloorSettings::default()
    };
    let served = serve(FloorKind::Send, settings);
    let mut readers = [Client::of(&served), Client::of(&served)];
    for reader in &mut readers {
        let (head, rest) = (&request(1, 20)[..5], &request(1, 20)[5..]);
        reader.send(head);
        reader.send(rest);
    }
    for reader in &mut readers {
        reader.0.read_exact(&mut vec![0; 20 << 20]).unwrap();
    }
    drop(readers);
    let mut wrong = Client::of(&served);
    wrong.send(&[0xff; 4]);
    wrong.expect_end();
    let mut next = Client::of(&served);
    next.send(&request(2, 0));
    next.0.read_exact(&mut [0; 10_000]).unwrap();
}

#[test]
fn what_cannot_be_served_is_refused_with_a_sentence() {
    child::start_with(Path::new(env!("CARGO_BIN_EXE_felix-bench")));
    let settings = FloorSettings {
        cpu: pin::allowed()[0],
        ..FloorSettings::default()
    };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    let refused = |kind, settings: FloorSettings, words: &str| {
        let problem = Floor::start(kind, &settings).unwrap_err().to_string();
        assert!(problem.contains(words), "{words} in {problem}");
    };
    for kind in FloorKind::ALL {
        let elsewhere = FloorSettings {
            cpu: 1_000,
            dir: Some("/".into()),
            ..settings.clone()
        };
        refused(kind, elsewhere, "processor 1000 ");
        let on_taken = FloorSettings {
            listen,
            file_bytes: 1,
            dir: Some(std::env::temp_dir()),
            ..settings.clone()
        };
        refused(kind, on_taken, &format!("cannot listen on {listen}"));
        for answer_bytes in [7, (128 << 20) + 1] {
            let wrong = FloorSettings {
                answer_bytes,
                dir: Some("/".into()),
                ..settings.clone()
            };
            refused(kind, wrong, &format!("not {answer_bytes}"));
        }
    }
    refused(FloorKind::WriteEcho, settings.clone(), "--dir");
    let nowhere = FloorSettings {
        dir: Some("/nowhere/at/all".into()),
        ..settings
    };
    refused(FloorKind::WriteEcho, nowhere, "/nowhere/at/all");
}

fn pid_of(floor: &Floor) -> Pid {
    Pid::from_raw(i32::try_from(floor.pid()).unwrap()).unwrap()
}

/// Waits until the process has ended.
fn await_end(process: &OwnedFd) {
    let patience = Timespec::try_from(PATIENCE).unwrap();
    let mut asked = [PollFd::new(process, PollFlags::IN)];
    assert_eq!(poll(&mut asked, Some(&patience)).unwrap(), 1, "it lives on");
}

#[test]
fn a_floor_stays_on_its_processor_apart_from_us_and_ends_when_dropped() {
    for kind in FloorKind::ALL {
        let served = serve(kind, FloorSettings::default());
        let pid = served.floor.pid();
        assert_eq!(
            getpgid(Some(pid_of(&served.floor))).unwrap(),
            pid_of(&served.floor)
        );
        assert_ne!(getpgid(None).unwrap(), pid_of(&served.floor));
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let cpu = pin::allowed()[0];
        assert!(
            status.contains(&format!("Cpus_allowed_list:\t{cpu}\n")),
            "{status}"
        );
        assert_eq!(usage::listener_pid(served.floor.port()), Some(pid));
        drop(served);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}

/// Makes this test a parent: see below.
const PARENT: &str = "BENCH_TESTS_PARENT";

#[test]
fn children_end_with_whoever_started_them_however_that_ends() {
    if std::env::var_os(PARENT).is_some() {
        return be_a_parent();
    }
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("children_end_with_whoever_started_them_however_that_ends")
        .env(PARENT, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let pids = lines.filter_map(|line| line.unwrap().strip_prefix("child ")?.parse().ok());
    let children: Vec<OwnedFd> = pids
        .take(2)
        .map(|pid| pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap())
        .collect();
    assert_eq!(children.len(), 2);
    kill_process(Pid::from_child(&parent), Signal::KILL).unwrap();
    parent.wait().unwrap();
    children.iter().for_each(await_end);
}

/// Has a floor and a foreign child, both started by a thread that ends, which is no reason for
/// them to end, and that is pinned, which is no reason for them to be.
fn be_a_parent() {
    let allowed = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let mut lines = status.lines();
        let line = lines.find(|line| line.starts_with("Cpus_allowed_list"));
        line.map(str::to_owned)
    };
    let ours = allowed(std::process::id());
    let start = || {
        pin::to(pin::allowed()[0]).unwrap();
        let served = serve(FloorKind::Echo, FloorSettings::default());
        let sleep = Path::new("/bin/sleep");
        let foreign = Child::of(sleep, Output::Kept, |command| {
            command.arg("600");
        });
        (served, foreign.unwrap())
    };
    let (served, mut foreign) = std::thread::spawn(start).join().unwrap();
    assert_eq!(allowed(foreign.pid()), ours);
    let mut client = Client::of(&served);
    client.send(&request(1, 0));
    client.expect(64, 1);
    // It has become the other program, and lives.
    let name = || std::fs::read_to_string(format!("/proc/{}/comm", foreign.pid())).unwrap();
    while name() != "sleep\n" {
        std::thread::yield_now();
    }
    assert!(!foreign.has_ended());
    println!("\nchild {}\nchild {}", served.floor.pid(), foreign.pid());
    let mut end = Vec::new();
    std::io::stdin().read_to_end(&mut end).unwrap();
}
