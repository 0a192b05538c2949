//! The Kafka protocol over any byte stream and any shards.
