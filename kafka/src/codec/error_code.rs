//! Kafka's numbers for what went wrong.

/// The error codes this broker answers with. Kafka numbers them once for all APIs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorCode {
    /// -1. A fault of ours. Never for a produce: clients lose or repeat data over it (T85).
    UnknownServerError,
    /// 0. No error.
    None,
    /// 1. The offset lies below the log start or past the log end.
    OffsetOutOfRange,
    /// 2. A batch whose checksum or framing is wrong.
    CorruptMessage,
    /// 3. No such topic or partition, or one that the client may not know of.
    UnknownTopicOrPartition,
    /// 5. There will be a leader; not yet.
    LeaderNotAvailable,
    /// 6. The leader is elsewhere.
    NotLeaderOrFollower,
    /// 7. Not done in time.
    RequestTimedOut,
    /// 10. A batch that is too large.
    MessageTooLarge,
    /// 15. There is no coordinator yet.
    CoordinatorNotAvailable,
    /// 17. A name that no topic can have.
    InvalidTopic,
    /// 18. A record set that is too large.
    RecordListTooLarge,
    /// 19. Too few replicas to begin.
    NotEnoughReplicas,
    /// 20. Written, and too few replicas have it.
    NotEnoughReplicasAfterAppend,
    /// 21. Acks other than -1, 0 and 1.
    InvalidRequiredAcks,
    /// 29. The topic may not be read or written.
    TopicAuthorizationFailed,
    /// 30. No groups for this client.
    GroupAuthorizationFailed,
    /// 31. Not allowed on this cluster.
    ClusterAuthorizationFailed,
    /// 32. A record's timestamp is outside what is accepted.
    InvalidTimestamp,
    /// 33. A SASL mechanism that is not offered.
    UnsupportedSaslMechanism,
    /// 34. A request that does not fit the state of the SASL exchange.
    IllegalSaslState,
    /// 35. A version that is not spoken.
    UnsupportedVersion,
    /// 42. A request that contradicts itself.
    InvalidRequest,
    /// 43. Record formats before v2.
    UnsupportedForMessageFormat,
    /// 45. A sequence that leaves a gap.
    OutOfOrderSequenceNumber,
    /// 46. A batch that is there already, too long ago to say where.
    DuplicateSequenceNumber,
    /// 47. An epoch older than the producer's.
    InvalidProducerEpoch,
    /// 53. No transactions for this client.
    TransactionalIdAuthorizationFailed,
    /// 56. The log failed.
    KafkaStorageError,
    /// 58. The credentials are refused.
    SaslAuthenticationFailed,
    /// 59. The producer is not known here any more.
    UnknownProducerId,
    /// 70. No such fetch session.
    FetchSessionIdNotFound,
    /// 71. A request out of turn in its fetch session.
    InvalidFetchSessionEpoch,
    /// 74. The client believes in an older leader.
    FencedLeaderEpoch,
    /// 75. The client knows a newer leader.
    UnknownLeaderEpoch,
    /// 76. A codec that this version of the API may not carry.
    UnsupportedCompressionType,
    /// 87. A record that breaks the rules.
    InvalidRecord,
    /// 100. No topic has this id.
    UnknownTopicId,
    /// 114. Nodes of a kind that are asked for elsewhere.
    MismatchedEndpointType,
    /// 115. Nodes of a kind that there is not.
    UnsupportedEndpointType,
}

impl ErrorCode {
    /// All of them, by rising number.
    pub const ALL: [Self; 40] = [
        Self::UnknownServerError,
        Self::None,
        Self::OffsetOutOfRange,
        Self::CorruptMessage,
        Self::UnknownTopicOrPartition,
        Self::LeaderNotAvailable,
        Self::NotLeaderOrFollower,
        Self::RequestTimedOut,
        Self::MessageTooLarge,
        Self::CoordinatorNotAvailable,
        Self::InvalidTopic,
        Self::RecordListTooLarge,
        Self::NotEnoughReplicas,
        Self::NotEnoughReplicasAfterAppend,
        Self::InvalidRequiredAcks,
        Self::TopicAuthorizationFailed,
        Self::GroupAuthorizationFailed,
        Self::ClusterAuthorizationFailed,
        Self::InvalidTimestamp,
        Self::UnsupportedSaslMechanism,
        Self::IllegalSaslState,
        Self::UnsupportedVersion,
        Self::InvalidRequest,
        Self::UnsupportedForMessageFormat,
        Self::OutOfOrderSequenceNumber,
        Self::DuplicateSequenceNumber,
        Self::InvalidProducerEpoch,
        Self::TransactionalIdAuthorizationFailed,
        Self::KafkaStorageError,
        Self::SaslAuthenticationFailed,
        Self::UnknownProducerId,
        Self::FetchSessionIdNotFound,
        Self::InvalidFetchSessionEpoch,
        Self::FencedLeaderEpoch,
        Self::UnknownLeaderEpoch,
        Self::UnsupportedCompressionType,
        Self::InvalidRecord,
        Self::UnknownTopicId,
        Self::MismatchedEndpointType,
        Self::UnsupportedEndpointType,
    ];

    /// The name, as Kafka spells it.
    #[must_use]
    pub fn name(self) -> String {
        let mut name = String::new();
        for (index, letter) in format!("{self:?}").char_indices() {
            if index > 0 && letter.is_uppercase() {
                name.push('_');
            }
            name.extend(letter.to_uppercase());
        }
        name
    }

    /// The number on the wire.
    #[must_use]
    pub const fn wire(self) -> i16 {
        match self {
            Self::UnknownServerError => -1,
            Self::None => 0,
            Self::OffsetOutOfRange => 1,
            Self::CorruptMessage => 2,
            Self::UnknownTopicOrPartition => 3,
            Self::LeaderNotAvailable => 5,
            Self::NotLeaderOrFollower => 6,
            Self::RequestTimedOut => 7,
            Self::MessageTooLarge => 10,
            Self::CoordinatorNotAvailable => 15,
            Self::InvalidTopic => 17,
            Self::RecordListTooLarge => 18,
            Self::NotEnoughReplicas => 19,
            Self::NotEnoughReplicasAfterAppend => 20,
            Self::InvalidRequiredAcks => 21,
            Self::TopicAuthorizationFailed => 29,
            Self::GroupAuthorizationFailed => 30,
            Self::ClusterAuthorizationFailed => 31,
            Self::InvalidTimestamp => 32,
            Self::UnsupportedSaslMechanism => 33,
            Self::IllegalSaslState => 34,
            Self::UnsupportedVersion => 35,
            Self::InvalidRequest => 42,
            Self::UnsupportedForMessageFormat => 43,
            Self::OutOfOrderSequenceNumber => 45,
            Self::DuplicateSequenceNumber => 46,
            Self::InvalidProducerEpoch => 47,
            Self::TransactionalIdAuthorizationFailed => 53,
            Self::KafkaStorageError => 56,
            Self::SaslAuthenticationFailed => 58,
            Self::UnknownProducerId => 59,
            Self::FetchSessionIdNotFound => 70,
            Self::InvalidFetchSessionEpoch => 71,
            Self::FencedLeaderEpoch => 74,
            Self::UnknownLeaderEpoch => 75,
            Self::UnsupportedCompressionType => 76,
            Self::InvalidRecord => 87,
            Self::UnknownTopicId => 100,
            Self::MismatchedEndpointType => 114,
            Self::UnsupportedEndpointType => 115,
        }
    }
}
