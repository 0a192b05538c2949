//! Batches that another log has placed.

use super::{Effects, Phase, Shard, Writer, byte_count};
use crate::log::ApplyError;
use bytes::Bytes;
use felix_core::{Durability, Offset, ShardError};

impl Shard {
    /// Takes them as they are; see [`crate::log::Log::apply`]. The log end afterwards.
    pub(crate) fn apply(
        &self,
        bytes: Bytes,
        writer: &Writer<'_>,
    ) -> (Result<Offset, ApplyError>, Effects) {
        let _at_work = self.suspect.enter();
        let mut phase = self.phase.borrow_mut();
        let Phase::Open(open) = &mut *phase else {
            let error = phase.refusal().expect("a shard that is not open refuses");
            return (Err(ApplyError::Shard(error)), Effects::default());
        };
        if !open.log.is_saved() {
            let effects = Effects {
                unsaved: true,
                ..Effects::default()
            };
            return (Err(ApplyError::Shard(ShardError::Opening)), effects);
        }
        if open.log.is_writing() {
            // One that came while this broker led. It is to ask again.
            return (
                Err(ApplyError::Shard(ShardError::Opening)),
                Effects::default(),
            );
        }
        let sealed_before = open.log.sealed();
        let applied = match open.log.apply(bytes, writer.now) {
            Ok(applied) => applied,
            Err(ApplyError::Log(error)) if !error.is_refusal() => {
                drop(phase);
                let effects = self.fail((&error).into());
                return (Err(ApplyError::Log(error)), effects);
            }
            Err(error) => {
                let effects = Effects {
                    full: matches!(&error, ApplyError::Log(error) if error.is_full()),
                    ..Effects::default()
                };
                return (Err(error), effects);
            }
        };
        let [begun, now] = writer.wrote(&self.spec);
        let mut bytes = 0;
        for batch in &applied {
            let records = u64::from(batch.header().count.max(0).cast_unsigned());
            let size = batch.bytes().len();
            writer.metrics.appended(records, size, begun, now);
            writer.tail.borrow_mut().push(self.spec.id, batch);
            bytes += size;
        }
        open.written += byte_count(bytes);
        let rolled = open.log.sealed() > sealed_before;
        writer.metrics.rolled(rolled, open.log.is_rolled_ahead());
        open.count_producers();
        let end = open.log.end();
        let effects = match self.spec.durability {
            Durability::OnCommit => Effects {
                dirty: true,
                ..self.ahead(&open.log)
            },
            Durability::Periodic | Durability::None => {
                open.committed = open.written;
                Effects {
                    moved: open.advance(end),
                    ..self.wrote(open, bytes, rolled, now)
                }
            }
        };
        (Ok(end), effects)
    }
}
