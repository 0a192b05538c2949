//! Which parts of the latencies are told, and how many samples that takes.

/// A quantile of latencies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Quantile {
    /// Half of them are not longer.
    P50,
    /// 90 % are not longer.
    P90,
    /// 99 % are not longer.
    P99,
    /// 99.9 % are not longer.
    P999,
    /// 99.99 % are not longer.
    P9999,
    /// None is longer.
    Max,
}

/// So many samples have to lie beyond a quantile for it to be quoted without a mark.
const SAMPLES_BEYOND: f64 = 1000.0;

impl Quantile {
    /// From the shortest to the longest.
    pub const ALL: [Self; 6] = [
        Self::P50,
        Self::P90,
        Self::P99,
        Self::P999,
        Self::P9999,
        Self::Max,
    ];

    /// As people write it.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::P9999 => "p99.99",
            Self::Max => "max",
        }
    }

    /// As a name in JSON.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p999",
            Self::P9999 => "p9999",
            Self::Max => "max",
        }
    }

    /// The part of the samples that are not longer.
    #[must_use]
    pub fn fraction(self) -> f64 {
        match self {
            Self::P50 => 0.5,
            Self::P90 => 0.9,
            Self::P99 => 0.99,
            Self::P999 => 0.999,
            Self::P9999 => 0.9999,
            Self::Max => 1.0,
        }
    }

    /// How many samples a round needs for this to be more than an indication.
    #[must_use]
    pub fn samples_needed(self) -> u64 {
        match self {
            Self::P999 => 1_000_000,
            Self::P9999 => 10_000_000,
            // The middle needs few; and the longest is the longest, whatever their number.
            Self::P50 | Self::P90 | Self::P99 | Self::Max => 0,
        }
    }

    /// How many samples a round needs for this to be told at all: ten beyond it.
    #[must_use]
    pub fn samples_least(self) -> u64 {
        match self {
            Self::P9999 => 100_000,
            Self::P50 | Self::P90 | Self::P99 | Self::P999 | Self::Max => 0,
        }
    }
}

/// Up to which part of so many samples a curve is more than an indication: the rule of
/// [`Quantile::samples_needed`] for the quantiles in between.
#[must_use]
pub(super) fn fraction_supported(samples: u64) -> f64 {
    let part = 1.0 - SAMPLES_BEYOND / count(samples).max(1.0);
    part.max(Quantile::P99.fraction())
}

/// A count for calculations.
#[expect(clippy::cast_precision_loss, reason = "2^53 are more than a run has")]
#[must_use]
pub(super) fn count(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_and_tables_follow_one_rule() {
        for quantile in [Quantile::P999, Quantile::P9999] {
            let supported = fraction_supported(quantile.samples_needed());
            assert!((supported - quantile.fraction()).abs() < 1e-9);
        }
        assert!((fraction_supported(0) - 0.99).abs() < 1e-9);
    }
}
