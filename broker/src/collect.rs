//! Gathers the numbers of all cores, by message.

use crate::core_task::Message;
use crate::mailbox::Outside;
use crate::readiness::ShardCounts;
use felix_core::metrics::{Kind, Sample};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a core may take to tell its numbers. One that does not is named, and the rest shown.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Asks every core. Belongs to the control thread.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    cores: Vec<Outside<Message>>,
    fixed: Vec<Sample>,
}

impl Collector {
    /// Asks these cores, in their order.
    #[must_use]
    pub(crate) fn new(cores: Vec<Outside<Message>>) -> Self {
        let build = Sample {
            name: "felix_build_info",
            help: "The version that runs.",
            kind: Kind::Gauge,
            label: Some(("version", env!("CARGO_PKG_VERSION").to_owned())),
            value: 1.0,
        };
        Self {
            cores,
            fixed: vec![build],
        }
    }

    /// The shards as core 0 sees them, which is told of every change by their owners.
    pub(crate) async fn shards(&self) -> Option<ShardCounts> {
        let (reply, answer) = oneshot::channel();
        self.cores.first()?.send(Message::Shards(reply));
        tokio::time::timeout(ANSWER_TIMEOUT, answer)
            .await
            .ok()?
            .ok()
    }

    /// The samples of all cores that answer in time, and of the process.
    pub(crate) async fn samples(&self) -> Vec<Sample> {
        let asked: Vec<_> = self
            .cores
            .iter()
            .map(|core| {
                let (reply, answer) = oneshot::channel();
                core.send(Message::Metrics(reply));
                answer
            })
            .collect();
        let mut samples = self.fixed.clone();
        let deadline = tokio::time::Instant::now() + ANSWER_TIMEOUT;
        for (core, answer) in asked.into_iter().enumerate() {
            let answer = tokio::time::timeout_at(deadline, answer).await;
            let answered = matches!(answer, Ok(Ok(_)));
            if let Ok(Ok(of_core)) = answer {
                samples.extend(of_core);
            }
            samples.push(Sample {
                name: "felix_core_answers",
                help: "Whether the core told its numbers in time.",
                kind: Kind::Gauge,
                label: Some(("core", core.to_string())),
                value: f64::from(u8::from(answered)),
            });
        }
        samples
    }
}
