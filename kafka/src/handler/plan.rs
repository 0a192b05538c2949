//! What a request asks of shards, in the order of its answer.

use crate::codec::Topic;
use std::convert::Infallible;

/// Topics with their partitions. A partition is answered already (`R`), or stands (`A`) for the
/// next of the results that the shards will give.
#[derive(Debug)]
pub(super) struct Plan<R, A> {
    topics: Vec<PlannedTopic<R, A>>,
    asked: usize,
    refused: usize,
}

#[derive(Debug)]
struct PlannedTopic<R, A> {
    name: String,
    partitions: Vec<Planned<R, A>>,
}

#[derive(Debug)]
enum Planned<R, A> {
    /// Boxed, for few are refused, and a plan is kept for as long as a Fetch waits.
    Refused(Box<R>),
    Asked(A),
}

/// A topic with the answers of its partitions.
#[derive(Debug)]
pub(super) struct AnsweredTopic<R> {
    /// The name, as asked.
    pub(super) name: String,
    /// In the order asked.
    pub(super) partitions: Vec<R>,
}

/// As they are written.
pub(super) fn topics<R: Clone>(answered: &[AnsweredTopic<R>]) -> Vec<Topic<'_, R>> {
    let topics = answered.iter().map(|topic| Topic {
        name: &topic.name,
        partitions: topic.partitions.clone(),
    });
    topics.collect()
}

impl<R, A> Plan<R, A> {
    /// A plan that asks nothing yet.
    pub(super) fn new() -> Self {
        Self {
            topics: Vec::new(),
            asked: 0,
            refused: 0,
        }
    }

    /// Adds a topic. The partitions added next are its.
    pub(super) fn topic(&mut self, name: &str) {
        self.topics.push(PlannedTopic {
            name: name.to_owned(),
            partitions: Vec::new(),
        });
    }

    /// Adds a partition: what is asked, or the answer at once.
    pub(super) fn partition(&mut self, asked: Result<A, R>) {
        let planned = match asked {
            Ok(asked) => {
                self.asked += 1;
                Planned::Asked(asked)
            }
            Err(answer) => {
                self.refused += 1;
                Planned::Refused(Box::new(answer))
            }
        };
        let topic = self.topics.last_mut();
        let topic = topic.expect("a topic is added before its partitions");
        topic.partitions.push(planned);
    }

    /// Whether some partition was answered at once.
    pub(super) fn has_refusals(&self) -> bool {
        self.refused > 0
    }

    /// The answers, where nothing is asked of any shard.
    pub(super) fn refused(self) -> Vec<AnsweredTopic<R>> {
        self.answer(Vec::new(), |_, never: Infallible| match never {})
    }

    /// The answers: those given at once, and one made of each result.
    pub(super) fn answer<T>(
        self,
        results: Vec<T>,
        mut answer: impl FnMut(A, T) -> R,
    ) -> Vec<AnsweredTopic<R>> {
        assert_eq!(
            results.len(),
            self.asked,
            "one result for each partition asked"
        );
        let mut results = results.into_iter();
        let mut answered = |planned| match planned {
            Planned::Refused(refusal) => *refusal,
            Planned::Asked(asked) => answer(
                asked,
                results.next().expect("there are as many as were asked"),
            ),
        };
        let topics = self.topics.into_iter().map(|topic| AnsweredTopic {
            name: topic.name,
            partitions: topic.partitions.into_iter().map(&mut answered).collect(),
        });
        topics.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_stand_where_their_partitions_were_asked() {
        let mut plan = Plan::new();
        let even = |partition: i32| {
            if partition % 2 == 0 {
                Ok(partition)
            } else {
                Err(-partition)
            }
        };
        plan.topic("a");
        for partition in [2, 3, 4] {
            plan.partition(even(partition));
        }
        plan.topic("b");
        for partition in [5, 6] {
            plan.partition(even(partition));
        }
        assert!(plan.has_refusals());
        let answered = plan.answer(vec![100, 200, 300], |asked, result| asked + result);
        let partitions: Vec<_> = answered
            .iter()
            .map(|topic| topic.partitions.clone())
            .collect();
        assert_eq!(partitions, [vec![102, -3, 204], vec![-5, 306]]);
    }
}
