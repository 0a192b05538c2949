//! Sending what is due.

use super::{Worker, system};
use crate::client::request;
use crate::load::link::Asked;
use crate::load::work::{Answers, Place, Work};
use crate::problem::Problem;
use std::time::Duration;

/// So many requests are sent before sockets are looked at again, however far behind we are.
const BURST: usize = 64;
/// So many requests may be due and not sent, for want of answers, before the run is given up.
const BACKLOG_MAX: usize = 4_000_000;

impl Worker<'_> {
    pub(super) fn send_what_is_due(&mut self, mut now: Duration) -> Result<bool, Problem> {
        let mut has_sent = false;
        for _ in 0..BURST {
            let Some(pace) = self.work.pace.as_mut() else {
                break;
            };
            let due = pace.due();
            if due > now || due >= self.timing.end() {
                break;
            }
            pace.advance();
            self.recorder.sent(due, now);
            let place = match (self.work.batches.next_partition(), &mut self.work.chooser) {
                (Some(place), _) => place,
                (None, Some((places, chooser))) => places[chooser.choose(&mut self.work.random)],
                (None, None) => break,
            };
            let (askers, turn) = &mut self.by_place[place];
            let number = askers[*turn % askers.len()];
            *turn = turn.wrapping_add(1);
            self.ask_or_wait(number, place, due)?;
            has_sent = true;
            now = self.now();
        }
        self.push_all()?;
        Ok(has_sent)
    }

    fn ask_or_wait(&mut self, number: usize, place: usize, due: Duration) -> Result<(), Problem> {
        if self.is_free(number) && self.work.askers[number].backlog.is_empty() {
            return self.ask(number, place, due);
        }
        let asker = &mut self.work.askers[number];
        asker.backlog.push_back((due, place));
        match asker.backlog.len() {
            0..=BACKLOG_MAX => Ok(()),
            behind => Err(Problem::new(format!(
                "{behind} requests are due on one connection and not sent, because the server does \
                 not keep up; lower --rate"
            ))),
        }
    }

    fn ask(&mut self, number: usize, place: usize, due: Duration) -> Result<(), Problem> {
        let Work {
            askers,
            batches,
            asking,
            ..
        } = &mut self.work;
        let asker = &mut askers[number];
        let batch = batches.take();
        let (records, bytes) = (batch.records(), batch.bytes().len() as u64);
        if let Some(identity) = &asker.identity {
            let sequence = &mut asker.sequences[place];
            batch.stamp_producer(identity.id, identity.epoch, *sequence);
            // KIP-98: after the greatest comes zero.
            let next = (i64::from(*sequence) + i64::from(records)) & i64::from(i32::MAX);
            *sequence = i32::try_from(next).expect("31 bits");
        }
        let Place { topic, partition } = &asking.places[place];
        let correlation = asker.link.queue(|out, correlation| {
            let timeout_ms = 30_000;
            let batch = batch.bytes();
            request::produce(
                out,
                correlation,
                asking.acks,
                timeout_ms,
                topic,
                *partition,
                batch,
            );
        });
        let records = u64::from(records.unsigned_abs());
        if asking.answers == Answers::Nobody {
            asker.link.push()?;
            self.recorder
                .done(due, self.begin.elapsed(), records, bytes);
        } else {
            asker.link.asked.push_back(Asked {
                due,
                records,
                bytes,
                partition: place,
                correlation,
            });
        }
        if self.unsent.last() != Some(&number) {
            self.unsent.push(number);
        }
        Ok(())
    }

    /// Sends what was asked for since the last time.
    fn push_all(&mut self) -> Result<(), Problem> {
        while let Some(number) = self.unsent.pop() {
            self.work.askers[number].link.push()?;
            self.watch_room(number)?;
        }
        Ok(())
    }

    /// In a closed loop: as many requests as may be without an answer.
    fn fill(&mut self, number: usize) -> Result<(), Problem> {
        for _ in 0..BURST {
            let now = self.now();
            if !self.is_free(number) || now >= self.timing.end() {
                break;
            }
            let asker = &mut self.work.askers[number];
            let place = asker.places[asker.chooser.choose(&mut self.work.random)];
            self.recorder.sent(now, now);
            self.ask(number, place, now)?;
        }
        Ok(())
    }

    /// The set wakes for room to send for as long as something is unsent.
    pub(super) fn watch_room(&mut self, number: usize) -> Result<(), Problem> {
        let link = &mut self.work.askers[number].link;
        let wanted = link.has_unsent();
        if wanted != link.waits_for_room {
            link.waits_for_room = wanted;
            self.waits
                .wake_for_room(number, &*link, wanted)
                .map_err(system)?;
        }
        Ok(())
    }

    /// Sends what waited for an answer.
    pub(super) fn go_on(&mut self, number: usize) -> Result<(), Problem> {
        while self.is_free(number) {
            let Some((due, place)) = self.work.askers[number].backlog.pop_front() else {
                break;
            };
            self.ask(number, place, due)?;
        }
        if !self.work.is_paced && !self.is_draining {
            self.fill(number)?;
        }
        self.push_all()
    }

    /// In a closed loop: everything that may be sent.
    pub(super) fn fill_all(&mut self) -> Result<(), Problem> {
        if !self.work.is_paced {
            (0..self.work.askers.len()).try_for_each(|number| self.fill(number))?;
        }
        self.push_all()
    }

    /// Whether a request may be sent on the connection now.
    fn is_free(&self, number: usize) -> bool {
        let link = &self.work.askers[number].link;
        link.asked.len() < self.work.asking.in_flight_max && link.has_room()
    }
}
