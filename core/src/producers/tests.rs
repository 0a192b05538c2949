//! The table against a model that counts without ever wrapping, and the edges by hand.

use super::*;
use crate::limits::PRODUCER_PLACES_MAX;
use proptest::prelude::*;
use std::collections::VecDeque;

const WRAP: u64 = 1 << 31;

/// A shard: its table and its log end.
struct Shard {
    table: Producers,
    end: u64,
}

impl Shard {
    fn new() -> Self {
        Self::with_room_for(4096)
    }

    fn with_room_for(producers: usize) -> Self {
        Self {
            table: Producers::new(Offset::ZERO, producers),
            end: 0,
        }
    }

    /// Writes the batch, and what the others write before it; its base offset.
    fn write(&mut self, batch: Sequenced, others: u64) -> u64 {
        let base = self.end + others;
        let time = Timestamp(i64::try_from(base).unwrap());
        self.table.note(&batch, Offset::new(base), Some(time));
        self.end = base + u64::from(batch.records);
        base
    }

    /// What a leader does with the batch; its base offset, if it was written.
    fn append(&mut self, batch: Sequenced) -> Result<u64, Refusal> {
        assert_eq!(self.table.judge(&batch)?, Verdict::New);
        Ok(self.write(batch, 0))
    }
}

fn batch(producer_id: i64, epoch: i16, first: u64, records: u32) -> Sequenced {
    Sequenced {
        producer_id,
        epoch,
        first: u32::try_from(first % WRAP).unwrap(),
        records,
    }
}

fn landed(base: u64, end: u64, of: u64) -> Landed {
    Landed {
        base_offset: Offset::new(base),
        end: Offset::new(end),
        append_time: Some(Timestamp(i64::try_from(of).unwrap())),
    }
}

#[test]
fn a_batch_that_is_sent_again_is_answered_with_its_first_offset_and_the_next_one_follows() {
    // Claim 191.
    let mut shard = Shard::new();
    shard.append(batch(7, 0, 0, 40)).unwrap();
    shard.end = 1200;
    assert_eq!(shard.append(batch(7, 0, 40, 5)), Ok(1200));
    let again = shard.table.judge(&batch(7, 0, 40, 5));
    assert_eq!(again, Ok(Verdict::Duplicate(landed(1200, 1205, 1200))));
    assert_eq!(shard.append(batch(7, 0, 45, 5)), Ok(1205));
}

#[test]
fn a_batch_of_which_a_part_is_there_is_to_be_completed() {
    // Claim 178, with another producer's records between the first ones.
    let mut shard = Shard::new();
    shard.append(batch(7, 0, 0, 40)).unwrap();
    shard.append(batch(7, 0, 40, 2)).unwrap();
    shard.append(batch(8, 0, 0, 10)).unwrap();
    shard.append(batch(7, 0, 42, 1)).unwrap();
    let partial = Verdict::Partial {
        present: 3,
        landed: landed(40, 53, 40),
    };
    assert_eq!(shard.table.judge(&batch(7, 0, 40, 5)), Ok(partial));
    assert_eq!(shard.append(batch(7, 0, 43, 2)), Ok(53));
    let whole = Verdict::Duplicate(landed(40, 55, 40));
    assert_eq!(shard.table.judge(&batch(7, 0, 40, 5)), Ok(whole));
}

#[test]
fn a_gap_is_out_of_order_and_changes_nothing() {
    let mut shard = Shard::new();
    shard.append(batch(7, 0, 0, 3)).unwrap();
    let gap = Refusal::OutOfOrder { owed: 3, found: 4 };
    assert_eq!(shard.append(batch(7, 0, 4, 1)), Err(gap));
    assert_eq!(shard.append(batch(7, 0, 3, 1)), Ok(3));
}

#[test]
fn only_a_first_batch_is_taken_from_a_producer_that_is_not_known() {
    let mut shard = Shard::new();
    assert_eq!(shard.append(batch(7, 3, 1, 1)), Err(Refusal::Unknown));
    assert_eq!(shard.append(batch(7, 3, 0, 1)), Ok(0));
}

