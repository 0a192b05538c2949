//! The floor of fetch throughput: blocks of memory, sent flat out.

use super::frames::Frames;
use super::{FloorSettings, announce, no_socket};
use crate::pin;
use crate::problem::Problem;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Received at a time, until there is a first request.
const RECEIVE_BYTES: usize = 64 << 10;

/// How long accepting rests when descriptors or memory are short.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(20);

/// Serves each connection on a thread of its own; all stay on the one processor.
pub(super) fn serve(settings: &FloorSettings) -> Result<Infallible, Problem> {
    pin::to(settings.cpu)?;
    let listener =
        TcpListener::bind(settings.listen).map_err(|error| no_socket(settings.listen, &error))?;
    announce(listener.local_addr())?;
    let block: Arc<[u8]> = vec![7; settings.block_bytes].into();
    loop {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(SHORTAGE_PAUSE);
            continue;
        };
        let block = Arc::clone(&block);
        // Without a thread the connection is closed, which the peer sees.
        drop(thread::Builder::new().spawn(move || send(stream, &block)));
    }
}

/// Sends until the peer hangs up.
fn send(mut stream: TcpStream, block: &[u8]) {
    if asked(&mut stream) {
        while stream.write_all(block).is_ok() {}
    }
}

/// Whether the peer asks a first request.
fn asked(stream: &mut TcpStream) -> bool {
    let mut frames = Frames::default();
    let mut received = vec![0; RECEIVE_BYTES];
    loop {
        let Ok(bytes @ 1..) = stream.read(&mut received) else {
            return false;
        };
        match frames.take(&received[..bytes]) {
            Ok((_, None)) => {}
            Ok((_, Some(_))) => return true,
            Err(_) => return false,
        }
    }
}
