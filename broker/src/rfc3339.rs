//! Moments as RFC 3339 writes them, into milliseconds since 1970.

use toml::value::{Datetime, Offset};

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

/// The moment, to the millisecond it lies in; `None`: it is none, or does not say how far it is
/// from UTC.
#[must_use]
pub(crate) fn milliseconds(text: &str) -> Option<i64> {
    let moment: Datetime = text.trim().parse().ok()?;
    let (date, time) = (moment.date?, moment.time?);
    let offset_minutes = match moment.offset? {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let days = days_since_1970(
        i64::from(date.year),
        i64::from(date.month),
        i64::from(date.day),
    );
    let seconds = i64::from(time.hour) * 3600
        + i64::from(time.minute) * 60
        + i64::from(time.second.unwrap_or(0));
    let milliseconds = i64::from(time.nanosecond.unwrap_or(0) / 1_000_000);
    Some(days * DAY_MS + seconds * 1000 + milliseconds - offset_minutes * MINUTE_MS)
}

/// Days of the Gregorian calendar. Years are counted from March on, so that the day that is not
/// always there is the last one.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    // 719,468 days lie between the 1st of March of the year 0 and 1970.
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_what_the_unix_clock_says() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:00.999Z", 999),
            ("1969-12-31T23:59:59Z", -1000),
            ("2000-02-29T12:00:00Z", 951_825_600_000),
            ("2001-09-09T01:46:40Z", 1_000_000_000_000),
            ("2001-09-09T03:46:40+02:00", 1_000_000_000_000),
            ("2001-09-08 20:16:40-05:30", 1_000_000_000_000),
            ("2100-03-01T00:00:00Z", 4_107_542_400_000),
        ] {
            assert_eq!(milliseconds(text), Some(expected), "{text}");
        }
        for wrong in [
            "",
            "2030-01-31",
            "2030-01-31T00:00:00",
            "2030-02-30T00:00:00Z",
            "2030-01-31T25:00:00Z",
            "tomorrow",
        ] {
            assert_eq!(milliseconds(wrong), None, "{wrong}");
        }
    }
}
