//! What is left to chance: sizes, keys, and which partition.

use std::fmt;
use std::str::FromStr;

/// A choice among numbers from zero, each with its weight.
#[derive(Clone, Debug)]
struct Weighted {
    /// Sums of weights up to and with each.
    sums: Vec<f64>,
}

impl Weighted {
    fn new(weights: impl IntoIterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        let sums = weights.into_iter().map(|weight| {
            sum += weight;
            sum
        });
        Self {
            sums: sums.collect(),
        }
    }

    /// Weight 1 / (n + 1)^s, as words of a language have.
    fn zipf(count: usize, exponent: f64) -> Self {
        let ranks = (1..=count).map(|rank| {
            #[expect(clippy::cast_precision_loss, reason = "ranks are far below 2^53")]
            let rank = rank as f64;
            rank.powf(-exponent)
        });
        Self::new(ranks)
    }

    /// The weight of one.
    fn of(&self, number: usize) -> f64 {
        let before = number
            .checked_sub(1)
            .map_or(0.0, |before| self.sums[before]);
        self.sums[number] - before
    }

    fn choose(&self, random: &mut fastrand::Rng) -> usize {
        let all = self.sums.last().expect("there is something to choose");
        let at = random.f64() * all;
        self.sums
            .partition_point(|sum| *sum <= at)
            .min(self.sums.len() - 1)
    }
}

/// How many bytes a record's value has.
#[derive(Clone, PartialEq, Debug)]
pub enum Sizes {
    /// Any number between the two, and them.
    Between(usize, usize),
    /// One of these, as often as its weight says.
    Mixed(Vec<(usize, u32)>),
}

/// The largest value that is made.
const SIZE_MAX: usize = 64 << 20;

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| -> Result<usize, String> {
            let size: usize = text.trim().parse().map_err(|_| {
                format!("{text:?} is no size; write bytes as in 1024, 100-2000, or 100x9,10000x1")
            })?;
            if size > SIZE_MAX {
                return Err(format!(
                    "{size} bytes are more than the {SIZE_MAX} a value may have"
                ));
            }
            Ok(size)
        };
        if let Some((from, to)) = text.split_once('-') {
            let (from, to) = (number(from)?, number(to)?);
            if from > to {
                return Err(format!(
                    "sizes from {from} to {to} are none; turn them around"
                ));
            }
            return Ok(Self::Between(from, to));
        }
        let parts = text.split(',').map(|part| match part.split_once('x') {
            None => Ok((number(part)?, 1)),
            Some((size, weight)) => match weight.trim().parse() {
                Ok(weight @ 1..) => Ok((number(size)?, weight)),
                _ => Err(format!("{weight:?} in {part:?} is no weight of 1 or more")),
            },
        });
        Ok(Self::Mixed(parts.collect::<Result<_, String>>()?))
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Between(from, to) => write!(f, "{from} to {to}"),
            Self::Mixed(parts) => {
                let sizes: Vec<_> = parts.iter().map(|(size, _)| size.to_string()).collect();
                f.write_str(&sizes.join(" or "))
            }
        }
    }
}

impl Sizes {
    /// One of them.
    pub fn choose(&self, random: &mut fastrand::Rng) -> usize {
        match self {
            Self::Between(from, to) => random.usize(*from..=*to),
            Self::Mixed(parts) => match parts.as_slice() {
                [(size, _)] => *size,
                parts => {
                    let weights = parts.iter().map(|(_, weight)| f64::from(*weight));
                    parts[Weighted::new(weights).choose(random)].0
                }
            },
        }
    }
}

/// Which keys records have.
#[derive(Clone, PartialEq, Debug)]
pub enum Keys {
    /// None.
    None,
    /// So many, each as often.
    Uniform(usize),
    /// So many, the n-th as often as 1 / n^s says.
    Zipf(usize, f64),
    /// So many, one after the other, over again.
    Sequence(usize),
}

