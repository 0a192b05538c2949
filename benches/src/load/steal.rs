//! Time that the host gave to others, as the kernel sees it.

use crate::problem::Problem;
use std::fs;

/// Ticks since the machine started: stolen ones and all, of the processors asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ticks {
    stolen: Vec<u64>,
    all: u64,
}

impl Ticks {
    /// Now, of these processors.
    pub(crate) fn now(cpus: &[usize]) -> Result<Self, Problem> {
        let text = fs::read_to_string("/proc/stat")
            .map_err(|error| Problem::new(format!("/proc/stat is not to be read: {error}")))?;
        Ok(Self::parse(&text, cpus))
    }

    fn parse(text: &str, cpus: &[usize]) -> Self {
        let mut ticks = Self {
            stolen: Vec::new(),
            all: 0,
        };
        for cpu in cpus {
            let name = format!("cpu{cpu}");
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(&name)?.strip_prefix(' '));
            let fields = line.unwrap_or_default().split_whitespace();
            // user, nice, system, idle, iowait, irq, softirq, steal; guests' time is part of user.
            let fields: Vec<u64> = fields
                .take(8)
                .filter_map(|field| field.parse().ok())
                .collect();
            ticks
                .stolen
                .push(fields.get(7).copied().unwrap_or_default());
            ticks.all += fields.iter().sum::<u64>();
        }
        ticks
    }

    /// Whether any of the processors lost a tick since `before`.
    pub(crate) fn is_stolen_since(&self, before: &Self) -> bool {
        self.stolen
            .iter()
            .zip(&before.stolen)
            .any(|(now, before)| now > before)
    }

    /// The part of the processors' time since `before` that went to others, in percent.
    pub(crate) fn stolen_percent_since(&self, before: &Self) -> f64 {
        let sum = |ticks: &Self| ticks.stolen.iter().sum::<u64>();
        let part = |ticks: u64| f64::from(u32::try_from(ticks).unwrap_or(u32::MAX));
        let stolen = sum(self).saturating_sub(sum(before));
        100.0 * part(stolen) / part(self.all.saturating_sub(before.all)).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_processors_in_use_count() {
        let before = "cpu  9 9 9 9 9 9 9 9\ncpu0 10 0 0 80 0 0 0 5 0 0\ncpu1 1 1 1 1 1 1 1 1\ncpu10 0 0 0 0 0 0 0 7\n";
        let after = "cpu  9 9 9 9 9 9 9 9\ncpu0 15 0 0 170 0 0 0 10 0 0\ncpu1 1 1 1 1 1 1 1 9\ncpu10 0 0 0 0 0 0 0 7\n";
        let of = |cpus: &[usize]| {
            let [before, after] = [before, after].map(|text| Ticks::parse(text, cpus));
            (
                after.is_stolen_since(&before),
                after.stolen_percent_since(&before),
            )
        };
        assert_eq!(of(&[0]), (true, 5.0));
        assert_eq!(of(&[1]), (true, 100.0));
        assert_eq!(of(&[10]), (false, 0.0));
        assert_eq!(of(&[99]), (false, 0.0));
    }
}
