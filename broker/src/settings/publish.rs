//! What tenants may publish.

use super::SettingsError;
use super::value::Checked;
use felix_core::quota::{Budget, Budgets};
use std::num::NonZeroU64;
use std::time::Duration;

const RATE: &str = "FELIX_TENANT_PUBLISH_BYTES_PER_SEC";
const BURST: &str = "FELIX_TENANT_PUBLISH_BURST_BYTES";

/// The budgets, if tenants have any.
pub(super) fn resolve(values: &Checked<'_>) -> Result<Option<Budgets>, SettingsError> {
    let burst = values.optional_number(BURST);
    let rate = values.optional_number(RATE).and_then(NonZeroU64::new);
    let Some(bytes_per_second) = rate else {
        return match burst {
            None => Ok(None),
            Some(burst) => Err(SettingsError::Together(format!(
                "{BURST}={burst} is given and {RATE} is not, so nothing would be bounded; give both"
            ))),
        };
    };
    let budget = Budget {
        bytes_per_second,
        burst_bytes: burst.unwrap_or(bytes_per_second.get()),
    };
    let throttle_max = values.number("FELIX_TENANT_PUBLISH_MAX_THROTTLE_MS");
    let throttle_max = Duration::from_millis(throttle_max);
    Ok(Some(Budgets::same(budget, throttle_max)))
}

#[cfg(test)]
mod tests {
    use super::super::{Outcome, read};
    use super::*;

    fn publish(flags: &[&str]) -> Result<Option<Budgets>, String> {
        let arguments = ["felix-broker"].iter().chain(flags);
        let arguments = arguments.map(|text| (*text).to_owned());
        match read(arguments, []).map_err(|error| error.to_string())? {
            Outcome::Run(settings) => Ok(settings.publish),
            other => panic!("{other:?}"),
        }
    }

    fn budgets(rate: u64, burst_bytes: u64, throttle_max: Duration) -> Budgets {
        let budget = Budget {
            bytes_per_second: NonZeroU64::new(rate).unwrap(),
            burst_bytes,
        };
        Budgets::same(budget, throttle_max)
    }

    #[test]
    fn without_a_rate_there_is_no_budget_and_without_a_burst_it_is_one_second() {
        assert_eq!(publish(&[]), Ok(None));
        let rate = "--tenant-publish-bytes-per-sec=5000";
        let second = budgets(5000, 5000, Duration::from_secs(20));
        assert_eq!(publish(&[rate]), Ok(Some(second)));
        let all = [
            rate,
            "--tenant-publish-burst-bytes=70",
            "--tenant-publish-max-throttle-ms=9",
        ];
        let given = budgets(5000, 70, Duration::from_millis(9));
        assert_eq!(publish(&all), Ok(Some(given)));
    }

    #[test]
    fn a_burst_without_a_rate_is_refused() {
        let sentence = publish(&["--tenant-publish-burst-bytes=70"]).unwrap_err();
        assert!(sentence.contains("give both"), "{sentence}");
    }

    #[test]
    fn a_rate_or_a_burst_of_nothing_is_refused() {
        let (rate, burst) = (
            "--tenant-publish-bytes-per-sec=5000",
            "--tenant-publish-burst-bytes=70",
        );
        assert!(publish(&[rate, burst]).is_ok());
        for (wrong, named) in [
            ([rate, "--tenant-publish-burst-bytes=0"], BURST),
            (["--tenant-publish-bytes-per-sec=0", burst], RATE),
        ] {
            let sentence = publish(&wrong).unwrap_err();
            assert!(sentence.contains(named), "{sentence}");
            assert!(!sentence.contains("give both"), "{sentence}");
        }
    }
}
