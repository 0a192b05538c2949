//! A connection that waits for its answers, over a stream that does not.

use felix_bench::client::answer::{self, Produced};
use felix_bench::client::request::{self, FetchBounds};
use felix_bench::client::{Leader, Security, Stream, batches};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// Whatever there is, and a second until there is something.
pub(crate) const BOUNDS: FetchBounds = FetchBounds {
    max_wait_ms: 1000,
    min_bytes: 1,
    max_bytes: 64 << 20,
    partition_max_bytes: 64 << 20,
};

/// Sends requests, keeps what comes meanwhile, and hands out answers in order.
pub(crate) struct Talker {
    stream: Stream,
    out: Vec<u8>,
    received: Vec<u8>,
    correlation: i32,
}

impl Talker {
    pub(crate) fn open(leader: &Leader, security: &Security) -> Self {
        Self {
            stream: Stream::open(&leader.host, leader.port, security).unwrap(),
            out: Vec::new(),
            received: Vec::new(),
            correlation: 0,
        }
    }

    /// Sends a request, reading whatever comes where there is no room; its correlation id.
    pub(crate) fn send(&mut self, write: impl FnOnce(&mut Vec<u8>, i32)) -> i32 {
        self.correlation += 1;
        self.out.clear();
        write(&mut self.out, self.correlation);
        let mut sent = 0;
        while sent < self.out.len() {
            match self.stream.write(&self.out[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(true),
                Err(error) => panic!("{error}"),
            }
        }
        while !self.stream.flush_pending().unwrap() {
            assert!(self.stream.wants_write());
            self.wait(true);
        }
        assert!(!self.stream.wants_write());
        self.correlation
    }

    /// The next answer, without the length in front.
    pub(crate) fn receive(&mut self) -> Vec<u8> {
        loop {
            if let Some(frame) = answer::first(&self.received).unwrap() {
                let frame = frame.to_vec();
                self.received.drain(..answer::LENGTH_BYTES + frame.len());
                return frame;
            }
            self.wait(false);
            self.read();
        }
    }

    /// A request and its answer.
    pub(crate) fn ask(&mut self, write: impl FnOnce(&mut Vec<u8>, i32)) -> Vec<u8> {
        let correlation = self.send(write);
        let frame = self.receive();
        assert_eq!(answer::correlation(&frame), Some(correlation));
        frame
    }

    pub(crate) fn produce(&mut self, topic: &str, partition: i32, batch: &[u8]) -> Produced {
        let frame = self.ask(|out, correlation| {
            request::produce(out, correlation, -1, 10_000, topic, partition, batch);
        });
        answer::produced(&frame).unwrap()
    }

    /// High watermark, and all batches from an offset up to `end`, in as many fetches as it takes.
    pub(crate) fn fetch(
        &mut self,
        topic: &str,
        partition: i32,
        from: i64,
        end: i64,
    ) -> (i64, Vec<u8>) {
        let mut all = Vec::new();
        let mut next = from;
        let mut high_watermark = -1;
        let deadline = Instant::now() + PATIENCE;
        while next < end {
            assert!(Instant::now() < deadline, "the end does not come");
            let frame = self.ask(|out, correlation| {
                let wanted = std::iter::once((partition, next));
                request::fetch(out, correlation, &BOUNDS, topic, wanted);
            });
            let mut fetched = answer::fetched(&frame).unwrap();
            assert_eq!(fetched.error, 0);
            let of = fetched.partitions.next().unwrap();
            assert_eq!((of.partition, of.error), (partition, 0));
            assert_eq!(fetched.partitions.count(), 0);
            for seen in batches(of.records) {
                let seen = seen.unwrap();
                all.extend_from_slice(seen.whole);
                next = seen.last_offset + 1;
            }
            high_watermark = of.high_watermark;
        }
        (high_watermark, all)
    }

    /// Takes what is there. A read that leaves room is the last one, as a stream promises.
    fn read(&mut self) {
        let mut buffer = [0; 10_000];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("the broker hung up"),
                Ok(count) => {
                    self.received.extend_from_slice(&buffer[..count]);
                    if count < buffer.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn wait(&mut self, for_room: bool) {
        let mut flags = PollFlags::IN;
        if for_room {
            flags |= PollFlags::OUT;
        }
        let patience = Timespec::try_from(PATIENCE).unwrap();
        let ready = poll(&mut [PollFd::new(&self.stream, flags)], Some(&patience)).unwrap();
        assert_eq!(ready, 1, "nothing moves");
        if for_room {
            self.read();
            self.stream.flush_pending().unwrap();
        }
    }
}
