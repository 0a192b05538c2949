//! Splitting one request by owner core, and putting the answers back in the order asked.

use felix_core::{CpuId, ShardId, placement};

/// The items of one owner, and where each stood in the request.
#[derive(Debug)]
pub(crate) struct Group<T> {
    pub(crate) owner: CpuId,
    pub(crate) places: Vec<usize>,
    pub(crate) items: Vec<T>,
}

/// `items` by owner, each group in the order asked; groups in the order of their first item.
pub(crate) fn by_owner<T>(
    items: Vec<T>,
    cores: u16,
    shard: impl Fn(&T) -> ShardId,
) -> Vec<Group<T>> {
    let mut groups: Vec<Group<T>> = Vec::new();
    for (place, item) in items.into_iter().enumerate() {
        let owner = placement::owner(shard(&item), cores);
        match groups.iter_mut().find(|group| group.owner == owner) {
            Some(group) => {
                group.places.push(place);
                group.items.push(item);
            }
            None => groups.push(Group {
                owner,
                places: vec![place],
                items: vec![item],
            }),
        }
    }
    groups
}

/// Answers in the order asked.
#[derive(Debug)]
pub(crate) struct Gathered<T> {
    answers: Vec<Option<T>>,
}

impl<T> Gathered<T> {
    /// For a request of `count` items.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            answers: (0..count).map(|_| None).collect(),
        }
    }

    /// The answers of one group.
    pub(crate) fn put(&mut self, places: &[usize], answers: Vec<T>) {
        assert!(places.len() == answers.len(), "one answer per item");
        for (place, answer) in places.iter().zip(answers) {
            self.answers[*place] = Some(answer);
        }
    }

    /// All of them, once every group has answered.
    pub(crate) fn into_answers(self) -> Vec<T> {
        self.answers
            .into_iter()
            .map(|answer| answer.expect("every group answered"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use felix_core::StreamId;

    #[test]
    fn answers_come_back_in_the_order_asked() {
        let items: Vec<ShardId> = (0..7)
            .map(|index| ShardId {
                stream: StreamId(9),
                index,
            })
            .collect();
        let groups = by_owner(items.clone(), 3, |shard| *shard);
        assert_eq!(groups.len(), 3);
        let mut gathered = Gathered::new(items.len());
        for group in groups {
            assert!(
                group
                    .items
                    .iter()
                    .all(|item| placement::owner(*item, 3) == group.owner)
            );
            gathered.put(&group.places, group.items);
        }
        assert_eq!(gathered.into_answers(), items);
    }
}
