//! Latencies over the time of a round.

use super::figures::micros;
use super::quantile::count;
use crate::found::{Round, Spread, Usage};
use hdrhistogram::Histogram;
use std::borrow::Cow;
use std::time::Duration;

/// A longest latency of more than so many times the middle p99 is a stall.
pub(super) const STALL_MULTIPLE: f64 = 10.0;
/// Fewer points have no middle to compare with.
const STALL_POINTS_MIN: usize = 5;

/// What ended in one slot, or in several beside each other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Point {
    /// From the start of the round.
    pub(super) from: Duration,
    pub(super) to: Duration,
    /// How many ended.
    pub(super) count: u64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) max_us: f64,
    /// Whether the host took time meanwhile.
    pub(super) is_stolen: bool,
}

/// A round in at most so many points; slots are put together where there are more.
pub(super) fn points(round: &Round, points_max: usize) -> Vec<Point> {
    let latencies = &round.latencies;
    // The slots beyond the round hold what was answered late.
    let used = latencies.slots_used();
    let mut slots = latencies.slots();
    let together = used.div_ceil(points_max.max(1)).max(1);
    let at = |index: usize| latencies.slot() * u32::try_from(index).unwrap_or(u32::MAX);
    let points = (0..used).step_by(together).map(|first| {
        let beyond = used.min(first + together);
        let stolen = round.stolen.iter().skip(first).take(beyond - first);
        let both = merged(slots.by_ref().take(beyond - first));
        let us = |quantile| micros(both.as_ref().map_or(0, |of| of.value_at_quantile(quantile)));
        Point {
            from: at(first),
            to: at(beyond),
            count: both.as_ref().map_or(0, Histogram::len),
            p50_us: us(0.5),
            p99_us: us(0.99),
            max_us: us(1.0),
            is_stolen: stolen.into_iter().any(|is_stolen| *is_stolen),
        }
    });
    points.collect()
}

fn merged<'a>(
    slots: impl Iterator<Item = Option<Cow<'a, Histogram<u32>>>>,
) -> Option<Histogram<u32>> {
    let mut filled = slots.flatten();
    let mut merged = filled.next()?.into_owned();
    for slot in filled {
        merged.add(&*slot).expect("all have the same bounds");
    }
    Some(merged)
}

/// What the server used in a round, in at most so many points: means of processors, and the most
/// memory held.
pub(super) fn usage(round: &Round, points_max: usize) -> Vec<Usage> {
    let together = round.usage.len().div_ceil(points_max.max(1)).max(1);
    let mut begin = Duration::ZERO;
    let mut points = Vec::new();
    for chunk in round.usage.chunks(together) {
        // Slots may differ in length, so each counts for the time it took.
        let mut busy = 0.0;
        let mut before = begin;
        for slot in chunk {
            busy += slot.processors * slot.at.saturating_sub(before).as_secs_f64();
            before = slot.at;
        }
        let time = before.saturating_sub(begin).as_secs_f64();
        let resident = chunk.iter().map(|slot| slot.resident_bytes);
        points.push(Usage {
            at: before,
            processors: if time > 0.0 { busy / time } else { 0.0 },
            resident_bytes: resident.max().unwrap_or(0),
        });
        begin = before;
    }
    points
}

/// Bytes in MiB.
pub(super) fn mebibytes(bytes: u64) -> f64 {
    count(bytes) / f64::from(1 << 20)
}

/// The longest latency that is no stall yet, for the rounds of a side; none if there is too little
/// to say.
pub(super) fn stall_above_us<'a>(points: impl IntoIterator<Item = &'a Point>) -> Option<f64> {
    let filled = points.into_iter().filter(|point| point.count > 0);
    let p99s: Vec<f64> = filled.map(|point| point.p99_us).collect();
    let middle = Spread::of(p99s.iter().copied()).filter(|_| p99s.len() >= STALL_POINTS_MIN)?;
    Some(STALL_MULTIPLE * middle.median)
}

#[cfg(test)]
mod tests {
    use super::super::sample::round;
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_stall_stands_out_in_its_slot() {
        let calm = (0..1000).map(|n| (ms(n), ms(1)));
        let mut round = round(calm.chain([(ms(350), ms(40))]));
        round.stolen[7] = true;
        let points = points(&round, 300);
        assert_eq!(points.len(), 10);
        let above = stall_above_us(&points).unwrap();
        let stalls = points.iter().filter(|point| point.max_us > above);
        let stalls: Vec<Duration> = stalls.map(|point| point.from).collect();
        assert_eq!(stalls, [ms(300)]);
        let stolen = points.iter().position(|point| point.is_stolen);
        assert_eq!(stolen, Some(7));
    }

    #[test]
    fn slots_put_together_lose_no_sample_and_no_mark() {
        let mut round = round((0..1000).map(|n| (ms(n), ms(1))));
        round.stolen[9] = true;
        let points = points(&round, 4);
        assert_eq!(points.len(), 4);
        let count: u64 = points.iter().map(|point| point.count).sum();
        assert_eq!(count, 1000);
        assert!(points[3].is_stolen);
        assert_eq!((points[3].from, points[3].to), (ms(900), ms(1000)));
    }

    #[test]
    fn usage_put_together_is_weighed_by_time() {
        let mut round = round([]);
        round.usage = [(1, 1.0, 5), (4, 0.0, 9), (5, 0.5, 7)]
            .map(|(at, processors, resident_bytes)| Usage {
                at: ms(100 * at),
                processors,
                resident_bytes,
            })
            .to_vec();
        let points = usage(&round, 2);
        assert_eq!(points.len(), 2);
        assert!((points[0].processors - 0.25).abs() < 1e-9, "{points:?}");
        assert_eq!(points[0].resident_bytes, 9);
        assert!((points[1].processors - 0.5).abs() < 1e-9, "{points:?}");
    }

    #[test]
    fn an_empty_round_has_no_points() {
        assert_eq!(points(&round([]), 4), []);
        assert_eq!(stall_above_us(&[]), None);
    }
}
