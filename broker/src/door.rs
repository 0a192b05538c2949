//! How many connections a Kafka node lets in, in all and from one address.
//!
//! A node is what Kafka clients connect to: the shared port, or the port of one core. Each has a
//! door of its own, so that a client that connects to every core, as it must, does not use up what
//! is meant for as many clients. A door is kept by one core, which counts in plain fields; other
//! cores ask it by message, and only on the shared port are there any.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

/// Bounds of a door.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    /// Connections at once.
    pub(crate) connections_max: u32,
    /// Connections at once from one address; `None`: no bound.
    pub(crate) per_ip_max: Option<u32>,
}

/// Why a connection is not let in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Full {
    /// The address has as many as it may.
    PerIp,
    /// The node has as many as it may.
    Total,
}

/// The count of one door. Lives on the core that keeps the door.
#[derive(Debug)]
pub(crate) struct Door {
    bounds: Bounds,
    total: u32,
    by_ip: HashMap<IpAddr, u32>,
}

impl Door {
    /// A door nobody has come through.
    #[must_use]
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            total: 0,
            by_ip: HashMap::new(),
        }
    }

    /// Lets a connection in. It is to [`leave`](Self::leave) when it has closed.
    ///
    /// # Errors
    /// There are enough; the address is looked at first.
    pub(crate) fn enter(&mut self, ip: IpAddr) -> Result<(), Full> {
        let here = self.by_ip.get(&ip).copied().unwrap_or(0);
        if self.bounds.per_ip_max.is_some_and(|max| here >= max) {
            return Err(Full::PerIp);
        }
        if self.total >= self.bounds.connections_max {
            return Err(Full::Total);
        }
        self.total += 1;
        self.by_ip.insert(ip, here + 1);
        Ok(())
    }

    /// A connection that was let in has closed.
    pub(crate) fn leave(&mut self, ip: IpAddr) {
        self.total = self.total.checked_sub(1).expect("who leaves has entered");
        match self.by_ip.entry(ip) {
            Entry::Occupied(mut here) if *here.get() > 1 => *here.get_mut() -= 1,
            Entry::Occupied(last) => drop(last.remove()),
            Entry::Vacant(_) => panic!("who leaves has entered"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    #[test]
    fn the_address_is_looked_at_before_the_total() {
        let mut door = Door::new(Bounds {
            connections_max: 3,
            per_ip_max: Some(2),
        });
        door.enter(ip(1)).unwrap();
        door.enter(ip(1)).unwrap();
        assert_eq!(door.enter(ip(1)), Err(Full::PerIp));
        door.enter(ip(2)).unwrap();
        assert_eq!(door.enter(ip(3)), Err(Full::Total));
        assert_eq!(door.enter(ip(1)), Err(Full::PerIp));
    }

    #[test]
    fn who_leaves_makes_room_and_leaves_no_trace() {
        let mut door = Door::new(Bounds {
            connections_max: 1,
            per_ip_max: None,
        });
        for _ in 0..3 {
            door.enter(ip(1)).unwrap();
            assert_eq!(door.enter(ip(1)), Err(Full::Total));
            door.leave(ip(1));
        }
        assert!(door.by_ip.is_empty());
    }
}
