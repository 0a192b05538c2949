//! Which CPU core of a broker owns a shard.

use crate::{CpuId, ShardId};

/// The owner: (hash of stream + shard) mod cores. Pure, so every table that computes it agrees;
/// consecutive shards of a stream go to consecutive cores, so that a stream spreads evenly.
#[must_use]
pub fn owner(shard: ShardId, cores: u16) -> CpuId {
    assert!(cores > 0, "a broker has at least one core");
    // FNV-1a over the id: the id is random already, so this only folds 128 bits to 64.
    let hash = shard
        .stream
        .0
        .to_be_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let slot = hash.wrapping_add(u64::from(shard.index)) % u64::from(cores);
    CpuId(u16::try_from(slot).expect("a remainder is below its modulus"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StreamId;

    #[test]
    fn the_shards_of_a_stream_spread_evenly_over_the_cores() {
        let mut counts = [0_u32; 3];
        for index in 0..12 {
            let shard = ShardId {
                stream: StreamId(0x1234_5678),
                index,
            };
            counts[owner(shard, 3).index()] += 1;
        }
        assert_eq!(counts, [4, 4, 4]);
    }
}
