//! How the types of `felix-core` are written in JSON, for fields: `#[serde(with = "...")]`.

/// An identity as 32 hexadecimal digits.
pub mod stream_id {
    use felix_core::StreamId;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(id: &StreamId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is anything else.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<StreamId, D::Error> {
        let text = String::deserialize(from)?;
        super::hex(&text)
            .map(StreamId)
            .ok_or_else(|| D::Error::custom(format!("{text:?} is not 32 hexadecimal digits")))
    }
}

/// A shard as `<identity>-<index>`.
pub mod shard_id {
    use felix_core::{ShardId, StreamId};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(shard: &ShardId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(shard)
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is anything else.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ShardId, D::Error> {
        let text = String::deserialize(from)?;
        let parts = text.split_once('-').and_then(|(stream, index)| {
            let stream = StreamId(super::hex(stream)?);
            Some(ShardId {
                stream,
                index: index.parse().ok()?,
            })
        });
        parts.ok_or_else(|| D::Error::custom(format!("{text:?} is no shard")))
    }
}

/// A generation as a number.
pub mod generation {
    use felix_core::Generation;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(generation: &Generation, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u32(generation.get())
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is negative, or does not fit 31 bits.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Generation, D::Error> {
        let number = i32::deserialize(from)?;
        Generation::from_wire(number)
            .ok_or_else(|| D::Error::custom(format!("{number} is no generation")))
    }
}

/// A broker as its number.
pub mod broker_id {
    use felix_core::BrokerId;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(broker: &BrokerId, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u32(broker.0)
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is no number of 32 bits.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BrokerId, D::Error> {
        u32::deserialize(from).map(BrokerId)
    }
}

/// A broker as its number, or null.
pub mod broker_if_any {
    use felix_core::BrokerId;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(broker: &Option<BrokerId>, to: S) -> Result<S::Ok, S::Error> {
        broker.map(|BrokerId(number)| number).serialize(to)
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is neither null nor a number of 32 bits.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<BrokerId>, D::Error> {
        Ok(Option::<u32>::deserialize(from)?.map(BrokerId))
    }
}

/// A moment as milliseconds since 1970.
pub mod timestamp {
    use felix_core::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(moment: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i64(moment.0)
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is no number of 64 bits.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        i64::deserialize(from).map(Timestamp)
    }
}

/// Whose clock a stream's records carry, as `append` or `create`.
pub mod timestamps {
    use felix_core::Timestamps;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Word {
        Append,
        Create,
    }

    /// Writes it.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(timestamps: &Timestamps, to: S) -> Result<S::Ok, S::Error> {
        let word = match timestamps {
            Timestamps::Append => Word::Append,
            Timestamps::Create => Word::Create,
        };
        word.serialize(to)
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is another word.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamps, D::Error> {
        Ok(match Word::deserialize(from)? {
            Word::Append => Timestamps::Append,
            Word::Create => Timestamps::Create,
        })
    }
}

/// The number that is written as exactly 32 hexadecimal digits.
pub(crate) fn hex(text: &str) -> Option<u128> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(text, 16).ok().filter(|_| is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_exactly_32_hexadecimal_digits() {
        assert_eq!(hex("0000000000000000000000000000000a"), Some(10));
        for text in [
            "",
            "a",
            "+000000000000000000000000000000a",
            &"g".repeat(32),
            &"0".repeat(33),
        ] {
            assert_eq!(hex(text), None, "{text}");
        }
    }
}
