//! What one core's sockets have done.

use felix_core::metrics::{Counter, Gauge, Kind, Metrics, Sample};

/// Counters of one CPU core's sockets; its [`Reactor`](crate::Reactor) holds them.
#[derive(Debug, Default)]
pub struct NetMetrics {
    /// Connections accepted.
    pub accepted: Counter,
    /// Connections open now, accepted or made.
    pub open: Gauge,
    /// Times that accepting failed: a connection gone before it was taken, or nothing left to
    /// take it with.
    pub accept_errors: Counter,
    /// Bytes received.
    pub received_bytes: Counter,
    /// Bytes handed to the kernel to send.
    pub sent_bytes: Counter,
    /// System calls that receive, whether or not something was there.
    pub recv_calls: Counter,
    /// System calls that send, whether or not there was room.
    pub send_calls: Counter,
    /// Times that the core asked its epoll set for events.
    pub polls: Counter,
    /// Times that the core went to sleep over its sockets. An idle core adds nothing to either.
    pub parks: Counter,
}

impl Metrics for NetMetrics {
    fn collect(&self, take: &mut dyn FnMut(Sample)) {
        let counters = [
            (
                "felix_net_accepted_total",
                "Connections accepted.",
                &self.accepted,
            ),
            (
                "felix_net_accept_errors_total",
                "Times that accepting failed.",
                &self.accept_errors,
            ),
            (
                "felix_net_received_bytes_total",
                "Bytes received.",
                &self.received_bytes,
            ),
            (
                "felix_net_sent_bytes_total",
                "Bytes sent.",
                &self.sent_bytes,
            ),
            (
                "felix_net_recv_calls_total",
                "System calls that receive.",
                &self.recv_calls,
            ),
            (
                "felix_net_send_calls_total",
                "System calls that send.",
                &self.send_calls,
            ),
            (
                "felix_net_polls_total",
                "Times that a core asked for events.",
                &self.polls,
            ),
            (
                "felix_net_parks_total",
                "Times that a core slept over its sockets.",
                &self.parks,
            ),
        ];
        for (name, help, counter) in counters {
            take(sample(name, help, Kind::Counter, as_value(counter.value())));
        }
        let open = as_value(self.open.value().max(0).cast_unsigned());
        take(sample(
            "felix_net_open_connections",
            "Connections open now.",
            Kind::Gauge,
            open,
        ));
    }
}

fn sample(name: &'static str, help: &'static str, kind: Kind, value: f64) -> Sample {
    Sample {
        name,
        help,
        kind,
        labels: Vec::new(),
        value,
    }
}

/// Samples are floating point, as their readers are; above 2^53 the last digits go.
#[expect(
    clippy::cast_precision_loss,
    reason = "a rate over 2^53 bytes needs no last digit"
)]
fn as_value(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_shown_under_a_name_of_its_own() {
        let metrics = NetMetrics::default();
        metrics.accepted.add(3);
        metrics.open.add(2);
        let mut samples = Vec::new();
        metrics.collect(&mut |sample| samples.push(sample));
        let value = |name| samples.iter().find(|s| s.name == name).map(|s| s.value);
        assert_eq!(value("felix_net_accepted_total"), Some(3.0));
        assert_eq!(value("felix_net_open_connections"), Some(2.0));
        let mut names: Vec<_> = samples.iter().map(|sample| sample.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), samples.len());
        assert!(names.iter().all(|name| name.starts_with("felix_net_")));
    }
}
