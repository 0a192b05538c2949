//! Numbers as Prometheus reads them.

use crate::collect::Numbers;
use crate::troubles::Named;
use felix_core::histogram::Snapshot;
use felix_core::metrics::{Distribution, Kind, Labels, Sample, Unit};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// What is shown of a distribution, next to how many there were and how long they took.
const QUANTILES: [(&str, f64); 5] = [
    ("0.5", 0.5),
    ("0.9", 0.9),
    ("0.99", 0.99),
    ("0.999", 0.999),
    ("1", 1.0),
];

/// All that goes by one name.
struct Family {
    help: &'static str,
    values: Values,
}

enum Values {
    Numbers(Kind, BTreeMap<Labels, f64>),
    Summaries(Unit, BTreeMap<Labels, Snapshot>),
}

/// The page of these numbers, those of one name with the same labels taken together.
#[must_use]
pub(crate) fn page(numbers: Numbers) -> String {
    let mut families: BTreeMap<&'static str, Family> = BTreeMap::new();
    for sample in numbers.samples {
        add(&mut families, sample);
    }
    for distribution in numbers.distributions {
        add_distribution(&mut families, distribution);
    }
    if let Some(failed) = numbers.failed {
        add_failed(&mut families, failed);
    }
    let mut page = String::new();
    for (name, family) in &families {
        family
            .write(name, &mut page)
            .expect("a string takes everything");
    }
    page
}

fn add(families: &mut BTreeMap<&'static str, Family>, sample: Sample) {
    let family = families.entry(sample.name).or_insert_with(|| Family {
        help: sample.help,
        values: Values::Numbers(sample.kind, BTreeMap::new()),
    });
    let Values::Numbers(kind, values) = &mut family.values else {
        unreachable!("{} is a distribution elsewhere", sample.name);
    };
    let value = values.entry(sample.labels).or_insert(0.0);
    match kind {
        Kind::Counter | Kind::Gauge => *value += sample.value,
        Kind::Maximum => *value = value.max(sample.value),
    }
}

fn add_distribution(families: &mut BTreeMap<&'static str, Family>, distribution: Distribution) {
    let family = families.entry(distribution.name).or_insert_with(|| Family {
        help: distribution.help,
        values: Values::Summaries(distribution.unit, BTreeMap::new()),
    });
    let Values::Summaries(_, summaries) = &mut family.values else {
        unreachable!("{} is a number elsewhere", distribution.name);
    };
    match summaries.get_mut(&distribution.labels) {
        Some(sum) => sum.add(&distribution.values),
        None => {
            summaries.insert(distribution.labels, distribution.values);
        }
    }
}

fn add_failed(families: &mut BTreeMap<&'static str, Family>, failed: Named) {
    let unnamed = i32::try_from(failed.unnamed()).unwrap_or(i32::MAX);
    let unnamed = BTreeMap::from([(Labels::new(), f64::from(unnamed))]);
    let named = failed.labels().map(|labels| (labels, 1.0)).collect();
    for (name, help, values) in [
        (
            "felix_shard_failure",
            "1 for each shard that failed: its tenant, stream, shard and reason.",
            named,
        ),
        (
            "felix_shard_failure_unnamed",
            "Shards that failed beside those that felix_shard_failure names: there are too many.",
            unnamed,
        ),
    ] {
        let values = Values::Numbers(Kind::Gauge, values);
        families.insert(name, Family { help, values });
    }
}

impl Family {
    fn write(&self, name: &str, page: &mut String) -> fmt::Result {
        let kind = match &self.values {
            Values::Numbers(Kind::Counter, _) => "counter",
            Values::Numbers(Kind::Gauge | Kind::Maximum, _) => "gauge",
            Values::Summaries(..) => "summary",
        };
        writeln!(page, "# HELP {name} {}", self.help)?;
        writeln!(page, "# TYPE {name} {kind}")?;
        match &self.values {
            Values::Numbers(_, values) => {
                for (labels, value) in values {
                    write_line(page, name, labels, None, value)?;
                }
            }
            Values::Summaries(unit, summaries) => {
                for (labels, snapshot) in summaries {
                    write_summary(page, name, *unit, labels, snapshot)?;
                }
            }
        }
        Ok(())
    }
}

fn write_summary(
    page: &mut String,
    name: &str,
    unit: Unit,
    labels: &Labels,
    values: &Snapshot,
) -> fmt::Result {
    for (text, share) in QUANTILES {
        // Nothing in the window: there is no such number, which Prometheus writes so.
        let value = values.quantile(share);
        let value = value.map_or("NaN".to_owned(), |value| shown(value, unit));
        write_line(page, name, labels, Some(text), &value)?;
    }
    let sum = shown(values.sum(), unit);
    write_line(page, &format!("{name}_sum"), labels, None, &sum)?;
    write_line(
        page,
        &format!("{name}_count"),
        labels,
        None,
        &values.count(),
    )
}

/// A value of a distribution in the unit of its name.
fn shown(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Microseconds | Unit::Count => value.to_string(),
        // By digits: a float would round a sum of years.
        Unit::Seconds => format!("{}.{:06}", value / 1_000_000, value % 1_000_000),
    }
}

