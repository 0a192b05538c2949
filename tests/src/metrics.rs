//! The broker's numbers at one moment.

/// A page in Prometheus' text format.
#[derive(Clone, Debug)]
pub struct Metrics {
    page: String,
}

impl Metrics {
    pub(crate) fn new(page: String) -> Self {
        Self { page }
    }

    /// The sum over all labels of the metric; `None` if the page does not have it.
    #[must_use]
    pub fn sum(&self, name: &str) -> Option<f64> {
        let samples = self.page.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let value = match rest.strip_prefix('{') {
                Some(labelled) => labelled.split_once("} ")?.1,
                None => rest.strip_prefix(' ')?,
            };
            value.trim().parse::<f64>().ok()
        });
        samples.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
    }

    /// The whole page.
    #[must_use]
    pub fn page(&self) -> &str {
        &self.page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_added_up_and_longer_names_are_others() {
        let page =
            "# TYPE a counter\na{core=\"0\"} 1\na{core=\"1\"} 2\na_total 4\nb 0\n".to_owned();
        let metrics = Metrics::new(page);
        assert_eq!(metrics.sum("a"), Some(3.0));
        assert_eq!(metrics.sum("b"), Some(0.0));
        assert_eq!(metrics.sum("c"), None);
    }
}
