//! A consumer: a connection with one long poll on its way, always.

use super::link::{Asked, Link};
use crate::client::request::{self, FetchBounds};
use crate::client::{answer, batches, error_name};
use crate::problem::Problem;
use std::time::Duration;

/// A partition that is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    /// Its number in the topic.
    pub(crate) index: i32,
    /// Its place as the worker counts them.
    pub(crate) place: usize,
    /// The offset to read next.
    pub(crate) next: i64,
    /// Where reading begins anew; none where it goes on waiting.
    pub(crate) again_from: Option<i64>,
}

/// A batch that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) place: usize,
    pub(crate) first_offset: i64,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// One consumer.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) link: Link,
    topic: String,
    places: Vec<Cursor>,
    bounds: FetchBounds,
}

impl Reader {
    /// Of these partitions, which all have the same leader.
    #[must_use]
    pub(crate) fn new(link: Link, topic: String, places: Vec<Cursor>, bounds: FetchBounds) -> Self {
        Self {
            link,
            topic,
            places,
            bounds,
        }
    }

    /// The partitions, by place.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        self.places.iter().map(|place| place.place)
    }

    /// Asks for what comes next.
    pub(crate) fn ask(&mut self, now: Duration) -> Result<(), Problem> {
        let Self {
            link,
            topic,
            places,
            bounds,
        } = self;
        let correlation = link.queue(|out, correlation| {
            let wanted = places.iter().map(|place| (place.index, place.next));
            request::fetch(out, correlation, bounds, topic, wanted);
        });
        link.asked.push_back(Asked {
            due: now,
            records: 0,
            bytes: 0,
            partition: 0,
            correlation,
        });
        link.push()
    }

    /// Takes the next answer, if all of it is there: when it was asked for. What was read is
    /// added to `read`.
    pub(crate) fn take(&mut self, read: &mut Vec<Read>) -> Result<Option<Duration>, Problem> {
        let Self { link, places, .. } = self;
        let Some(asked) = link.asked.front().copied() else {
            return Ok(None);
        };
        let Some(frame) = link.frame()? else {
            return Ok(None);
        };
        let fetched = answer::fetched(frame)?;
        if fetched.correlation != asked.correlation {
            return Err(Problem::new(
                "the server answered another Fetch than the one that was asked",
            ));
        }
        refuse(fetched.error, "Fetch")?;
        for part in fetched.partitions {
            refuse(part.error, "Fetch")?;
            let place = places
                .iter_mut()
                .find(|place| place.index == part.partition);
            let Some(place) = place else {
                return Err(Problem::new(format!(
                    "the broker answered for partition {}, which nobody asked for",
                    part.partition
                )));
            };
            for batch in batches(part.records) {
                let batch = batch?;
                // A broker gives whole batches, so the first may begin before what was asked for.
                if batch.last_offset < place.next {
                    continue;
                }
                place.next = batch.last_offset + 1;
                if !batch.is_control {
                    read.push(Read {
                        place: place.place,
                        first_offset: batch.base_offset,
                        records: u64::from(batch.records),
                        bytes: batch.bytes as u64,
                    });
                }
            }
            if let Some(start) = place
                .again_from
                .filter(|_| place.next >= part.high_watermark)
            {
                place.next = start;
            }
        }
        link.asked.pop_front();
        Ok(Some(asked.due))
    }
}

fn refuse(error: i16, what: &str) -> Result<(), Problem> {
    match error {
        0 => Ok(()),
        code => Err(Problem::new(format!(
            "the broker refused a {what}: {}",
            error_name(code)
        ))),
    }
}
