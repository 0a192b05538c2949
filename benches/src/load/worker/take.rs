//! Taking what comes.

use super::Worker;
use crate::client::{answer, error_name};
use crate::load::join::{Delivery, Join};
use crate::load::work::{Answers, Until};
use crate::problem::Problem;
use std::time::Duration;

/// So often a socket is read before others, and the clock, are looked at.
const PULLS_MAX: usize = 16;

impl Worker<'_> {
    /// Takes what is there from the sockets that may have something: whether there was anything.
    pub(super) fn take(&mut self, ready: &[usize]) -> Result<bool, Problem> {
        let askers = self.work.askers.len();
        let readers = self.work.readers.len();
        let mut has_taken = false;
        for number in ready {
            has_taken |= match *number {
                number if number < askers => self.take_answers(number)?,
                number if number < askers + readers => self.take_batches(number - askers)?,
                number => self.take_flow(number - askers - readers)?,
            };
        }
        Ok(has_taken)
    }

    fn take_answers(&mut self, number: usize) -> Result<bool, Problem> {
        let mut has_taken = false;
        if self.work.askers[number].link.has_unsent() {
            self.work.askers[number].link.push()?;
            self.watch_room(number)?;
        }
        while self.work.askers[number].link.pull()? {
            has_taken = true;
            let at = self.now();
            while self.take_answer(number, at)? {}
            if !self.work.askers[number].link.is_full() {
                break;
            }
        }
        if has_taken || self.work.asking.answers == Answers::Nobody {
            self.go_on(number)?;
        }
        Ok(has_taken)
    }

    fn take_answer(&mut self, number: usize, at: Duration) -> Result<bool, Problem> {
        let link = &mut self.work.askers[number].link;
        let Some(frame) = link.frame()? else {
            return Ok(false);
        };
        let correlation = answer::correlation(frame);
        let (error, offset, partition) = match self.work.asking.answers {
            Answers::Kafka => {
                let produced = answer::produced(frame)?;
                (
                    produced.error,
                    produced.base_offset,
                    Some(produced.partition),
                )
            }
            Answers::Echo | Answers::Nobody => (0, 0, None),
        };
        let Some(asked) = link.asked.pop_front() else {
            return Err(Problem::new(
                "the server answered what nobody asked".to_owned(),
            ));
        };
        let wanted = self.work.asking.places[asked.partition].partition;
        if correlation != Some(asked.correlation) || partition.is_some_and(|found| found != wanted)
        {
            return Err(Problem::new(
                "the server answered another request than the oldest one; answers must come in the \
                 order of the requests",
            ));
        }
        let readers = self.joins[asked.partition]
            .as_ref()
            .map_or(1, Join::readers);
        if error != 0 {
            for _ in 0..readers {
                self.recorder.refused(asked.due, &error_name(error));
            }
            return Ok(true);
        }
        match self.work.asking.until {
            Until::Delivered => {
                let join = self.joins[asked.partition].as_mut();
                let join = join.expect("each partition that is written is read");
                let Some(early) = join.acknowledged(offset, asked.due) else {
                    return Err(Problem::new(format!(
                        "the server acknowledged two batches, or none, at offset {offset} of one \
                         partition"
                    )));
                };
                for early in early {
                    self.recorder
                        .done(asked.due, early.at, early.records, early.bytes);
                }
            }
            Until::Acknowledged | Until::Fetched => {
                self.recorder
                    .done(asked.due, at, asked.records, asked.bytes);
            }
        }
        Ok(true)
    }

    fn take_batches(&mut self, number: usize) -> Result<bool, Problem> {
        let reader = &mut self.work.readers[number];
        if reader.link.has_unsent() {
            reader.link.push()?;
        }
        let mut has_taken = false;
        while self.work.readers[number].link.pull()? {
            has_taken = true;
            let at = self.now();
            self.read.clear();
            while let Some(asked) = self.work.readers[number].take(&mut self.read)? {
                self.work.readers[number].ask(at)?;
                self.count_read(asked, at);
                self.read.clear();
            }
            if !self.work.readers[number].link.is_full() {
                break;
            }
        }
        Ok(has_taken)
    }

    fn count_read(&mut self, asked: Duration, at: Duration) {
        if self.work.asking.until == Until::Fetched {
            let records = self.read.iter().map(|read| read.records).sum();
            let bytes = self.read.iter().map(|read| read.bytes).sum();
            // A poll that ended without anything says nothing of the broker's speed.
            if bytes > 0 {
                self.recorder.done(asked, at, records, bytes);
            }
            return;
        }
        for read in &self.read {
            let delivery = Delivery {
                at,
                records: read.records,
                bytes: read.bytes,
            };
            let due = self.joins[read.place].as_mut();
            if let Some(due) = due.and_then(|join| join.delivered(read.first_offset, delivery)) {
                self.recorder.done(due, at, read.records, read.bytes);
            }
        }
    }

    fn take_flow(&mut self, number: usize) -> Result<bool, Problem> {
        let sink = &mut self.work.sinks[number];
        let mut has_taken = false;
        // A sender that never stops must not keep us from seeing the end.
        for _ in 0..PULLS_MAX {
            if !sink.pull()? {
                break;
            }
            has_taken = true;
            let is_full = sink.is_full();
            self.recorder
                .flowed(self.begin.elapsed(), sink.drain() as u64);
            if !is_full {
                break;
            }
        }
        Ok(has_taken)
    }
}
