//! A record that is on the device before it is acknowledged, over a bare write and flush.

use crate::broker::{Broker, Stream};
use crate::connection::Waiting;
use crate::latency::{Compared, Latency};
use crate::pin::Pinned;
use crate::plan::{CLIENT_CPU, Plan};
use crate::produce;
use crate::round_trip::Appender;
use felix_tests::Policy;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// The `on_commit` produce round trip over `pwrite` and `fdatasync` on the same file system.
pub(crate) fn measure(plan: &Plan, binary: &Path, dir: &Path) -> Compared {
    let stream = Stream::of(Policy::OnCommit);
    let broker = Broker::start(binary, dir, &[stream], &[]);
    let batch = produce::batch(1);
    let request = produce::request(&stream.topic(), &batch);
    let mut to_broker = Appender::open(&broker, request, Waiting::Parked);
    let mut bare = Bare::new(dir, &batch, (plan.rounds + 1) * plan.flushes);
    let _pinned = Pinned::to(CLIENT_CPU);
    Compared::alternate(
        plan.rounds,
        plan.flushes,
        |samples| bare.writes(samples),
        |samples| to_broker.appends(samples),
    )
}

/// Writes into space prepared as the broker prepares it: zeros, flushed, so that a flush has no
/// metadata to write.
struct Bare<'a> {
    file: File,
    batch: &'a [u8],
    end: u64,
}

impl<'a> Bare<'a> {
    fn new(dir: &Path, batch: &'a [u8], writes: usize) -> Self {
        let mut file = tempfile::tempfile_in(dir).expect("a file can be made there");
        file.write_all(&vec![0; writes * batch.len()])
            .expect("the disk has room");
        file.sync_all().expect("the disk works");
        Self {
            file,
            batch,
            end: 0,
        }
    }

    fn writes(&mut self, samples: usize) -> Latency {
        let mut latency = Latency::new();
        for _ in 0..samples {
            let begun = Instant::now();
            self.file
                .write_all_at(self.batch, self.end)
                .expect("the disk has room");
            self.file.sync_data().expect("the disk works");
            latency.record(begun);
            self.end += u64::try_from(self.batch.len()).expect("64 bits");
        }
        latency
    }
}
