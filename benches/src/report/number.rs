//! Numbers as people read them.

/// Microseconds with three digits or so, without a unit: `8.23`, `62.5`, `1,204`.
#[must_use]
pub(super) fn micros(us: f64) -> String {
    if us < 10.0 {
        format!("{us:.2}")
    } else if us < 100.0 {
        format!("{us:.1}")
    } else {
        grouped(&format!("{us:.0}"))
    }
}

/// Microseconds in the unit that fits: `62.5 us`, `1.20 ms`, `2.10 s`.
#[must_use]
pub(super) fn latency(us: f64) -> String {
    let (value, unit) = unit(us);
    format!("{} {unit}", digits(value))
}

fn unit(us: f64) -> (f64, &'static str) {
    if us < 1e3 {
        (us, "us")
    } else if us < 1e6 {
        (us / 1e3, "ms")
    } else {
        (us / 1e6, "s")
    }
}

/// As [`latency`], for a tick that needs no more digits than its value has: `5 us`, `0.5 ms`.
#[must_use]
pub(super) fn short_latency(us: f64) -> String {
    let (value, unit) = unit(us);
    format!("{} {unit}", short(value))
}

/// No more digits than the value has, to thousandths.
#[must_use]
pub(super) fn short(value: f64) -> String {
    let text = grouped(&format!("{:.0}", value.trunc()));
    let rest = format!("{:.3}", value.fract().abs());
    let rest = rest.trim_start_matches('0').trim_end_matches('0');
    if rest == "." || rest.is_empty() {
        text
    } else {
        text + rest
    }
}

/// Three digits: `8.23`, `62.5`, `120`.
#[must_use]
pub(super) fn digits(value: f64) -> String {
    if value.abs() < 10.0 {
        format!("{value:.2}")
    } else if value.abs() < 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// A rate or another greater number: `20,000`, `12.5`.
#[must_use]
pub(super) fn amount(value: f64) -> String {
    if value < 100.0 {
        digits(value)
    } else {
        grouped(&format!("{value:.0}"))
    }
}

/// `1,000,000`.
#[must_use]
pub(super) fn count(count: u64) -> String {
    grouped(&count.to_string())
}

/// How many times another: `1.35 x`.
#[must_use]
pub(super) fn multiple(multiple: f64) -> String {
    format!("{} x", digits(multiple))
}

fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        let rest = digits.len() - index;
        if index > 0 && rest.is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        assert_eq!(
            [8.234, 62.49, 1204.4].map(micros),
            ["8.23", "62.5", "1,204"]
        );
        assert_eq!(
            [62.49, 1204.0, 2.1e6].map(latency),
            ["62.5 us", "1.20 ms", "2.10 s"]
        );
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(multiple(1.349), "1.35 x");
        assert_eq!(
            [0.0, 5.0, 2500.0, 0.5].map(short_latency),
            ["0 us", "5 us", "2.5 ms", "0.5 us"]
        );
    }
}
