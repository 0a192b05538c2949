//! What is sent: batches made before the clock runs.

use super::chance::{KeyChooser, Keys, Sizes, Skew, partition_of_key};
use crate::client::{BatchMaker, PreparedBatch};
use crate::problem::Problem;
use felix_core::batch::Codec;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// A pool holds at most so many bytes of values, but for one batch: few enough to stay in the
/// processor's caches, where what a producer has just made lies as well.
const POOL_BYTES: usize = 4 << 20;
/// And at most so many batches.
const POOL_BATCHES: usize = 1 << 16;
/// So many keys are drawn to find one of a partition that this thread has.
const DRAWS_MAX: usize = 1_000_000;

/// What values hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// Bytes that no codec makes smaller.
    Random,
    /// JSON of a few fields, which codecs make three to five times smaller.
    Json,
    /// Zeros, which codecs make almost nothing of.
    Zeros,
}

impl FromStr for Contents {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "random" => Ok(Self::Random),
            "json" => Ok(Self::Json),
            "zeros" => Ok(Self::Zeros),
            _ => Err(format!(
                "{text:?} are no contents; there are random, json and zeros"
            )),
        }
    }
}

/// How batches are made.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Records in each.
    pub records: usize,
    /// Bytes of each record's value.
    pub sizes: Sizes,
    /// What values hold.
    pub contents: Contents,
    /// Keys of records.
    pub keys: Keys,
    /// Which partition each goes to.
    pub skew: Skew,
    /// How they are compressed.
    pub codec: Codec,
}

impl Default for Recipe {
    /// One record of 1 KiB that no codec makes smaller, as it is.
    fn default() -> Self {
        Self {
            records: 1,
            sizes: Sizes::Between(1024, 1024),
            contents: Contents::Random,
            keys: Keys::None,
            skew: Skew::Even,
            codec: Codec::None,
        }
    }
}

/// A pool of batches, sent over and over.
#[derive(Clone, Debug)]
pub(crate) struct Batches {
    pool: Vec<Entry>,
    next: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    batch: PreparedBatch,
    /// The place of the partition that its keys say.
    place: Option<usize>,
}

impl Batches {
    /// For a thread that has `places` of `partitions`.
    ///
    /// # Errors
    /// No key drawn belongs to any of them, or a batch is too large for the format.
    pub(crate) fn make(
        recipe: &Recipe,
        places: &[usize],
        partitions: usize,
        random: &mut fastrand::Rng,
    ) -> Result<Self, Problem> {
        let mut keys = KeyChooser::new(&recipe.keys);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now_ms = i64::try_from(now.as_millis()).unwrap_or_default();
        let mut pool = Vec::new();
        let mut bytes = 0;
        while pool.len() < POOL_BATCHES && (bytes < POOL_BYTES || pool.is_empty()) {
            let (entry, size) = recipe.entry(&mut keys, (places, partitions), now_ms, random)?;
            bytes += size.max(1);
            pool.push(entry);
        }
        Ok(Self { pool, next: 0 })
    }

    /// The place of the partition that the next one's keys say.
    pub(crate) fn next_partition(&self) -> Option<usize> {
        self.pool[self.next].place
    }

    /// The next one.
    pub(crate) fn take(&mut self) -> &mut PreparedBatch {
        let taken = self.next;
        self.next = (self.next + 1) % self.pool.len();
        &mut self.pool[taken].batch
    }

    /// Bytes of a batch, on average.
    pub(crate) fn bytes_mean(&self) -> usize {
        let sizes = self.pool.iter().map(|entry| entry.batch.bytes().len());
        sizes.sum::<usize>() / self.pool.len()
    }
}

impl Recipe {
    /// The part of all batches that goes to `places` of so many partitions.
    pub(crate) fn share(&self, places: &[usize], partitions: usize) -> f64 {
        match &self.skew {
            Skew::Keys => KeyChooser::new(&self.keys).share(places, partitions),
            skew => skew.share(places, partitions),
        }
    }

