//! Placing batches at their shards, in turns with other tasks where there are many.
//!
//! Messages that wait are placed in rounds, a little of each at a time, so that none waits for all of the
//! large ones that came before it: they are of other connections, and of other tenants. One that begins
//! small has its first turn at once, and with that most are done. Nothing is promised of the order between
//! messages, because a connection hands over its next one only once this one is admitted. The batches of
//! one message keep their order.

use crate::call::{AppendCall, Caller, Unplaced};
use crate::event::step_aside;
use crate::log::ApplyError;
use crate::owner::Owner;
use crate::shard::{Entry, Writer};
use bytes::Bytes;
use felix_core::limits::WRITE_ON_CORE_BYTES_MAX;
use felix_core::shards::Append;
use felix_core::{Durability, Monotonic, Offset, ShardId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::iter::Enumerate;
use std::rc::Rc;
use std::time::Duration;
use std::vec;

/// What may be placed in one go: everybody on the core waits for as much of it, several times in one
/// request. One batch always goes.
pub(crate) const COST_AT_ONCE_MAX: usize = 64 << 10;

/// The same as time, where the kernel takes longer than its share: a turn may go over it.
pub(crate) const TIME_AT_ONCE_MAX: Duration = Duration::from_micros(100);

/// What a round of flushes that appends wait for lets be placed first, so that the shards of one message
/// share it.
const COST_OF_A_ROUND_MAX: usize = 256 << 10;

/// What may be placed of one message before the next one that waits has its turn; one batch always
/// goes. Small, because a message waits for as much of each of the others.
const TURN_COST_MAX: usize = 16 << 10;

const _: () = assert!(TURN_COST_MAX <= COST_AT_ONCE_MAX);

/// What a batch costs beside its bytes, in bytes.
pub(crate) const BATCH_COST: usize = 4 << 10;

/// Append messages that wait for their turn.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// The front has the next turn; whoever has had one goes to the back, as does who is new.
    messages: RefCell<VecDeque<Message>>,
    /// A task is placing them.
    placing: Cell<bool>,
    /// What was placed of them in slices.
    placed: Cell<usize>,
}

/// What is left of an append message.
#[derive(Debug)]
struct Message {
    appends: Enumerate<vec::IntoIter<Append>>,
    call: Rc<AppendCall>,
    arrived: Monotonic,
    /// What has no place by then is refused.
    deadline: Option<Monotonic>,
    /// Some of it was placed at shards whose appends await their flush.
    awaits_flush: bool,
}

/// What placing a batch takes, in bytes. Of one that is written beside the core only the rest counts.
fn cost(append: &Append) -> usize {
    let size = append.batch.size();
    let on_core = if size > WRITE_ON_CORE_BYTES_MAX {
        0
    } else {
        size
    };
    BATCH_COST + on_core
}

impl Owner {
    /// Places batches in the order given; each is committed when its shard's policy says so.
    /// Those that have no place by `deadline` are refused.
    pub(crate) fn append(
        self: &Rc<Self>,
        appends: Vec<Append>,
        deadline: Option<Monotonic>,
        caller: Caller,
    ) {
        let first = appends.first().map_or(0, cost);
        let mut message = Message {
            call: Rc::new(AppendCall::new(caller, appends.len())),
            appends: appends.into_iter().enumerate(),
            arrived: self.clock().monotonic(),
            deadline,
            awaits_flush: false,
        };
        if self.backlog.placing.get() {
            if first <= TURN_COST_MAX {
                let writer = self.writer();
                self.watch_space(writer.begun.get());
                self.place_turn(&mut message, &writer);
            }
            if message.appends.len() == 0 {
                message.call.hand_over();
            } else {
                self.backlog.messages.borrow_mut().push_back(message);
            }
            return;
        }
        self.backlog.messages.borrow_mut().push_back(message);
        self.place_slice();
        if self.backlog.messages.borrow().is_empty() {
            return;
        }
        self.backlog.placing.set(true);
        let owner = Rc::clone(self);
        self.tasks().spawn("appends", async move {
            while !owner.backlog.messages.borrow().is_empty() {
                step_aside().await;
                owner.place_slice();
            }
            owner.backlog.placing.set(false);
        });
    }

    /// Waits for the rest of messages that await a flush, if it is soon placed.
    pub(crate) async fn placed_soon(&self) {
        let before = self.backlog.placed.get();
        let awaits_flush = || {
            let messages = self.backlog.messages.borrow();
            messages.iter().any(|message| message.awaits_flush)
        };
        while awaits_flush() && self.backlog.placed.get().wrapping_sub(before) < COST_OF_A_ROUND_MAX
        {
            step_aside().await;
        }
    }

    fn place_slice(self: &Rc<Self>) {
        let writer = self.writer();
        self.watch_space(writer.begun.get());
        let begun = writer.begun.get();
        let mut cost = 0;
        let mut unfinished = 0;
        while cost < COST_AT_ONCE_MAX && writer.begun.get().until(begun) < TIME_AT_ONCE_MAX {
            let first = self.backlog.messages.borrow_mut().pop_front();
            let Some(mut message) = first else { return };
            let of_turn = self.place_turn(&mut message, &writer);
            let placed = &self.backlog.placed;
            placed.set(placed.get().wrapping_add(of_turn));
            cost += of_turn;
            if message.appends.len() == 0 {
                message.call.hand_over();
            } else {
                self.backlog.messages.borrow_mut().push_back(message);
                unfinished += 1;
            }
        }
        // Only now, because one that is finished in this slice costs no reply more. Those that had
        // a turn in it are at the back.
        let messages = self.backlog.messages.borrow();
        for message in messages.iter().rev().take(unfinished) {
            message.call.take_a_while();
        }
    }

    /// Places the next batches of the message; what that cost.
    fn place_turn(self: &Rc<Self>, message: &mut Message, writer: &Writer<'_>) -> usize {
        let mut cost = 0;
        while cost < TURN_COST_MAX
            && let Some((place, append)) = message.appends.next()
        {
            cost += self::cost(&append);
            let caller = Unplaced::new(Rc::clone(&message.call), place);
            let entry = Entry {
                batch: append.batch,
                caller,
                arrived: message.arrived,
                deadline: message.deadline,
            };
            message.awaits_flush |= self.place(append.shard, entry, writer);
        }
        cost
    }

    /// Whether the batch awaits its flush.
    fn place(self: &Rc<Self>, shard: ShardId, entry: Entry, writer: &Writer<'_>) -> bool {
        match self.shard(shard) {
            Ok(shard) => {
                let effects = shard.append(entry, writer);
                self.apply(&shard, effects);
                shard.spec().durability == Durability::OnCommit
            }
            Err(error) => {
                entry.caller.refuse(error);
                false
            }
        }
    }
}

impl Owner {
    /// Has a shard of this core take batches that another log has placed.
    pub(crate) fn apply_batches(
        self: &Rc<Self>,
        shard: ShardId,
        batches: Bytes,
    ) -> Result<Offset, ApplyError> {
        let shard = self.shard(shard).map_err(ApplyError::Shard)?;
        let (applied, effects) = shard.apply(batches, &self.writer());
        self.apply(&shard, effects);
        applied
    }
}