#[test]
fn a_higher_epoch_begins_at_0_and_ends_the_lower_one() {
    let mut shard = Shard::new();
    shard.append(batch(7, 1, 0, 5)).unwrap();
    let other = Refusal::OutOfOrder { owed: 0, found: 5 };
    assert_eq!(shard.append(batch(7, 2, 5, 1)), Err(other));
    assert_eq!(shard.append(batch(7, 3, 0, 2)), Ok(5));
    for first in [0, 2, 5] {
        let lower = Refusal::LowerEpoch {
            current: 3,
            found: 1,
        };
        assert_eq!(shard.append(batch(7, 1, first, 1)), Err(lower));
    }
    assert_eq!(shard.append(batch(7, 3, 2, 1)), Ok(7));
}

#[test]
fn the_last_64_batches_are_remembered_and_an_older_one_counts_as_delivered() {
    let mut shard = Shard::new();
    for number in 0..100 {
        shard.append(batch(7, 0, number * 3, 3)).unwrap();
    }
    for number in 0..100 {
        let again = shard.table.judge(&batch(7, 0, number * 3, 3));
        let at = number * 3;
        if number < 36 {
            assert_eq!(again, Err(Refusal::TooOld), "{number}");
        } else {
            assert_eq!(
                again,
                Ok(Verdict::Duplicate(landed(at, at + 3, at))),
                "{number}"
            );
        }
    }
    // What is not all there must not count as delivered.
    let refused = shard.table.judge(&batch(7, 0, 0, 301));
    assert_eq!(
        refused,
        Err(Refusal::OutOfOrder {
            owed: 300,
            found: 0
        })
    );
}

#[test]
fn sequences_go_on_from_0_after_the_greatest_and_a_batch_may_straddle_it() {
    let mut shard = Shard::new();
    shard.write(batch(7, 0, WRAP - 8, 5), 0);
    // It ends with the greatest but one, the next straddles, and the one after is beyond.
    assert_eq!(shard.append(batch(7, 0, WRAP - 3, 6)), Ok(5));
    assert_eq!(shard.append(batch(7, 0, 3, 2)), Ok(11));
    let gap = Refusal::OutOfOrder { owed: 5, found: 6 };
    assert_eq!(shard.append(batch(7, 0, 6, 1)), Err(gap));
    assert_eq!(shard.append(batch(7, 0, 5, 1)), Ok(13));
}

#[test]
fn what_is_sent_again_is_recognised_from_the_other_side_of_the_wrap() {
    let mut shard = Shard::new();
    shard.write(batch(7, 0, WRAP - 8, 5), 0);
    shard.append(batch(7, 0, WRAP - 3, 6)).unwrap();
    let before = shard.table.judge(&batch(7, 0, WRAP - 8, 5));
    assert_eq!(before, Ok(Verdict::Duplicate(landed(0, 5, 0))));
    let straddling = shard.table.judge(&batch(7, 0, WRAP - 3, 6));
    assert_eq!(straddling, Ok(Verdict::Duplicate(landed(5, 11, 5))));
    let partial = Verdict::Partial {
        present: 6,
        landed: landed(5, 11, 5),
    };
    assert_eq!(shard.table.judge(&batch(7, 0, WRAP - 3, 7)), Ok(partial));
    assert_eq!(shard.append(batch(7, 0, 3, 2)), Ok(11));
    let behind = shard.table.judge(&batch(7, 0, 3, 2));
    assert_eq!(behind, Ok(Verdict::Duplicate(landed(11, 13, 11))));
    let older = shard.table.judge(&batch(7, 0, WRAP - 9, 1));
    assert_eq!(older, Err(Refusal::TooOld));
}

#[test]
fn the_producer_that_has_written_nothing_for_longest_is_forgotten_first() {
    let mut shard = Shard::with_room_for(3);
    for id in [1, 2, 3, 1] {
        let first = if shard.table.judge(&batch(id, 0, 0, 1)) == Ok(Verdict::New) {
            0
        } else {
            1
        };
        shard.append(batch(id, 0, first, 1)).unwrap();
    }
    shard.append(batch(4, 0, 0, 1)).unwrap();
    assert_eq!((shard.table.known(), shard.table.forgotten()), (3, 1));
    assert_eq!(shard.append(batch(2, 0, 1, 1)), Err(Refusal::Unknown));
    for id in [3, 4] {
        shard.append(batch(id, 0, 1, 1)).unwrap();
    }
    shard.append(batch(1, 0, 2, 1)).unwrap();
}

