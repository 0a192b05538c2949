//! Who waits for a pool's bytes, and who of them comes next.
//!
//! Next comes the place whose address holds least of the pool, and of equals the one that came
//! first. Nobody overtakes within that order: a large wish that is next is waited for. So one
//! address, with as many connections as it likes, holds up another's wish for as long as one
//! holder takes to give back, and no longer.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::task::Waker;

/// Whom bytes are held for: all connections from one address are one. Of IPv6 it is the network of
/// 64 bits, which is what one customer or one machine is given, to take any number of addresses
/// from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Origin {
    /// Not an address. All of these are one, too.
    #[default]
    Unknown,
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 network: the address with its last 64 bits zero.
    V6(Ipv6Addr),
}

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
        }
    }
}

/// A place in line.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) bytes: usize,
    pub(super) origin: Origin,
    /// Bytes that its owner holds and gives back only after this wish.
    pub(super) stuck: Cell<usize>,
    pub(super) granted: Cell<bool>,
    pub(super) waker: RefCell<Waker>,
    number: Cell<u64>,
}

impl Place {
    /// A wish that has not been put into a line.
    pub(super) fn new(bytes: usize, origin: Origin, stuck: usize, waker: &Waker) -> Self {
        Self {
            bytes,
            origin,
            stuck: Cell::new(stuck),
            granted: Cell::new(false),
            waker: RefCell::new(waker.clone()),
            number: Cell::new(0),
        }
    }
}

/// See the module. Lives with its pool.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Of those who hold something or wait, and of no others.
    accounts: BTreeMap<Origin, Account>,
    /// Of those who wait: bytes held, the number of the first place, and whose they are.
    order: BTreeSet<(usize, u64, Origin)>,
    number_next: u64,
}

#[derive(Debug, Default)]
struct Account {
    held: usize,
    places: VecDeque<Rc<Place>>,
}

impl Account {
    /// Where it stands in the order, if it waits.
    fn rank(&self, origin: Origin) -> Option<(usize, u64, Origin)> {
        let first = self.places.front()?;
        Some((self.held, first.number.get(), origin))
    }
}

impl Line {
    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The place that is next.
    pub(super) fn first(&self) -> Option<&Rc<Place>> {
        let (_, _, origin) = self.order.first()?;
        self.accounts.get(origin)?.places.front()
    }

    /// Adds a place, behind those of its origin.
    pub(super) fn push(&mut self, place: Rc<Place>) {
        place.number.set(self.number_next);
        self.number_next += 1;
        self.change(place.origin, |account| account.places.push_back(place));
    }

    /// Takes a place out, wherever it stands.
    pub(super) fn remove(&mut self, place: &Rc<Place>) {
        self.change(place.origin, |account| {
            let places = &mut account.places;
            // Whoever is served stands in front, and there may be thousands behind.
            match places.front() {
                Some(first) if Rc::ptr_eq(first, place) => drop(places.pop_front()),
                Some(_) | None => places.retain(|other| !Rc::ptr_eq(other, place)),
            }
        });
    }

    /// An origin holds so many bytes more.
    pub(super) fn take(&mut self, origin: Origin, bytes: usize) {
        self.change(origin, |account| {
            let held = account.held.checked_add(bytes);
            account.held = held.expect("memory fits the address space");
        });
    }

    /// An origin holds so many bytes less.
    pub(super) fn give_back(&mut self, origin: Origin, bytes: usize) {
        self.change(origin, |account| {
            let held = account.held.checked_sub(bytes);
            account.held = held.expect("what is given back was taken");
        });
    }

    fn change(&mut self, origin: Origin, change: impl FnOnce(&mut Account)) {
        let account = self.accounts.entry(origin).or_default();
        let before = account.rank(origin);
        change(account);
        let after = account.rank(origin);
        if account.held == 0 && account.places.is_empty() {
            self.accounts.remove(&origin);
        }
        if before == after {
            return;
        }
        if let Some(rank) = before {
            self.order.remove(&rank);
        }
        self.order.extend(after);
    }

    /// Whether nobody waits or holds anything.
    #[cfg(test)]
    pub(super) fn is_forgotten(&self) -> bool {
        self.accounts.is_empty() && self.order.is_empty()
    }
}
