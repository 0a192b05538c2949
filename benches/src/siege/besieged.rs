//! The client that is measured, and who is beside it meanwhile.

use super::peer::{Peer, Place};
use super::pressing::Pressing;
use super::stalls::{Stalls, stalls};
use crate::contest::{Contender, Load, Target};
use crate::load::{Job, Stop, Watched};
use crate::problem::Problem;

/// One side: the same client each time, and other peers.
#[derive(Debug)]
pub(super) struct Besieged {
    target: Target,
    /// None: it is alone.
    peer: Option<Peer>,
    place: Place,
    http_port: u16,
    pressing: Option<Pressing>,
    before: Stalls,
    held: Stalls,
}

impl Besieged {
    pub(super) fn new(target: Target, peer: Option<Peer>, place: Place, http_port: u16) -> Self {
        Self {
            target,
            peer,
            place,
            http_port,
            pressing: None,
            before: Stalls::default(),
            held: Stalls::default(),
        }
    }

    /// How often tasks of the broker held its core for too long during all turns, as a setting is
    /// told.
    pub(super) fn stalls(&self) -> (String, String) {
        let name = format!("stalls, {}", self.name());
        (name, self.held.to_string())
    }
}

impl Contender for Besieged {
    fn name(&self) -> &str {
        self.peer.map_or("calm", Peer::name)
    }

    fn is_floor(&self) -> bool {
        self.peer.is_none()
    }

    fn jobs(&mut self, load: &Load, stop: &Stop) -> Result<Vec<Job>, Problem> {
        let jobs = self.target.jobs(load, stop)?;
        self.before = stalls(self.http_port)?;
        if let Some(peer) = self.peer {
            self.pressing = Some(Pressing::start(peer, &self.place)?);
        }
        Ok(jobs)
    }

    fn ended(&mut self) -> Result<(), Problem> {
        let pressed = self.pressing.take().map(Pressing::end);
        self.held.add(&stalls(self.http_port)?.since(&self.before));
        pressed.unwrap_or(Ok(()))
    }

    fn watched(&self) -> Watched {
        self.target.watched()
    }
}
