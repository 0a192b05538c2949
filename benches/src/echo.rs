//! The floor: a server that answers so many bytes for so many bytes and does nothing else. It runs
//! in a process of its own on the broker's processor, while the broker is idle.

use crate::connection::Waiting;
use crate::pin::Pinned;
use crate::plan::BROKER_CPU;
use felix_tests::Process;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

/// The first argument that makes this program an echo server.
pub const WORD: &str = "echo";

const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A running echo server. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Echo {
    _process: Process,
    port: u16,
}

impl Echo {
    /// Starts one that answers `response_bytes` for every `request_bytes`.
    pub(crate) fn start(request_bytes: usize, response_bytes: usize, waiting: Waiting) -> Self {
        let program = std::env::current_exe().expect("a running program has a path");
        let mut command = Command::new(program);
        command.arg(WORD).args([
            request_bytes.to_string(),
            response_bytes.to_string(),
            waiting.spin_us().to_string(),
        ]);
        let mut process = Process::start("echo", &mut command, None);
        process.wait_until("port", START_TIMEOUT, |printed, _| printed.ends_with(b"\n"));
        let printed = String::from_utf8_lossy(process.stdout()).into_owned();
        Self {
            _process: process,
            port: printed.trim().parse().expect("it prints its port"),
        }
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

/// The server itself: prints its port and serves one connection. The arguments are bytes of a
/// request, bytes of a response, and microseconds to spin before sleeping.
///
/// # Panics
/// The arguments are others, or the system refuses a socket.
pub fn serve(arguments: &[String]) {
    let numbers = arguments.iter().map(|word| word.parse::<usize>());
    let numbers: Vec<usize> = numbers.collect::<Result<_, _>>().expect("numbers");
    let &[request_bytes, response_bytes, spin_us] = numbers.as_slice() else {
        panic!("three numbers");
    };
    let _pinned = Pinned::to(BROKER_CPU);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let port = listener.local_addr().expect("it listens").port();
    writeln!(std::io::stdout(), "{port}").expect("whoever started this listens");
    let (stream, _) = listener.accept().expect("whoever started this connects");
    stream.set_nodelay(true).expect("it is a socket");
    stream.set_nonblocking(true).expect("it is a socket");
    let spin = Duration::from_micros(u64::try_from(spin_us).expect("64 bits"));
    answer(&stream, request_bytes, &vec![7; response_bytes], spin);
}

/// Answers until the client hangs up. Without spinning each request costs a wait, a receive and a
/// send, and nothing can cost less.
fn answer(mut stream: &TcpStream, request_bytes: usize, response: &[u8], spin: Duration) {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("the system has descriptors");
    let data = epoll::EventData::new_u64(0);
    epoll::add(&set, stream, data, epoll::EventFlags::IN).expect("it is a socket");
    let mut events = Vec::with_capacity(1);
    let mut buffer = vec![0; request_bytes];
    let mut received_bytes = 0;
    let mut awake_until = Instant::now();
    loop {
        if spin.is_zero() {
            events.clear();
            epoll::wait(&set, spare_capacity(&mut events), None).expect("the set is valid");
        }
        match stream.read(&mut buffer[received_bytes..]) {
            Ok(0) => return,
            Ok(bytes) => received_bytes += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !spin.is_zero() && Instant::now() >= awake_until {
                    events.clear();
                    epoll::wait(&set, spare_capacity(&mut events), None).expect("it is valid");
                    awake_until = Instant::now() + spin;
                }
            }
            Err(_) => return,
        }
        if received_bytes == request_bytes {
            received_bytes = 0;
            stream.write_all(response).expect("answers are small");
            if !spin.is_zero() {
                awake_until = Instant::now() + spin;
            }
        }
    }
}
