//! Where values lie on a plot.

/// Beyond this factor between greatest and least, equal steps would hide the small ones.
const LINEAR_FACTOR_MAX: f64 = 8.0;
/// About so many ticks with equal steps.
const TICKS: f64 = 5.0;

/// Values along a line of the drawing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    is_log: bool,
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Axis {
    /// In equal steps, with room to the next round value.
    pub(super) fn linear(from: f64, to: f64, (start, end): (f64, f64)) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        let step = step(to - from);
        Self {
            is_log: false,
            from: (from / step).floor() * step,
            to: (to / step).ceil() * step,
            start,
            end,
        }
    }

    /// In equal steps, and just so long.
    pub(super) fn exact(from: f64, to: f64, (start, end): (f64, f64)) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        Self {
            is_log: false,
            from,
            to,
            start,
            end,
        }
    }

    /// In equal steps from zero or, if the values lie far apart, in equal factors. Values that are
    /// not above zero, or no numbers, do not count.
    pub(super) fn fitting(values: impl IntoIterator<Item = f64>, line: (f64, f64)) -> Self {
        let values = values.into_iter();
        let values = values.filter(|value| value.is_finite() && *value > 0.0);
        let bounds = values.fold(None, |bounds: Option<(f64, f64)>, value| {
            let (least, greatest) = bounds.unwrap_or((value, value));
            Some((least.min(value), greatest.max(value)))
        });
        match bounds {
            None => Self::linear(0.0, 1.0, line),
            Some((least, greatest)) if greatest / least <= LINEAR_FACTOR_MAX => {
                Self::linear(0.0, greatest, line)
            }
            Some((least, greatest)) => Self {
                is_log: true,
                from: round_down(least),
                to: round_up(greatest),
                start: line.0,
                end: line.1,
            },
        }
    }

    /// Whether equal distances are equal factors.
    pub(super) fn is_log(&self) -> bool {
        self.is_log
    }

    /// Where a value lies; those beyond an end lie at it.
    pub(super) fn at(&self, value: f64) -> f64 {
        let part = if self.is_log {
            let value = value.max(f64::MIN_POSITIVE);
            (value / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.start + part.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// Round values along it, from the least.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            return self.log_ticks();
        }
        let step = step(self.to - self.from);
        let first = (self.from / step).ceil();
        let ticks = (0..=20_u8).map(|index| (first + f64::from(index)) * step);
        ticks
            .take_while(|tick| *tick <= self.to + step / 1e3)
            .collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        // With few powers of ten, values between them are wanted too.
        let factors: &[f64] = match (self.to / self.from).log10() {
            decades if decades <= 3.5 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let mut power = 10_f64.powf(self.from.log10().floor());
        let mut ticks = Vec::new();
        while power <= self.to * 1.001 {
            ticks.extend(factors.iter().map(|factor| factor * power));
            power *= 10.0;
        }
        ticks.retain(|tick| *tick >= self.from * 0.999 && *tick <= self.to * 1.001);
        ticks
    }
}

/// 1, 2 or 5 times a power of ten, so that about [`TICKS`] of it make the range.
fn step(range: f64) -> f64 {
    let rough = (range / TICKS).max(1e-9);
    let power = 10_f64.powf(rough.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let factor = factors
        .into_iter()
        .find(|factor| factor * power >= rough * 0.999);
    factor.unwrap_or(10.0) * power
}

/// The next value of 1, 2 or 5 times a power of ten that is not above this.
fn round_down(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [5.0, 2.0, 1.0]
        .into_iter()
        .find(|factor| factor * power <= value * 1.001);
    factor.unwrap_or(1.0) * power
}

/// The next value of 1, 2 or 5 times a power of ten that is not below this.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|factor| factor * power >= value * 0.999);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: (f64, f64) = (0.0, 100.0);

    fn near(ticks: &[f64], should: &[f64]) {
        assert_eq!(ticks.len(), should.len(), "{ticks:?} for {should:?}");
        for (is, should) in ticks.iter().zip(should) {
            assert!((is - should).abs() < should.abs() / 1e6 + 1e-9, "{ticks:?}");
        }
    }

    #[test]
    fn ticks_are_round_values() {
        near(
            &Axis::linear(0.0, 9.3, LINE).ticks(),
            &[0.0, 2.0, 4.0, 6.0, 8.0, 10.0],
        );
        near(
            &Axis::fitting([30.0, 240.0], LINE).ticks(),
            &[0.0, 50.0, 100.0, 150.0, 200.0, 250.0],
        );
        near(
            &Axis::fitting([57.0, 1100.0], LINE).ticks(),
            &[50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0],
        );
        near(
            &Axis::fitting([7.0, 104_000.0], LINE).ticks(),
            &[10.0, 100.0, 1000.0, 10_000.0, 100_000.0],
        );
    }

    #[test]
    fn values_lie_between_the_ends() {
        let axis = Axis::fitting([10.0, 1000.0], LINE);
        assert!(axis.is_log());
        assert!((axis.at(100.0) - 50.0).abs() < 1e-9);
        assert!((axis.at(0.0) - 0.0).abs() < 1e-9);
        assert!((axis.at(1e9) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn an_axis_of_nothing_is_one_of_something() {
        for values in [vec![], vec![0.0], vec![f64::NAN, -1.0]] {
            let axis = Axis::fitting(values, LINE);
            assert!(axis.ticks().len() > 2);
            assert!(axis.at(0.5).is_finite());
        }
        assert!(Axis::exact(0.0, 0.0, LINE).at(0.0).is_finite());
    }
}