    fn entry(
        &self,
        keys: &mut KeyChooser,
        (places, partitions): (&[usize], usize),
        now_ms: i64,
        random: &mut fastrand::Rng,
    ) -> Result<(Entry, usize), Problem> {
        let mut maker = BatchMaker::new(self.codec, now_ms);
        let mut place = None;
        let mut size = 0;
        for record in 0..self.records {
            let key = match self.skew == Skew::Keys && record == 0 {
                true => {
                    let (key, found) = own_key(keys, places, partitions, random)?;
                    place = Some(found);
                    Some(key)
                }
                false => keys.choose(random),
            };
            let value = self.contents.value(self.sizes.choose(random), random);
            size += value.len() + key.as_ref().map_or(0, Vec::len);
            maker = maker.record(key.as_deref(), &value);
        }
        Ok((
            Entry {
                batch: maker.prepare()?,
                place,
            },
            size,
        ))
    }
}

/// A key of a partition among `places`, and that partition.
fn own_key(
    keys: &mut KeyChooser,
    places: &[usize],
    partitions: usize,
    random: &mut fastrand::Rng,
) -> Result<(Vec<u8>, usize), Problem> {
    for _ in 0..DRAWS_MAX {
        let Some(key) = keys.choose(random) else {
            return Err(Problem::new(
                "--skew keys needs keys to go by; add --keys uniform:1000 or the like".to_owned(),
            ));
        };
        let place = partition_of_key(&key, partitions);
        if places.contains(&place) {
            return Ok((key, place));
        }
    }
    Err(Problem::new(
        "no key belongs to the partitions of one of the threads; ask for more --keys or fewer --cpus".to_owned(),
    ))
}

impl Contents {
    fn value(self, size: usize, random: &mut fastrand::Rng) -> Vec<u8> {
        match self {
            Self::Zeros => vec![0; size],
            Self::Random => {
                let mut value = vec![0; size];
                random.fill(&mut value);
                value
            }
            Self::Json => {
                let mut text = String::with_capacity(size + 128);
                while text.len() < size {
                    let event = ["click", "view", "scroll", "purchase"][random.usize(..4)];
                    text.push_str(&format!(
                        "{{\"event\":\"{event}\",\"user\":{},\"page\":\"/articles/{}\",\"ms\":{}}},",
                        random.u32(..100_000),
                        random.u32(..500),
                        random.u32(..5_000)
                    ));
                }
                text.truncate(size);
                text.into_bytes()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(keys: &str, skew: &str) -> Recipe {
        Recipe {
            records: 2,
            sizes: "100".parse().unwrap(),
            contents: Contents::Json,
            keys: keys.parse().unwrap(),
            skew: skew.parse().unwrap(),
            codec: Codec::None,
        }
    }

    #[test]
    fn a_batch_by_keys_goes_to_a_partition_of_its_thread() {
        let mut random = fastrand::Rng::with_seed(3);
        let recipe = recipe("uniform:1000", "keys");
        let mut batches = Batches::make(&recipe, &[1, 4], 6, &mut random).unwrap();
        for _ in 0..100 {
            assert!([Some(1), Some(4)].contains(&batches.next_partition()));
            batches.take();
        }
    }

    #[test]
    fn keys_that_are_missing_or_too_few_get_a_sentence() {
        let mut random = fastrand::Rng::with_seed(3);
        let said = Batches::make(&recipe("none", "keys"), &[0], 1, &mut random).unwrap_err();
        assert!(said.to_string().contains("--keys"), "{said}");
        let one = partition_of_key(b"key-00000000", 5);
        let other = [(one + 1) % 5];
        let said =
            Batches::make(&recipe("sequence:1", "keys"), &other, 5, &mut random).unwrap_err();
        assert!(said.to_string().contains("fewer --cpus"), "{said}");
    }

    #[test]
    fn json_is_smaller_compressed_and_random_bytes_are_not() {
        let size = |contents, codec| {
            let recipe = Recipe {
                records: 50,
                sizes: "1000".parse().unwrap(),
                contents,
                codec,
                ..recipe("none", "even")
            };
            let mut random = fastrand::Rng::with_seed(3);
            Batches::make(&recipe, &[0], 1, &mut random)
                .unwrap()
                .bytes_mean()
        };
        let plain = size(Contents::Json, Codec::None);
        assert!(size(Contents::Json, Codec::Zstd) * 3 < plain);
        assert!(size(Contents::Random, Codec::Zstd) * 10 > plain * 9);
        assert!(size(Contents::Zeros, Codec::Lz4) * 50 < plain);
    }
}
