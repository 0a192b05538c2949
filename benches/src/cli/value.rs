//! Values of arguments, each with the sentence that nonsense gets.

use clap::ArgMatches;
use std::str::FromStr;
use std::time::Duration;

/// The most records a second that may be asked for.
const RATE_MAX: f64 = 100_000_000.0;
/// The longest turn.
const SECONDS_MAX: f64 = 24.0 * 3600.0;

/// Rates in records a second, one after the other; `None` is as fast as answers come.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Rates(pub(super) Vec<Option<f64>>);

impl FromStr for Rates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate = |word: &str| match word.trim() {
            "max" => Ok(None),
            word => match word.parse::<f64>() {
                Ok(rate) if rate > 0.0 && rate <= RATE_MAX => Ok(Some(rate)),
                _ => Err(format!(
                    "{word:?} is no rate; write records a second up to {RATE_MAX:.0}, several with \
                     commas, or max for as fast as answers come"
                )),
            },
        };
        Ok(Self(text.split(',').map(rate).collect::<Result<_, _>>()?))
    }
}

/// A length of time: `10s`, `500ms`, `2m`, or seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|letter: char| letter.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    match number.trim().parse::<f64>().map(|number| number * factor) {
        Ok(seconds) if (0.0..=SECONDS_MAX).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err(format!(
            "{text:?} is no length of time up to a day; write 10s, 500ms or 2m"
        )),
    }
}

/// Processors: `1`, `1,3` or `2-5`.
pub(super) fn cpus(text: &str) -> Result<Vec<usize>, String> {
    let number = |word: &str| {
        let number = word.trim().parse::<usize>();
        number.map_err(|_| format!("{text:?} are no processors; write numbers as in 1,3 or 2-5"))
    };
    let mut cpus = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            None => cpus.push(number(part)?),
            Some((from, to)) => {
                let (from, to) = (number(from)?, number(to)?);
                if from > to || to - from > 4096 {
                    return Err(format!(
                        "processors from {from} to {to} are none, or too many"
                    ));
                }
                cpus.extend(from..=to);
            }
        }
    }
    let mut sorted = cpus.clone();
    sorted.sort_unstable();
    sorted.dedup();
    match sorted.len() == cpus.len() {
        true => Ok(cpus),
        false => Err(format!("{text:?} names a processor twice")),
    }
}

/// A number within bounds, told with them if it is none.
pub(super) fn number(from: u64, to: u64) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| match text.trim().parse::<u64>() {
        Ok(number) if (from..=to).contains(&number) => Ok(number),
        _ => Err(format!("{text:?} is no whole number from {from} to {to}")),
    }
}

/// The value of an argument that has a default or must be given.
pub(super) fn chosen<'a, T: Clone + Send + Sync + 'static>(
    matches: &'a ArgMatches,
    name: &str,
) -> &'a T {
    matches.get_one(name).expect("it is there in any case")
}

/// A number that [`number`] has let pass.
pub(super) fn count(matches: &ArgMatches, name: &str) -> usize {
    let count = matches.get_one::<u64>(name).expect("it has a default");
    usize::try_from(*count).expect("its bound is below")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_step_up_and_nonsense_is_named() {
        assert_eq!("1000, max".parse(), Ok(Rates(vec![Some(1000.0), None])));
        for text in ["", "0", "-5", "fast", "1,", "1e99", "nan", "inf"] {
            assert!(
                text.parse::<Rates>().unwrap_err().contains("is no rate"),
                "{text}"
            );
        }
    }

    #[test]
    fn lengths_of_time_have_units() {
        for (text, ms) in [
            ("10s", 10_000),
            ("500ms", 500),
            ("2m", 120_000),
            ("1.5", 1500),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1s", "5 years", "1e9h", "nan"] {
            assert!(
                duration(text).unwrap_err().contains("no length of time"),
                "{text}"
            );
        }
    }

    #[test]
    fn processors_are_numbers_and_ranges() {
        assert_eq!(cpus("1,4-6"), Ok(vec![1, 4, 5, 6]));
        for text in ["", "a", "3-1", "1,1", "0-99999999", "-"] {
            cpus(text).unwrap_err();
        }
    }
}