/// The most keys that are told apart.
const KEYS_MAX: usize = 10_000_000;

impl FromStr for Keys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(':');
        let kind = words.next().unwrap_or_default();
        let count = |word: Option<&str>| match word.and_then(|word| word.parse().ok()) {
            Some(count @ 1..=KEYS_MAX) => Ok(count),
            _ => Err(format!(
                "{text:?} needs a number of keys from 1 to {KEYS_MAX}, as in {kind}:1000"
            )),
        };
        let keys = match kind {
            "none" => Self::None,
            "uniform" => Self::Uniform(count(words.next())?),
            "sequence" => Self::Sequence(count(words.next())?),
            "zipf" => Self::Zipf(count(words.next())?, exponent(words.next(), text)?),
            _ => {
                return Err(format!(
                    "{text:?} are no keys; there are none, uniform:N, sequence:N and zipf:N:S"
                ));
            }
        };
        over(words.next(), text)?;
        Ok(keys)
    }
}

/// Chooses keys.
#[derive(Clone, Debug)]
pub(super) struct KeyChooser {
    keys: Keys,
    weights: Option<Weighted>,
    next: usize,
}

impl KeyChooser {
    pub(super) fn new(keys: &Keys) -> Self {
        let weights = match keys {
            Keys::Zipf(count, exponent) => Some(Weighted::zipf(*count, *exponent)),
            Keys::None | Keys::Uniform(_) | Keys::Sequence(_) => None,
        };
        Self {
            keys: keys.clone(),
            weights,
            next: 0,
        }
    }

    /// The part of all keys, by how often each is chosen, that belongs to `places`.
    pub(super) fn share(&self, places: &[usize], partitions: usize) -> f64 {
        let count = match self.keys {
            Keys::None => return 1.0,
            Keys::Uniform(count) | Keys::Zipf(count, _) | Keys::Sequence(count) => count,
        };
        let (mut ours, mut all) = (0.0, 0.0);
        for number in 0..count {
            let weight = self
                .weights
                .as_ref()
                .map_or(1.0, |weights| weights.of(number));
            all += weight;
            if places.contains(&partition_of_key(&key(number), partitions)) {
                ours += weight;
            }
        }
        ours / all
    }

    /// The next record's key.
    pub(super) fn choose(&mut self, random: &mut fastrand::Rng) -> Option<Vec<u8>> {
        let number = match (&self.keys, &self.weights) {
            (Keys::None, _) => return None,
            (_, Some(weights)) => weights.choose(random),
            (Keys::Uniform(count) | Keys::Zipf(count, _), None) => random.usize(..*count),
            (Keys::Sequence(count), None) => {
                self.next += 1;
                (self.next - 1) % count
            }
        };
        Some(key(number))
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("key-{number:08}").into_bytes()
}

/// Which partition a batch goes to.
#[derive(Clone, PartialEq, Debug)]
pub enum Skew {
    /// One after the other.
    Even,
    /// The n-th as often as 1 / n^s says.
    Zipf(f64),
    /// The first gets so many percent, the others the rest.
    Hot(f64),
    /// That of its first key, as Java clients choose.
    Keys,
}

impl FromStr for Skew {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(':');
        let skew = match words.next().unwrap_or_default() {
            "even" => Self::Even,
            "keys" => Self::Keys,
            "zipf" => Self::Zipf(exponent(words.next(), text)?),
            "hot" => match words.next().and_then(|word| word.parse().ok()) {
                Some(percent) if (0.0..=100.0).contains(&percent) => Self::Hot(percent),
                _ => return Err(format!("{text:?} needs a part from 0 to 100, as in hot:90")),
            },
            _ => {
                return Err(format!(
                    "{text:?} is no skew; there are even, zipf:S, hot:PERCENT and keys"
                ));
            }
        };
        over(words.next(), text)?;
        Ok(skew)
    }
}