#[test]
fn a_producer_is_forgotten_once_all_its_records_are_deleted() {
    // Claim 28.
    let mut shard = Shard::new();
    for id in 0..1000 {
        shard.append(batch(id, 0, 0, 2)).unwrap();
    }
    shard.table.forget_below(Offset::new(1999));
    assert_eq!(shard.append(batch(998, 0, 2, 1)), Err(Refusal::Unknown));
    assert_eq!(shard.append(batch(999, 0, 2, 1)), Ok(2000));
    // Their memory is given back little by little.
    let mut sequence = 3;
    while shard.table.known() > 1 {
        let before = shard.table.known();
        shard.append(batch(999, 0, sequence, 1)).unwrap();
        sequence += 1;
        assert!(shard.table.known() < before);
    }
    assert_eq!(shard.table.forgotten(), 999);
    shard.table.forget_below(Offset::new(5000));
    assert_eq!(shard.table.known(), 0);
    assert_eq!(shard.table.bytes(), 0);
}

/// What a producer has done, in numbers that never wrap.
#[derive(Clone, Debug, Default)]
struct Model {
    epoch: i16,
    /// First number, records, base offset of each batch of the epoch.
    batches: Vec<(u64, u64, u64)>,
}

impl Model {
    fn owed(&self) -> u64 {
        self.batches
            .last()
            .map_or(0, |(first, records, _)| first + records)
    }

    fn offset_of(&self, number: u64) -> Option<u64> {
        let remembered = self.batches.len().saturating_sub(PRODUCER_PLACES_MAX);
        let remembered = &self.batches[remembered..];
        let holds =
            |(first, records, _): &&(u64, u64, u64)| (*first..first + records).contains(&number);
        remembered
            .iter()
            .find(holds)
            .map(|(first, _, base)| base + number - first)
    }

