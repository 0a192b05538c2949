//! Latencies of one turn, by the slot of time in which they ended.

use super::slot::{self, NANOS_MAX, Slot};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2Serializer;
use std::borrow::Cow;
use std::time::Duration;

/// Latencies in nanoseconds. Kept by slot, so that they can be drawn over time and so that slots
/// in which the host was elsewhere can be left out afterwards.
#[derive(Clone, Debug)]
pub struct Latencies {
    slot_nanos: u64,
    /// By the slot in which they ended; the last takes all that ended later.
    slots: Vec<Option<Slot>>,
    /// Those that began in an earlier slot than they ended, again.
    spanning: Vec<Spanning>,
    /// Slots whose memory is there already.
    ready: Vec<Slot>,
    /// With so many spanning ones, equal ones are merged.
    merge_at: usize,
}

/// Spanning latencies take a few megabytes before equal ones are looked for.
const MERGE_AT: usize = 1 << 17;

/// Latencies that began and ended in the same slots and took equally long.
#[derive(Clone, Copy, Debug)]
struct Spanning {
    began: u32,
    ended: u32,
    nanos: u64,
    count: u64,
}

impl Latencies {
    /// None yet, in so many slots of that length.
    ///
    /// # Panics
    /// No slot, more than 2^32 of them, an empty one, or one of centuries.
    #[must_use]
    pub fn new(slot: Duration, slots: usize) -> Self {
        assert!(slots > 0);
        assert!(u32::try_from(slots).is_ok());
        assert!(!slot.is_zero());
        Self {
            slot_nanos: u64::try_from(slot.as_nanos()).expect("a slot is no centuries"),
            slots: vec![None; slots],
            spanning: Vec::new(),
            ready: Vec::new(),
            merge_at: MERGE_AT,
        }
    }

    /// Has the memory of all slots there before the first record comes: a slot that is begun
    /// meanwhile would stall whoever measures.
    pub fn prepare(&mut self) {
        self.ready.resize_with(self.slots.len(), Slot::touched);
    }

    /// Adds what began so long after the turn's start and took so long.
    pub fn record(&mut self, began: Duration, took: Duration) {
        let (began, took) = (nanos(began), nanos(took));
        let began_at = self.index(began);
        let ended_at = self.index(began.saturating_add(took));
        let took = took.min(NANOS_MAX);
        let slot = &mut self.slots[ended_at];
        slot.get_or_insert_with(|| self.ready.pop().unwrap_or_default())
            .record(took);
        if began_at < ended_at {
            self.spanning.push(Spanning {
                began: short(began_at),
                ended: short(ended_at),
                nanos: took,
                count: 1,
            });
            if self.spanning.len() >= self.merge_at {
                self.merge();
            }
        }
    }

    fn index(&self, at_nanos: u64) -> usize {
        // Numbers of 64 bits, since the processor divides them by itself.
        let index = at_nanos / self.slot_nanos;
        let last = self.slots.len() - 1;
        usize::try_from(index).map_or(last, |index| index.min(last))
    }

    /// Adds those of another thread in the same turn.
    ///
    /// # Panics
    /// Its slots are others.
    pub fn add(&mut self, other: &Self) {
        assert_eq!(self.slot_nanos, other.slot_nanos);
        assert_eq!(self.slots.len(), other.slots.len());
        for (ours, theirs) in self.slots.iter_mut().zip(&other.slots) {
            match (ours, theirs) {
                (_, None) => {}
                (Some(ours), Some(theirs)) => ours.add(theirs),
                (ours @ None, Some(theirs)) => *ours = Some(theirs.clone()),
            }
        }
        self.spanning.extend_from_slice(&other.spanning);
    }

    /// Makes them small, once a turn is over: a run keeps many turns. They stay the same.
    pub fn pack(&mut self) {
        self.ready = Vec::new();
        let mut serializer = V2Serializer::new();
        for slot in self.slots.iter_mut().flatten() {
            slot.pack(&mut serializer);
        }
        self.merge();
        self.spanning.shrink_to_fit();
    }

    /// Counts equal ones as one: under a growing backlog nearly all span slots, millions of them.
    fn merge(&mut self) {
        // What a histogram does not tell apart is one here, too.
        let counters = slot::wide();
        for one in &mut self.spanning {
            one.nanos = counters.lowest_equivalent(one.nanos);
        }
        self.spanning.sort_unstable_by_key(Spanning::key);
        self.spanning.dedup_by(|next, kept| {
            let is_same = next.key() == kept.key();
            kept.count += if is_same { next.count } else { 0 };
            is_same
        });
        // Not again before there are as many more.
        self.merge_at = MERGE_AT.max(2 * self.spanning.len());
    }

    /// How long a slot is.
    #[must_use]
    pub fn slot(&self) -> Duration {
        Duration::from_nanos(self.slot_nanos)
    }

    /// How many slots there are, up to the last in which something ended.
    #[must_use]
    pub fn slots_used(&self) -> usize {
        let last = self.slots.iter().rposition(Option::is_some);
        last.map_or(0, |last| last + 1)
    }

    /// What ended in each slot. Those of packed latencies are made as they are asked for.
    pub fn slots(&self) -> impl Iterator<Item = Option<Cow<'_, Histogram<u32>>>> {
        let slots = self.slots.iter();
        slots.map(|slot| slot.as_ref().map(Slot::histogram))
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Histogram<u64> {
        self.without(&[])
    }