impl Skew {
    /// The part of all batches that goes to `places` of `all` partitions.
    pub(crate) fn share(&self, places: &[usize], all: usize) -> f64 {
        let of = |places: &[usize]| match self.weights(places, all) {
            Some(weights) => *weights.sums.last().expect("there are places"),
            #[expect(clippy::cast_precision_loss, reason = "partitions are few")]
            None => places.len() as f64,
        };
        let whole: Vec<usize> = (0..all).collect();
        of(places) / of(&whole)
    }

    /// The weights of these; none if all are alike.
    fn weights(&self, places: &[usize], all: usize) -> Option<Weighted> {
        match self {
            Self::Even | Self::Keys => None,
            Self::Zipf(exponent) => {
                let whole = Weighted::zipf(all, *exponent);
                Some(Weighted::new(places.iter().map(|place| whole.of(*place))))
            }
            Self::Hot(percent) => {
                #[expect(clippy::cast_precision_loss, reason = "partitions are few")]
                let others = (all.max(2) - 1) as f64;
                let weight = |place: &usize| match place {
                    0 => *percent,
                    _ => (100.0 - percent) / others,
                };
                Some(Weighted::new(places.iter().map(weight)))
            }
        }
    }
}

/// Chooses partitions by their place in the list of those that a thread has.
#[derive(Clone, Debug)]
pub(crate) struct PartitionChooser {
    count: usize,
    weights: Option<Weighted>,
    next: usize,
}

impl PartitionChooser {
    /// Among `places` of `all` partitions, whose weights are those of the whole topic.
    pub(crate) fn new(skew: &Skew, places: &[usize], all: usize) -> Self {
        assert!(!places.is_empty());
        let weights = skew.weights(places, all);
        Self {
            count: places.len(),
            weights,
            next: 0,
        }
    }

    pub(super) fn choose(&mut self, random: &mut fastrand::Rng) -> usize {
        match &self.weights {
            Some(weights) if weights.sums.last().is_some_and(|sum| *sum > 0.0) => {
                weights.choose(random)
            }
            _ => {
                self.next += 1;
                (self.next - 1) % self.count
            }
        }
    }
}

/// The partition that a key belongs to by Kafka's default partitioner: murmur2, sign bit off.
pub(super) fn partition_of_key(key: &[u8], partitions: usize) -> usize {
    const M: u32 = 0x5bd1_e995;
    let length = u32::try_from(key.len()).expect("keys are short");
    let mut hash = 0x9747_b28c ^ length;
    let mut words = key.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes(word.try_into().expect("four bytes"));
        k = k.wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (shift, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * shift);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^= hash >> 15;
    (hash & 0x7fff_ffff) as usize % partitions
}

fn exponent(word: Option<&str>, text: &str) -> Result<f64, String> {
    match word.map_or(Ok(1.0), str::parse) {
        Ok(exponent) if (0.0..=10.0).contains(&exponent) => Ok(exponent),
        _ => Err(format!(
            "{text:?} needs an exponent from 0 to 10 at its end, as in 1.1"
        )),
    }
}