    fn judge(&self, epoch: i16, first: u64, records: u64) -> Result<Verdict, Refusal> {
        if epoch < self.epoch {
            return Err(Refusal::LowerEpoch {
                current: self.epoch,
                found: epoch,
            });
        }
        let wire = |number: u64| i32::try_from(number % WRAP).unwrap();
        if epoch > self.epoch {
            let gap = Refusal::OutOfOrder {
                owed: 0,
                found: wire(first),
            };
            return if first.is_multiple_of(WRAP) {
                Ok(Verdict::New)
            } else {
                Err(gap)
            };
        }
        let owed = self.owed();
        let gap = Refusal::OutOfOrder {
            owed: wire(owed),
            found: wire(first),
        };
        if first >= owed {
            return if first == owed {
                Ok(Verdict::New)
            } else {
                Err(gap)
            };
        }
        let end = first + records;
        let Some(base) = self.offset_of(first) else {
            return Err(if end <= owed { Refusal::TooOld } else { gap });
        };
        let (holder, _, of) = *self
            .batches
            .iter()
            .rev()
            .find(|(begins, ..)| *begins <= first)
            .unwrap();
        assert_eq!(of + first - holder, base);
        let last = self.offset_of(end.min(owed) - 1).unwrap();
        let landed = landed(base, last + 1, of);
        if end <= owed {
            return Ok(Verdict::Duplicate(landed));
        }
        let present = u32::try_from(owed - first).unwrap();
        Ok(Verdict::Partial { present, landed })
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// The next batch, or one so many records off it, of so many records.
    Send {
        producer: usize,
        off: i64,
        records: u32,
    },
    /// One of the last batches, whole or with so many records more.
    Again {
        producer: usize,
        back: usize,
        more: u32,
    },
    Epoch {
        producer: usize,
        up: i16,
        first: u32,
    },
    Copy,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let records = prop_oneof![1..6_u32, 1..2_000_000_u32];
    let off = prop_oneof![4 => Just(0_i64), 1 => -9..9_i64, 1 => -(1_i64 << 30) + 1..1 << 30];
    let step = prop_oneof![
        8 => (0..4_usize, off, records).prop_map(|(producer, off, records)| Step::Send { producer, off, records }),
        4 => (0..4_usize, 0..80_usize, 0..3_u32).prop_map(|(producer, back, more)| Step::Again { producer, back, more }),
        1 => (0..4_usize, -1..2_i16, 0..2_u32).prop_map(|(producer, up, first)| Step::Epoch { producer, up, first }),
        1 => Just(Step::Copy),
    ];
    proptest::collection::vec(step, 1..300)
}

/// The table as its own snapshot brings it back.
fn copied(table: &mut Producers, end: u64) -> Producers {
    table.begin_copy(Offset::new(end));
    let bytes_expected = table.copy_bytes();
    let mut bytes = Vec::new();
    while !table.copy_step(&mut bytes, 1) {}
    assert_eq!(bytes.len(), bytes_expected);
    load(&bytes).unwrap().0
}

fn load(bytes: &[u8]) -> Result<(Producers, Offset), SnapshotError> {
    let mut loading = Loading::new(bytes, Producers::new(Offset::ZERO, 4096))?;
    while !loading.step(2)? {}
    let end = loading.end();
    Ok((loading.into_table(), end))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Against numbers that never wrap: the table sees each of them modulo 2^31 only.
    #[test]
    fn every_batch_is_judged_as_by_one_who_never_wraps(steps in steps(), begin in 0..3_u64) {
        let mut shard = Shard::new();
        let mut models = vec![Model::default(); 4];
        for (id, model) in models.iter_mut().enumerate() {
            // Near the wrap, as only a long life or another leader can have brought it there.
            let first = [0, 3, WRAP - 10][usize::try_from(begin).unwrap()];
            let base = shard.write(batch(id.try_into().unwrap(), 0, first, 5), 1);
            model.batches.push((first, 5, base));
        }
        for step in steps {
            let (producer, epoch, first, records) = match step {
                Step::Send { producer, off, records } => {
                    let model = &models[producer];
                    // Not before the beginning: nobody has counted there.
                    let Some(first) = model.owed().checked_add_signed(off) else { continue };
                    (producer, model.epoch, first, records)
                }
                Step::Again { producer, back, more } => {
                    let model = &models[producer];
                    let Some(at) = model.batches.len().checked_sub(back + 1) else { continue };
                    let (first, records, _) = model.batches[at];
                    (producer, model.epoch, first, u32::try_from(records).unwrap() + more)
                }
                Step::Epoch { producer, up, first } => {
                    let Ok(0..) = models[producer].epoch.checked_add(up).ok_or(()) else { continue };
                    (producer, models[producer].epoch + up, u64::from(first), 3)
                }
                Step::Copy => {
                    let end = shard.end;
                    let copy = copied(&mut shard.table, end);
                    prop_assert!(copy == shard.table);
                    shard.table = copy;
                    continue;
                }
            };
            let model = &mut models[producer];
            if epoch == model.epoch && first + (1 << 30) <= model.owed() {
                continue;
            }
            let sent = batch(producer.try_into().unwrap(), epoch, first, records);
            let expected = model.judge(epoch, first, records.into());
            prop_assert_eq!(shard.table.judge(&sent), expected);
            match expected {
                Ok(Verdict::New) => {
                    let base = shard.append(sent).unwrap();
                    if epoch > model.epoch {
                        *model = Model { epoch, batches: Vec::new() };
                    }
                    model.batches.push((first, records.into(), base));
                }
                Ok(Verdict::Partial { present, .. }) => {
                    let first = first + u64::from(present);
                    let rest = batch(sent.producer_id, epoch, first, records - present);
                    let base = shard.append(rest).unwrap();
                    model.batches.push((first, rest.records.into(), base));
                }
                Ok(Verdict::Duplicate(_)) | Err(_) => {}
            }
        }
    }

    /// A copy that is made in steps while batches arrive is the table as it was at its beginning.
    #[test]
    fn a_copy_says_what_was_known_when_it_began(
        before in proptest::collection::vec((0..12_i64, 1..4_u32), 0..60),
        during in proptest::collection::vec((0..16_i64, 1..4_u32, 0..3_usize), 0..60),
        trimmed in 0..80_u64,
    ) {
        let mut owed = VecDeque::from([0; 16]);
        let mut shard = Shard::with_room_for(10);
        let mut plain = Shard::with_room_for(10);
        let mut write = |shards: &mut [&mut Shard], id: i64, records: u32| {
            let place = usize::try_from(id).unwrap();
            for shard in shards {
                shard.write(batch(id, 0, owed[place], records), 0);
            }
            owed[place] += u64::from(records);
        };
        for (id, records) in before {
            write(&mut [&mut shard, &mut plain], id, records);
        }
        let end = shard.end;
        shard.table.begin_copy(Offset::new(end));
        let expected = shard.table.copy_bytes();
        let mut bytes = Vec::new();
        let mut done = false;
        for (number, (id, records, steps)) in during.into_iter().enumerate() {
            if number == 20 {
                shard.table.forget_below(Offset::new(trimmed));
            }
            if steps > 0 && !done {
                done = shard.table.copy_step(&mut bytes, steps);
            }
            write(&mut [&mut shard], id, records);
        }
        while !done {
            done = shard.table.copy_step(&mut bytes, 2);
        }
        prop_assert_eq!(bytes.len(), expected);
        let (copy, stated) = load(&bytes).unwrap();
        prop_assert_eq!(stated, Offset::new(end));
        prop_assert!(copy == plain.table);
    }

    #[test]
    fn bytes_that_are_no_snapshot_are_refused_or_a_table(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((table, end)) = load(&bytes) {
            prop_assert!(table.by_last.keys().all(|last| *last < end));
        }
    }
}

#[test]
fn a_snapshot_that_is_cut_or_says_what_cannot_be_is_refused() {
    let mut shard = Shard::new();
    for id in 0..3 {
        shard.append(batch(id, 0, 0, 2)).unwrap();
    }
    shard.table.begin_copy(Offset::new(6));
    let mut whole = Vec::new();
    while !shard.table.copy_step(&mut whole, 8) {}
    assert!(load(&whole).is_ok());
    for cut in 0..whole.len() {
        assert_eq!(
            load(&whole[..cut]).unwrap_err().what,
            "ends too early",
            "{cut}"
        );
    }
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        load(&bytes).unwrap_err().what
    };
    assert_eq!(refused(&|bytes| bytes.push(0)), "has bytes behind its end");
    // The head takes 12 bytes, and each producer 39.
    let impossible = "has a producer with impossible batches";
    assert_eq!(refused(&|bytes| bytes[12] = 0xff), impossible);
    assert_eq!(refused(&|bytes| bytes[20] = 0xff), impossible);
    assert_eq!(refused(&|bytes| bytes[22] = 0xff), impossible);
    assert_eq!(refused(&|bytes| bytes[29] = 1), impossible);
    assert_eq!(refused(&|bytes| bytes[30] = 0), impossible);
    assert_eq!(refused(&|bytes| bytes[31] = 0xff), impossible);
    assert_eq!(refused(&|bytes| bytes[42] = 0), impossible);
    let behind = "knows a batch behind the log end that it states";
    assert_eq!(refused(&|bytes| bytes[7] = 1), behind);
    let twice = "has a producer, an offset or more producers than a table has";
    assert_eq!(refused(&|bytes| bytes.copy_within(12..51, 51)), twice);
}

