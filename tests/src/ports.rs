//! Ports nobody listens on.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range from which the kernel takes ports for outgoing connections, so that a broker
/// that restarts finds its ports free.
const FIRST: u16 = 12_000;
const COUNT: u16 = 18_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// `count` consecutive free ports; the first of them.
pub(crate) fn free(count: u16) -> u16 {
    // Test processes that run side by side begin at different places.
    let pid = std::process::id();
    let begin = u16::try_from(pid.wrapping_mul(37) % u32::from(COUNT)).expect("below a u16");
    for _ in 0..1000 {
        let step = NEXT.fetch_add(count, Ordering::Relaxed);
        let first = FIRST + (begin.wrapping_add(step) % (COUNT - count));
        if (first..first + count).all(is_free) {
            return first;
        }
    }
    panic!(
        "no {count} consecutive ports are free between {FIRST} and {}",
        FIRST + COUNT
    );
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
