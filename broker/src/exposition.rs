//! Samples as Prometheus reads them.

use felix_core::metrics::{Kind, Sample};
use std::collections::BTreeMap;
use std::fmt::Write;

type Labels = Option<(&'static str, String)>;

struct Family {
    help: &'static str,
    kind: Kind,
    values: BTreeMap<Labels, f64>,
}

/// The page of these samples, those of one name and label added up.
#[must_use]
pub(crate) fn page(samples: impl IntoIterator<Item = Sample>) -> String {
    let mut families: BTreeMap<&'static str, Family> = BTreeMap::new();
    for sample in samples {
        let family = families.entry(sample.name).or_insert_with(|| Family {
            help: sample.help,
            kind: sample.kind,
            values: BTreeMap::new(),
        });
        *family.values.entry(sample.label).or_insert(0.0) += sample.value;
    }
    let mut page = String::new();
    for (name, family) in &families {
        write_family(&mut page, name, family).expect("a string takes everything");
    }
    page
}

fn write_family(page: &mut String, name: &str, family: &Family) -> std::fmt::Result {
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    };
    writeln!(page, "# HELP {name} {}", family.help)?;
    writeln!(page, "# TYPE {name} {kind}")?;
    for (label, value) in &family.values {
        match label {
            None => writeln!(page, "{name} {value}")?,
            Some((key, text)) => writeln!(page, "{name}{{{key}=\"{}\"}} {value}", escape(text))?,
        }
    }
    Ok(())
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &'static str, label: Labels, value: f64) -> Sample {
        Sample {
            name,
            help: "Help.",
            kind: Kind::Counter,
            label,
            value,
        }
    }

    #[test]
    fn cores_are_added_up_unless_the_label_tells_them_apart() {
        let core = |core: &str| Some(("core", core.to_owned()));
        let page = page([
            sample("felix_b", core("0"), 1.0),
            sample("felix_a_total", None, 2.0),
            sample("felix_b", core("1"), 4.5),
            sample("felix_a_total", None, 3.0),
        ]);
        assert_eq!(
            page,
            "# HELP felix_a_total Help.\n# TYPE felix_a_total counter\nfelix_a_total 5\n\
             # HELP felix_b Help.\n# TYPE felix_b counter\n\
             felix_b{core=\"0\"} 1\nfelix_b{core=\"1\"} 4.5\n"
        );
    }

    #[test]
    fn a_label_cannot_break_out_of_its_line() {
        let text = page([sample("felix_a", Some(("k", "a\"b\\c\nd".into())), 1.0)]);
        assert!(text.ends_with("felix_a{k=\"a\\\"b\\\\c\\nd\"} 1\n"));
    }
}