#[test]
fn the_bytes_of_a_snapshot_are_those_of_the_format_page() {
    let mut shard = Shard::new();
    shard.end = 5;
    shard.table.note(&batch(9, 2, 7, 3), Offset::new(5), None);
    shard
        .table
        .note(&batch(9, 2, 10, 1), Offset::new(258), Some(Timestamp(515)));
    shard.table.begin_copy(Offset::new(300));
    let mut bytes = Vec::new();
    while !shard.table.copy_step(&mut bytes, 8) {}
    let mut expected = vec![0, 0, 0, 0, 0, 0, 1, 44];
    expected.extend([0, 0, 0, 1]);
    expected.extend([0, 0, 0, 0, 0, 0, 0, 9]);
    expected.extend([0, 2]);
    expected.extend([0, 0, 0, 0, 0, 0, 0, 11]);
    expected.push(2);
    expected.extend([0, 0, 0, 0, 0, 0, 0, 5]);
    expected.extend([0, 0, 0, 3]);
    expected.extend([0xff; 8]);
    expected.extend([0, 0, 0, 0, 0, 0, 1, 2]);
    expected.extend([0, 0, 0, 1]);
    expected.extend([0, 0, 0, 0, 0, 0, 2, 3]);
    assert_eq!(bytes, expected);
}