fn over(word: Option<&str>, text: &str) -> Result<(), String> {
    match word {
        None => Ok(()),
        Some(word) => Err(format!("{text:?} has {word:?} too much")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random() -> fastrand::Rng {
        fastrand::Rng::with_seed(1)
    }

    #[test]
    fn sizes_are_those_asked_for() {
        assert_eq!("1024".parse::<Sizes>().unwrap().choose(&mut random()), 1024);
        let sizes: Sizes = "100-102".parse().unwrap();
        let mut random = random();
        let drawn: std::collections::BTreeSet<_> =
            (0..200).map(|_| sizes.choose(&mut random)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [100, 101, 102]);
        let mixed: Sizes = "10x9,1000x1".parse().unwrap();
        let large = (0..10_000)
            .filter(|_| mixed.choose(&mut random) == 1000)
            .count();
        assert!(
            (900..1100).contains(&large),
            "{large} of 10,000 at weight 1 of 10"
        );
    }

    #[test]
    fn nonsense_gets_a_sentence_with_the_nonsense_in_it() {
        for (text, word) in [
            ("y", "no size"),
            ("5-1", "turn"),
            ("10x0", "weight"),
            ("", "no size"),
        ] {
            let said = text.parse::<Sizes>().unwrap_err();
            assert!(said.contains(word), "{text}: {said}");
        }
        assert!(
            "99999999999"
                .parse::<Sizes>()
                .unwrap_err()
                .contains("more than")
        );
        for text in [
            "zipf",
            "zipf:0",
            "uniform:x",
            "some",
            "zipf:10:99",
            "uniform:3:4",
            "none:1",
        ] {
            let said = text.parse::<Keys>().unwrap_err();
            assert!(said.contains(text), "{text}: {said}");
        }
        for text in ["hot", "hot:101", "zipf:x", "most", "even:1"] {
            let said = text.parse::<Skew>().unwrap_err();
            assert!(said.contains(text), "{text}: {said}");
        }
    }

    #[test]
    fn zipf_prefers_the_first_as_the_law_says() {
        let mut keys = KeyChooser::new(&"zipf:4:1".parse().unwrap());
        let mut random = random();
        let first = (0..10_000)
            .filter(|_| keys.choose(&mut random).as_deref() == Some(b"key-00000000".as_slice()));
        // 1 / (1 + 1/2 + 1/3 + 1/4) is 0.48.
        let first = first.count();
        assert!((4600..5000).contains(&first), "{first}");
    }

    #[test]
    fn a_hot_partition_gets_its_part() {
        let mut chooser = PartitionChooser::new(&"hot:90".parse().unwrap(), &[0, 1, 2], 3);
        let mut random = random();
        let hot = (0..10_000)
            .filter(|_| chooser.choose(&mut random) == 0)
            .count();
        assert!((8800..9200).contains(&hot), "{hot}");
        // A thread that has only cold ones spreads over them.
        let mut cold = PartitionChooser::new(&"hot:100".parse().unwrap(), &[1, 2], 3);
        let chosen: Vec<_> = (0..4).map(|_| cold.choose(&mut random)).collect();
        assert_eq!(chosen, [0, 1, 0, 1]);
    }

    #[test]
    fn threads_share_by_the_weights_of_their_partitions() {
        let of = |skew: &str, places: &[usize]| skew.parse::<Skew>().unwrap().share(places, 3);
        assert!((of("even", &[0, 2]) - 2.0 / 3.0).abs() < 1e-9);
        assert!((of("hot:90", &[0]) - 0.9).abs() < 1e-9);
        assert!((of("hot:90", &[1, 2]) - 0.1).abs() < 1e-9);
        // 1 of 1 + 1/2 + 1/3.
        assert!((of("zipf:1", &[0]) - 6.0 / 11.0).abs() < 1e-9);
    }

    #[test]
    fn threads_share_keys_by_how_often_each_is_chosen() {
        let chooser = KeyChooser::new(&"zipf:3:1".parse().unwrap());
        let place_of = |number| partition_of_key(&key(number), 7);
        let [first, others] = [vec![place_of(0)], vec![place_of(1), place_of(2)]];
        assert!(!others.contains(&first[0]), "the test needs keys apart");
        // 1 of 1 + 1/2 + 1/3.
        assert!((chooser.share(&first, 7) - 6.0 / 11.0).abs() < 1e-9);
        assert!((chooser.share(&others, 7) - 5.0 / 11.0).abs() < 1e-9);
    }

    #[test]
    fn keys_go_where_java_clients_send_them() {
        // What Utils.murmur2 of Apache Kafka gives, before its sign bit is taken off.
        for (key, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
        ] {
            let positive = (hash & 0x7fff_ffff).unsigned_abs() as usize;
            assert_eq!(
                partition_of_key(key.as_bytes(), 1_000_000_007),
                positive % 1_000_000_007,
                "{key}"
            );
        }
    }
}
