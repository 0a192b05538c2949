//! A topic and who leads its partitions.

/// What is produced to and read from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// All its partitions, each with a leader, by their index.
    pub partitions: Vec<Leader>,
}

/// Where the leader of a partition listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leader {
    /// The partition.
    pub index: i32,
    /// As the broker told it.
    pub host: String,
    /// As the broker told it.
    pub port: u16,
}