fn write_line(
    page: &mut String,
    name: &str,
    labels: &Labels,
    quantile: Option<&str>,
    value: &dyn fmt::Display,
) -> fmt::Result {
    let labels = labels.iter();
    let labels = labels.map(|(key, text)| format!("{key}=\"{}\"", escape(text)));
    let quantile = quantile.map(|quantile| format!("quantile=\"{quantile}\""));
    let labels: Vec<String> = labels.chain(quantile).collect();
    if labels.is_empty() {
        writeln!(page, "{name} {value}")
    } else {
        writeln!(page, "{name}{{{}}} {value}", labels.join(","))
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::troubles::Place;
    use felix_core::{Histogram, Monotonic};
    use std::time::Duration;

    fn sample(name: &'static str, kind: Kind, labels: Labels, value: f64) -> Sample {
        Sample {
            name,
            help: "Help.",
            kind,
            labels,
            value,
        }
    }

    fn page_of(samples: impl Into<Vec<Sample>>) -> String {
        page(Numbers {
            samples: samples.into(),
            ..Numbers::default()
        })
    }

    #[test]
    fn cores_are_added_up_unless_the_label_tells_them_apart() {
        let core = |core: &str| vec![("core", core.to_owned())];
        let page = page_of([
            sample("felix_b", Kind::Counter, core("0"), 1.0),
            sample("felix_a_total", Kind::Counter, Vec::new(), 2.0),
            sample("felix_b", Kind::Counter, core("1"), 4.5),
            sample("felix_a_total", Kind::Counter, Vec::new(), 3.0),
        ]);
        assert_eq!(
            page,
            "# HELP felix_a_total Help.\n# TYPE felix_a_total counter\nfelix_a_total 5\n\
             # HELP felix_b Help.\n# TYPE felix_b counter\n\
             felix_b{core=\"0\"} 1\nfelix_b{core=\"1\"} 4.5\n"
        );
    }

    #[test]
    fn of_a_maximum_the_greatest_of_all_cores_is_shown() {
        let page = page_of([
            sample("felix_a_us_max", Kind::Maximum, Vec::new(), 7.0),
            sample("felix_a_us_max", Kind::Maximum, Vec::new(), 900.0),
            sample("felix_a_us_max", Kind::Maximum, Vec::new(), 30.0),
        ]);
        assert!(page.ends_with("# TYPE felix_a_us_max gauge\nfelix_a_us_max 900\n"));
    }

    #[test]
    fn a_distribution_is_a_summary_over_the_values_of_all_cores() {
        let now = Monotonic(Duration::from_secs(1));
        let core = |us| {
            let histogram = Histogram::default();
            histogram.record(Monotonic(now.0 - Duration::from_micros(us)), now);
            Distribution {
                name: "felix_a_us",
                help: "Help.",
                unit: Unit::Microseconds,
                labels: Vec::new(),
                values: histogram.snapshot(now),
            }
        };
        let text = page(Numbers {
            distributions: vec![core(10), core(100)],
            ..Numbers::default()
        });
        assert_eq!(
            text,
            "# HELP felix_a_us Help.\n# TYPE felix_a_us summary\n\
             felix_a_us{quantile=\"0.5\"} 10\nfelix_a_us{quantile=\"0.9\"} 100\n\
             felix_a_us{quantile=\"0.99\"} 100\nfelix_a_us{quantile=\"0.999\"} 100\n\
             felix_a_us{quantile=\"1\"} 100\nfelix_a_us_sum 110\nfelix_a_us_count 2\n"
        );
        let labelled = Distribution {
            labels: vec![("core", "1".to_owned())],
            values: Histogram::default().snapshot(now),
            ..core(1)
        };
        let text = page(Numbers {
            distributions: vec![labelled],
            ..Numbers::default()
        });
        assert!(text.contains("felix_a_us{core=\"1\",quantile=\"0.5\"} NaN\n"));
        assert!(text.ends_with("felix_a_us_sum{core=\"1\"} 0\nfelix_a_us_count{core=\"1\"} 0\n"));
    }

    #[test]
    fn a_duration_whose_name_says_so_is_shown_in_seconds() {
        let now = Monotonic(Duration::from_secs(9));
        let histogram = Histogram::default();
        histogram.record(Monotonic(now.0 - Duration::from_micros(1_500_000)), now);
        let distribution = |name, unit| Distribution {
            name,
            help: "Help.",
            unit,
            labels: Vec::new(),
            values: histogram.snapshot(now),
        };
        let text = page(Numbers {
            distributions: vec![
                distribution("felix_a_seconds", Unit::Seconds),
                distribution("felix_b", Unit::Count),
            ],
            ..Numbers::default()
        });
        assert!(text.contains("\nfelix_a_seconds_sum 1.500000\nfelix_a_seconds_count 1\n"));
        assert!(text.contains("\nfelix_b_sum 1500000\nfelix_b_count 1\n"));
    }

    #[test]
    fn a_failed_shard_is_a_series_of_its_own_and_without_one_the_names_are_there() {
        let mut failed = Named::default();
        let text = |failed: &Named| {
            page(Numbers {
                failed: Some(failed.clone()),
                ..Numbers::default()
            })
        };
        let none = text(&failed);
        assert!(
            none.contains("# TYPE felix_shard_failure gauge\n#"),
            "{none}"
        );
        assert!(
            none.ends_with("\nfelix_shard_failure_unnamed 0\n"),
            "{none}"
        );
        let place = Place {
            tenant: "dev".into(),
            stream: "default.clicks".into(),
            shard: 3,
        };
        failed.add(place, "a \"file\"");
        let line = "\nfelix_shard_failure{tenant=\"dev\",stream=\"default.clicks\",shard=\"3\",\
                    reason=\"a \\\"file\\\"\"} 1\n";
        assert!(text(&failed).contains(line), "{}", text(&failed));
    }

    #[test]
    fn a_label_cannot_break_out_of_its_line() {
        let label = vec![("k", "a\"b\\c\nd".into())];
        let text = page_of([sample("felix_a", Kind::Counter, label, 1.0)]);
        assert!(text.ends_with("felix_a{k=\"a\\\"b\\\\c\\nd\"} 1\n"));
    }
}
