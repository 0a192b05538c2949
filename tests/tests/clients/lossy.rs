//! A broker behind a relay: answers that are lost or do not come, and producers that are forgotten.

use crate::cells::{Cell, Happens};
use crate::given;
use felix_core::limits::PRODUCERS_PER_SHARD_MAX;
use felix_tests::clients::{Access, Client, Line, State};
use felix_tests::wire::{Wire, produce_request, sequenced};
use felix_tests::{Acknowledgement, Broker, Relay, Stream};
use kafka_protocol::messages::ProduceRequest;
use std::thread;

/// Answers to Produce that are lost, one after the other, before one comes through.
const LOST_ANSWERS: u32 = 2;

/// The record that is never answered.
const UNANSWERED: &str = "timed-out-1";

/// Requests under way at once while a crowd writes.
const CROWD_AT_ONCE: usize = 64;
const PRODUCE_VERSION: i16 = 7;
/// Producer ids that no broker of a test gets to by itself.
const CROWD_FIRST: i64 = 1 << 60;

/// Error codes of answers.
const NO_ERROR: i16 = 0;
const UNKNOWN_PRODUCER_ID: i16 = 59;

/// The broker and the relay, which is all that clients know of it.
#[derive(Debug)]
pub(crate) struct Lossy {
    pub(crate) broker: Broker,
    relay: Relay,
}

impl Lossy {
    pub(crate) fn start(clients: &[&Client]) -> Self {
        let relay = Relay::listen();
        let settings = [
            ("FELIX_KAFKA_CORE_PORTS", "false"),
            ("FELIX_KAFKA_ADVERTISE_ADDR", given::leak(relay.address())),
        ];
        let streams: Vec<Stream> = (clients.iter())
            .map(|client| Stream::new(given::topic(client.name, "lost"), 1))
            .collect();
        let broker = Broker::start_with(&streams, &settings);
        relay.hand_on_to(broker.port());
        Self { broker, relay }
    }

    /// Has a client try a cell while that happens which belongs to it.
    pub(crate) fn try_out(
        &self,
        client: &Client,
        access: &Access,
        cell: &Cell,
        faults: &mut Vec<String>,
    ) -> Line {
        let access = Access {
            lossy: Some(self.relay.address()),
            ..access.clone()
        };
        let run = || client.run(&access, &[cell.name]).remove(0);
        drop(self.relay.answers());
        let mut fault = |text: &str| faults.push(format!("{} {}: {text}", client.name, cell.name));
        let line = match cell.happens {
            Happens::Nothing => run(),
            Happens::AnswersAreLost => {
                self.relay.lose(LOST_ANSWERS);
                let line = run();
                if line.state == State::Ok && self.relay.left_to_lose() != 0 {
                    fault("not all answers were lost that should be");
                }
                self.relay.lose(0);
                line
            }
            Happens::NoAnswerComes => {
                self.relay.leave_unanswered(Some(UNANSWERED));
                let line = run();
                self.relay.leave_unanswered(None);
                line
            }
            Happens::ProducersAreForgotten => self.forget_during(client, run),
        };
        let answers = self.relay.answers();
        if line.state == State::Ok {
            match cell.name {
                "lost-idempotent" => first_offsets(&answers, &mut fault),
                "timed-out" if !answers.iter().any(|answer| answer.is_lost) => {
                    fault("there was an answer to each record");
                }
                "forgotten" => was_unknown(&answers, &mut fault),
                _ => {}
            }
        }
        line
    }

    /// Between the first and the second batch of a producer so many others write that the shard
    /// forgets it.
    fn forget_during(&self, client: &Client, run: impl FnOnce() -> Line + Send) -> Line {
        self.relay.hold_second();
        let topic = given::topic(client.name, "lost");
        let line = thread::scope(|scope| {
            let running = scope.spawn(run);
            if self.relay.is_holding(|| running.is_finished()) {
                crowd(self.broker.port(), topic);
            }
            self.relay.let_go();
            running.join()
        });
        line.expect("the program tells of the cell")
    }
}

/// As many producers as a shard remembers write one record each.
fn crowd(port: u16, topic: &'static str) {
    let mut wire = Wire::connect(port);
    let ids: Vec<i64> = (CROWD_FIRST..).take(PRODUCERS_PER_SHARD_MAX).collect();
    for some in ids.chunks(CROWD_AT_ONCE) {
        for id in some {
            let request = produce_request(topic, 0, sequenced(*id, 0, 0, &[b"crowd"]));
            wire.send(&request, PRODUCE_VERSION)
                .expect("the broker reads");
        }
        for id in some {
            let answer = wire.receive::<ProduceRequest>(PRODUCE_VERSION);
            let code = answer.responses[0].partition_responses[0].error_code;
            assert_eq!(code, NO_ERROR, "{id}");
        }
    }
}

/// A batch that was written, and whose answer was lost, is answered with the same offset when it comes
/// again.
fn first_offsets(answers: &[Acknowledgement], fault: &mut impl FnMut(&str)) {
    for answer in answers.iter().filter(|answer| answer.is_lost) {
        let mut heard = answers.iter().filter(|answer| !answer.is_lost);
        let is_first = heard.any(|heard| heard.base_offset == answer.base_offset);
        if answer.error_code != NO_ERROR || !is_first {
            fault(&format!("not answered with the first offset: {answers:?}"));
        }
    }
}

/// A producer that was forgotten is told so.
fn was_unknown(answers: &[Acknowledgement], fault: &mut impl FnMut(&str)) {
    let is_unknown = |answer: &Acknowledgement| answer.error_code == UNKNOWN_PRODUCER_ID;
    if !answers.iter().any(is_unknown) {
        fault(&format!("it was not forgotten: {answers:?}"));
    }
}
