//! What the broker tells of tasks that held its core.

use crate::problem::Problem;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Times that a task held its core for longer than the broker has for a stall, by kind of task.
#[derive(Clone, Debug, Default)]
pub(super) struct Stalls(BTreeMap<String, u64>);

impl Stalls {
    /// Those that came after `before`.
    pub(super) fn since(mut self, before: &Self) -> Self {
        for (task, count) in &mut self.0 {
            *count = count.saturating_sub(before.0.get(task).copied().unwrap_or_default());
        }
        self
    }

    pub(super) fn add(&mut self, others: &Self) {
        for (task, count) in &others.0 {
            *self.0.entry(task.clone()).or_default() += count;
        }
    }
}

impl fmt::Display for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = self.0.iter().filter(|(_, count)| **count > 0);
        let told: Vec<String> = counted
            .map(|(task, count)| format!("{task} {count}"))
            .collect();
        match told.as_slice() {
            [] => f.write_str("none"),
            told => f.write_str(&told.join(", ")),
        }
    }
}

/// As the broker counts them so far.
pub(super) fn stalls(http_port: u16) -> Result<Stalls, Problem> {
    let told = |error: std::io::Error| Problem::new(format!("/metrics: {error}"));
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, http_port)).map_err(told)?;
    stream.set_read_timeout(Some(TIMEOUT)).map_err(told)?;
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).map_err(told)?;
    let mut page = String::new();
    stream.read_to_string(&mut page).map_err(told)?;
    Ok(read(&page))
}

fn read(page: &str) -> Stalls {
    let mut stalls = Stalls::default();
    for line in page.lines() {
        let Some(rest) = line.strip_prefix("felix_core_stalls_total{") else {
            continue;
        };
        let Some((labels, value)) = rest.split_once("} ") else {
            continue;
        };
        let task = labels
            .split("task=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        if let (Some(task), Ok(count)) = (task, value.trim().parse::<u64>()) {
            *stalls.0.entry(task.to_owned()).or_default() += count;
        }
    }
    stalls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_counted_by_task_and_told_of_since_then() {
        let page = "# TYPE felix_core_stalls_total counter\n\
                    felix_core_stalls_total{task=\"append\"} 3\n\
                    felix_core_stalls_total{task=\"mail\"} 0\n";
        let before = read("felix_core_stalls_total{task=\"append\"} 1\n");
        assert_eq!(read(page).since(&before).to_string(), "append 2");
        assert_eq!(before.since(&read(page)).to_string(), "none");
    }
}
