//! What `--dev` tells the person who started it.

use felix_core::topology::Topology;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

/// The lines to try, for a broker on this address.
///
/// The literal address is named and never `localhost`, because clients try ::1 first for that, and
/// only 127.0.0.1 is listened on.
#[must_use]
pub(crate) fn tour(
    kafka: SocketAddr,
    http: SocketAddr,
    topology: &Topology,
    data: &Path,
) -> String {
    let mut text = String::new();
    let data = data.display();
    let cores = topology.cores();
    let lines = [
        String::new(),
        format!("Felix is up on {cores} core(s), for development: anybody on this machine may"),
        format!("read and write. Data is kept in {data}"),
        String::new(),
        "Try in another terminal:".to_owned(),
        format!("  kcat -b {kafka} -L"),
        format!("  echo hello | kcat -b {kafka} -t default.clicks -P"),
        format!("  kcat -b {kafka} -t default.clicks -C -o beginning -e"),
        format!("  curl http://{http}/metrics"),
        String::new(),
        "Ctrl-C ends it; what was acknowledged is there at the next start.".to_owned(),
        String::new(),
    ];
    for line in lines {
        writeln!(text, "{line}").expect("a string takes everything");
    }
    text
}
