//! Gathers the numbers of all cores, by message.

use crate::core_task::Message;
use crate::mailbox::Outside;
use crate::prober::Prober;
use crate::readiness::ShardCounts;
use crate::reload;
use crate::tls_files::Expiry;
use crate::troubles::{Named, Troubles};
use felix_core::Monotonic;
use felix_core::metrics::{Distribution, Kind, Metrics, Sample};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a core may take to tell its numbers. One that does not is named, and the rest shown.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// All that is shown, of one core or of many.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Numbers {
    /// Counters and gauges.
    pub(crate) samples: Vec<Sample>,
    /// How long things took.
    pub(crate) distributions: Vec<Distribution>,
    /// Shards that failed; `None`: nobody was asked.
    pub(crate) failed: Option<Named>,
}

impl Numbers {
    /// Takes what `metrics` show at `now`.
    pub(crate) fn take(&mut self, metrics: &dyn Metrics, now: Monotonic) {
        metrics.collect(&mut |sample| self.samples.push(sample));
        metrics.distributions(now, &mut |distribution| {
            self.distributions.push(distribution)
        });
    }
}

/// Asks every core. Belongs to the control thread.
#[derive(Debug)]
pub(crate) struct Collector {
    cores: Vec<Outside<Message>>,
    prober: Prober<Message>,
    fixed: Vec<Sample>,
    reloads: Arc<reload::Counts>,
    expiry: Option<Expiry>,
}

impl Collector {
    /// Asks these cores, in their order, and their prober, and looks at what was read anew and when
    /// the certificate expires, if there is one.
    #[must_use]
    pub(crate) fn new(
        cores: Vec<Outside<Message>>,
        prober: Prober<Message>,
        reloads: Arc<reload::Counts>,
        expiry: Option<Expiry>,
    ) -> Self {
        let build = Sample {
            name: "felix_build_info",
            help: "The version that runs.",
            kind: Kind::Gauge,
            labels: vec![("version", env!("CARGO_PKG_VERSION").to_owned())],
            value: 1.0,
        };
        Self {
            cores,
            prober,
            fixed: vec![build],
            reloads,
            expiry,
        }
    }

    /// What looks at the cores from outside, to be run.
    pub(crate) fn prober(&self) -> &Prober<Message> {
        &self.prober
    }

    /// The shards as core 0 sees them, which is told of every change by their owners; those know
    /// why a shard failed, and each finds out for itself that the disk is full.
    pub(crate) async fn shards(&self) -> Option<ShardCounts> {
        let deadline = tokio::time::Instant::now() + ANSWER_TIMEOUT;
        let (reply, answer) = oneshot::channel();
        self.cores.first()?.send(Message::Shards(reply));
        let answer = tokio::time::timeout_at(deadline, answer).await;
        let mut counts = answer.ok()?.ok()?;
        let asked: Vec<_> = self.cores.iter().map(ask_for_troubles).collect();
        let mut reasons = Vec::new();
        for answer in asked {
            // Of a core that does not answer the shards are named without a reason.
            if let Ok(Ok(told)) = tokio::time::timeout_at(deadline, answer).await {
                reasons.extend(told.failures);
                counts.full = counts.full.or(told.full);
            }
        }
        counts.explain(reasons);
        Some(counts)
    }

    /// The numbers of all cores that answer in time, and of the process.
    pub(crate) async fn numbers(&self) -> Numbers {
        let asked: Vec<_> = self
            .cores
            .iter()
            .map(|core| {
                let (reply, answer) = oneshot::channel();
                core.send(Message::Metrics(reply));
                answer
            })
            .collect();
        let mut numbers = Numbers {
            samples: self.fixed.clone(),
            ..Numbers::default()
        };
        self.reloads
            .samples(&mut |sample| numbers.samples.push(sample));
        let deadline = tokio::time::Instant::now() + ANSWER_TIMEOUT;
        for (core, answer) in asked.into_iter().enumerate() {
            let answer = tokio::time::timeout_at(deadline, answer).await;
            let answered = matches!(answer, Ok(Ok(_)));
            if let Ok(Ok(of_core)) = answer {
                numbers.samples.extend(of_core.samples);
                numbers.distributions.extend(of_core.distributions);
                let failed = numbers.failed.get_or_insert_default();
                failed.merge(of_core.failed.unwrap_or_default());
            }
            numbers.samples.push(Sample {
                name: "felix_core_answers",
                help: "Whether the core told its numbers in time.",
                kind: Kind::Gauge,
                labels: vec![("core", core.to_string())],
                value: f64::from(u8::from(answered)),
            });
        }
        let expiry = self.expiry.as_ref();
        numbers.samples.extend(expiry.map(Expiry::sample));
        let distributions = &mut numbers.distributions;
        self.prober
            .distributions(&mut |distribution| distributions.push(distribution));
        numbers
    }
}

fn ask_for_troubles(core: &Outside<Message>) -> oneshot::Receiver<Troubles> {
    let (reply, answer) = oneshot::channel();
    core.send(Message::Troubles(reply));
    answer
}
