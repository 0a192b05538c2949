//! `felix-bench floor`: a floor by hand, on the broker's machine.

use super::{misused, value};
use crate::floor::{FloorKind, FloorSettings, Pause, serve};
use crate::pin;
use crate::problem::Problem;
use clap::{Arg, ArgMatches, Command};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// What it takes.
pub(super) fn command() -> Command {
    let words = FloorKind::ALL.map(FloorKind::word);
    let number = |name: &'static str,
                  value: &'static str,
                  default: &'static str,
                  to: u64,
                  help: &'static str| {
        let arg = Arg::new(name)
            .long(name)
            .value_name(value)
            .default_value(default)
            .help(help);
        arg.value_parser(value::number(0, to))
    };
    Command::new("floor")
        .about("Serves a floor until it is killed, for `run --floor HOST:PORT` from another machine")
        .arg(Arg::new("kind").required(true).value_parser(words).help(
            "echo: an epoll wait, a receive and a send for each request; loop-echo: the same on the \
             loop of a Felix core; write-echo: each request is written to a file first; send: \
             memory, flat out",
        ))
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("ADDRESS:PORT")
                .default_value("127.0.0.1:0")
                .value_parser(clap::value_parser!(SocketAddr))
                .help("Where it listens; anybody who reaches it can keep it busy"),
        )
        .arg(
            Arg::new("cpu")
                .long("cpu")
                .value_name("N")
                .value_parser(value::number(0, 4095))
                .help("Its processor; default: the first that is allowed"),
        )
        .arg(number("answer-bytes", "N", "64", 128 << 20, "Bytes of an answer, its length in front included"))
        .arg(number("spin-us", "US", "0", 1_000_000, "How long it looks for more before it sleeps"))
        .arg(number("block-bytes", "N", "1048576", 128 << 20, "send: bytes of a block"))
        .arg(
            Arg::new("dir")
                .long("dir")
                .value_name("DIRECTORY")
                .value_parser(clap::value_parser!(PathBuf))
                .help("write-echo: where its file is made"),
        )
        .arg(number("pause-ms", "MS", "0", 60_000, "A deliberate stall of so long, to see that it is noticed"))
        .arg(number("pause-after", "N", "1000", u64::MAX, "It comes before this request is answered"))
}

/// Runs it.
pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let word = matches.get_one::<String>("kind").expect("it is required");
    let kind = FloorKind::of(word).expect("clap knows the words");
    let number = |name: &str| *matches.get_one::<u64>(name).expect("it has a default");
    let ms = number("pause-ms");
    let cpu = matches
        .get_one::<u64>("cpu")
        .and_then(|cpu| usize::try_from(*cpu).ok());
    let settings = FloorSettings {
        cpu: cpu.unwrap_or_else(|| pin::allowed().first().copied().unwrap_or_default()),
        listen: *matches.get_one("listen").expect("it has a default"),
        answer_bytes: value::count(matches, "answer-bytes"),
        spin_us: number("spin-us"),
        pause: (ms > 0).then(|| Pause {
            after: number("pause-after"),
            ms,
            is_repeated: false,
        }),
        dir: matches.get_one::<PathBuf>("dir").cloned(),
        block_bytes: value::count(matches, "block-bytes"),
        ..FloorSettings::default()
    };
    let Err::<_, Problem>(problem) = serve(kind, &settings);
    misused(&problem)
}