    /// Those that touch no slot marked in `stolen`, from the slot they began in to the one they
    /// ended in. Slots beyond its end are not marked.
    #[must_use]
    pub fn without(&self, stolen: &[bool]) -> Histogram<u64> {
        let is_stolen = |slot: usize| stolen.get(slot).copied().unwrap_or(false);
        let mut kept = slot::wide();
        for (index, slot) in self.slots.iter().enumerate() {
            if let Some(slot) = slot.as_ref().filter(|_| !is_stolen(index)) {
                slot.add_to(&mut kept);
            }
        }
        let mut touched = slot::wide();
        for span in &self.spanning {
            let (began, ended) = (span.began as usize, span.ended as usize);
            if (began..ended).any(is_stolen) && !is_stolen(ended) {
                touched
                    .record_n(span.nanos, span.count)
                    .expect("the bound is within it");
            }
        }
        kept.subtract(&touched)
            .expect("they were added with their slots");
        kept
    }
}

impl Spanning {
    /// All but their count.
    fn key(&self) -> (u32, u32, u64) {
        (self.began, self.ended, self.nanos)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn short(slot: usize) -> u32 {
    u32::try_from(slot).expect("`new` allows no more")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Duration = Duration::from_millis(100);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn heap_bytes(latencies: &Latencies) -> usize {
        let slots = latencies.slots.iter().flatten().map(Slot::heap_bytes);
        slots.sum::<usize>() + latencies.spanning.capacity() * size_of::<Spanning>()
    }

    /// Half a minute of 20,000 a second around 50 us, some much longer.
    fn a_turn(seed: u64) -> Latencies {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut latencies = Latencies::new(SLOT, 301);
        for request in 0..600_000 {
            let around = 20 + random.u64(0..30) + random.u64(0..30);
            let times = match random.u32(0..1000) {
                0 => 2000,
                1..10 => 10,
                _ => 1,
            };
            latencies.record(
                Duration::from_micros(50 * request),
                Duration::from_nanos(around * times * 1000 + random.u64(0..1000)),
            );
        }
        latencies
    }

    /// Every seventh slot.
    fn stolen() -> Vec<bool> {
        (0..300).map(|slot| slot % 7 == 0).collect()
    }

    #[test]
    fn a_latency_counts_in_the_slot_in_which_it_ends() {
        let mut latencies = Latencies::new(SLOT, 3);
        latencies.record(ms(90), ms(20));
        latencies.record(ms(10), ms(20));
        latencies.record(ms(290), ms(900));
        let counts: Vec<u64> = latencies.slots().flatten().map(|slot| slot.len()).collect();
        assert_eq!(counts, [1, 1, 1]);
        assert_eq!(latencies.all().len(), 3);
    }

    #[test]
    fn what_touches_a_stolen_slot_is_left_out_wherever_it_began() {
        let mut latencies = Latencies::new(SLOT, 4);
        latencies.record(ms(90), ms(20));
        latencies.record(ms(10), ms(5));
        latencies.record(ms(50), ms(200));
        latencies.record(ms(210), ms(5));
        assert_eq!(latencies.without(&[false, false, true]).len(), 2);
        // The one from slot 0 to 2 passes through slot 1.
        assert_eq!(latencies.without(&[false, true]).len(), 2);
        assert_eq!(latencies.without(&[true]).len(), 1);
    }

    #[test]
    fn threads_add_up() {
        let mut one = Latencies::new(SLOT, 2);
        let mut two = one.clone();
        one.record(ms(0), ms(1));
        two.record(ms(0), ms(150));
        one.add(&two);
        assert_eq!(one.all().len(), 2);
        assert_eq!(one.without(&[true]).len(), 0);
    }

    #[test]
    fn a_packed_turn_holds_the_same_in_a_tenth_of_the_room() {
        let open = a_turn(1);
        let mut packed = open.clone();
        packed.pack();
        assert_eq!(packed.all(), open.all());
        assert_eq!(packed.without(&stolen()), open.without(&stolen()));
        assert!(open.without(&stolen()).len() < open.all().len() * 6 / 7);
        assert!(packed.slots().eq(open.slots()));
        assert_eq!(packed.slots_used(), open.slots_used());
        let (small, large) = (heap_bytes(&packed), heap_bytes(&open));
        assert!(10 * small < large, "{small} bytes of {large}");
    }

    #[test]
    fn packed_turns_add_up_and_take_more() {
        let (mut one, two) = (a_turn(1), a_turn(2));
        let mut packed = one.clone();
        packed.pack();
        let mut two_packed = two.clone();
        two_packed.pack();
        packed.add(&two_packed);
        one.add(&two);
        for both in [&mut one, &mut packed] {
            both.record(ms(150), ms(200));
        }
        packed.pack();
        assert_eq!(packed.all(), one.all());
        assert_eq!(packed.without(&stolen()), one.without(&stolen()));
    }

    #[test]
    fn a_backlog_packs_well_though_all_of_it_spans_slots() {
        let mut open = Latencies::new(SLOT, 31);
        for request in 0..300_000 {
            let began = Duration::from_micros(10 * request);
            open.record(began, SLOT + began * 2);
        }
        let counted: u64 = open.spanning.iter().map(|one| one.count).sum();
        assert_eq!(counted, 300_000);
        assert!(
            open.spanning.len() < 150_000,
            "equal ones are merged on the way"
        );
        let mut packed = open.clone();
        packed.pack();
        for marked in 0..31 {
            let stolen: Vec<bool> = (0..31).map(|slot| slot == marked).collect();
            assert_eq!(packed.without(&stolen), open.without(&stolen));
        }
        let (small, large) = (heap_bytes(&packed), heap_bytes(&open));
        assert!(10 * small < large, "{small} bytes of {large}");
    }
}
