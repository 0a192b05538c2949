//! The middle of several rounds, and how far apart they lie.

/// A quantity over the rounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The middle one; of an even number, the lower of the two.
    pub median: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of these values; none of none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Some(Self {
            min: *values.first()?,
            median: values[(values.len() - 1) / 2],
            max: *values.last()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_disturbed_round_does_not_count() {
        let spread = Spread::of([1.0, 900.0, 2.0, 3.0, 1.5]).expect("there are some");
        assert_eq!(
            spread,
            Spread {
                min: 1.0,
                median: 2.0,
                max: 900.0
            }
        );
        assert_eq!(Spread::of([]), None);
        assert_eq!(
            Spread::of([1.0, 2.0]).map(|spread| spread.median),
            Some(1.0)
        );
    }
}
