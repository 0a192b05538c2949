//! Batches that are too much work for a core.

use crate::harness::Broker;
use crate::wire::{answer, base_offset, connect, produce};
use rustix::process::Signal;
use std::io::Write;
use tempfile::tempdir;

/// More than a core has with the heavy threads at once.
const CONNECTIONS: usize = 12;

#[test]
fn heavy_and_light_batches_of_many_connections_are_written_and_the_broker_ends_in_order() {
    let temp = tempdir().unwrap();
    let mut broker = Broker::start(temp.path(), &[]);
    let (heavy, light) = (produce(&vec![7; 1 << 20]), produce(b"light"));
    let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| connect(broker.kafka())).collect();
    for stream in &mut streams {
        stream.write_all(&heavy).unwrap();
        stream.write_all(&light).unwrap();
    }
    // One that does not wait for its answers.
    let mut hasty = connect(broker.kafka());
    hasty.write_all(&heavy).unwrap();
    drop(hasty);

    let mut offsets = Vec::new();
    for stream in &mut streams {
        let mut next = || base_offset(&answer(stream).unwrap().expect("an answer"));
        let (heavy, light) = (next(), next());
        assert!(heavy < light, "{heavy} and {light} in the order sent");
        offsets.extend([heavy, light]);
    }
    offsets.sort_unstable();
    offsets.dedup();
    assert_eq!(offsets.len(), 2 * CONNECTIONS);

    broker.signal(Signal::TERM);
    let (status, _) = broker.wait();
    assert!(status.success(), "{status}");
}
