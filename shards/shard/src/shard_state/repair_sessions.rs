//! The sessions of incremental repair that this node takes part in: rows of `system.repairs`. Kept by shard 0.
//!
//! Invariants: at most [`SESSIONS_MAX`] are known; the oldest that are over give way to new ones.

use cluster::repair::session::SessionState;
use model::{Partitioner, RingToken};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use uuid::Uuid;

/// Most sessions that are known.
pub(crate) const SESSIONS_MAX: usize = 1024;

/// A session of incremental repair on this node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepairSession {
    /// How far it is.
    pub state: SessionState,
    /// The node that leads it.
    pub coordinator: SocketAddr,
    /// All nodes that take part, in ascending order.
    pub participants: Vec<SocketAddr>,
    /// The ids of its tables.
    pub tables: Vec<Uuid>,
    /// Its ranges, each as `system.repairs` has it.
    pub ranges: Vec<Vec<u8>>,
    /// When what it compares counts as repaired, milliseconds since 1970; 0 if it does not.
    pub repaired_at: i64,
    /// When it began, milliseconds since 1970.
    pub started_at: i64,
    /// When its state changed last, milliseconds since 1970.
    pub last_update: i64,
}

impl RepairSession {
    /// Its ranges: the token behind which each begins, and its last one. One that cannot be read is left out.
    pub fn token_ranges(&self, partitioner: Partitioner) -> Vec<(RingToken, RingToken)> {
        let token = |bytes: &mut &[u8]| {
            let (length, rest) = bytes.split_first_chunk()?;
            let (token, rest) = rest.split_at_checked(usize::try_from(i32::from_be_bytes(*length)).ok()?)?;
            *bytes = rest;
            partitioner.token_of_value(token)
        };
        let range = |stored: &Vec<u8>| {
            let mut bytes = &stored[..];
            Some((token(&mut bytes)?, token(&mut bytes)?))
        };
        self.ranges.iter().filter_map(range).collect()
    }
}

/// The sessions by their ids.
#[derive(Default)]
pub struct RepairSessions {
    known: RefCell<BTreeMap<Uuid, Rc<RepairSession>>>,
    /// Those that this node leads in this run.
    led: RefCell<BTreeSet<Uuid>>,
}

impl RepairSessions {
    /// What is known of all sessions.
    pub fn all(&self) -> BTreeMap<Uuid, Rc<RepairSession>> {
        self.known.borrow().clone()
    }

    /// What is known of a session.
    pub fn get(&self, id: Uuid) -> Option<Rc<RepairSession>> {
        self.known.borrow().get(&id).cloned()
    }

    /// Keeps what is known of a session. Returns those that are forgotten for it.
    pub(crate) fn put(&self, id: Uuid, session: RepairSession) -> Vec<Uuid> {
        let mut known = self.known.borrow_mut();
        let mut forgotten = Vec::new();
        while known.len() >= SESSIONS_MAX && !known.contains_key(&id) {
            let over = known.iter().filter(|(_, session)| session.state.is_over());
            let Some(oldest) = over.min_by_key(|(_, session)| session.last_update).map(|(id, _)| *id) else { break };
            known.remove(&oldest);
            forgotten.push(oldest);
        }
        known.insert(id, Rc::new(session));
        forgotten
    }

    /// Whether there is room for another session.
    pub(crate) fn has_room(&self) -> bool {
        let known = self.known.borrow();
        known.len() < SESSIONS_MAX || known.values().any(|session| session.state.is_over())
    }

    /// This node leads a session from now on, or no longer.
    pub(crate) fn lead(&self, id: Uuid, leads: bool) {
        match leads {
            true => self.led.borrow_mut().insert(id),
            false => self.led.borrow_mut().remove(&id),
        };
    }

    /// Whether this node leads a session in this run.
    pub(crate) fn is_led(&self, id: Uuid) -> bool {
        self.led.borrow().contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(state: SessionState, last_update: i64) -> RepairSession {
        let coordinator = "127.0.0.1:7000".parse().expect("an address");
        RepairSession {
            state,
            coordinator,
            participants: vec![coordinator],
            tables: Vec::new(),
            ranges: Vec::new(),
            repaired_at: 1,
            started_at: 1,
            last_update,
        }
    }

    #[test]
    fn sessions_that_are_over_give_way_to_new_ones() {
        let sessions = RepairSessions::default();
        for number in 0..SESSIONS_MAX {
            let state = if number < 2 { SessionState::Failed } else { SessionState::FinalizePromised };
            assert!(sessions.put(Uuid::from_u128(number as u128), session(state, 100 - number as i64)).is_empty());
        }
        assert!(sessions.has_room());
        let again = sessions.put(Uuid::from_u128(5), session(SessionState::Finalized, 500));
        assert!(again.is_empty(), "it is known already");
        let new = |number: u128| sessions.put(Uuid::from_u128(number), session(SessionState::Prepared, 1));
        assert_eq!(new(5000), [Uuid::from_u128(1)], "the oldest that is over");
        assert_eq!(new(5001), [Uuid::from_u128(0)]);
        assert_eq!(new(5002), [Uuid::from_u128(5)]);
        assert!(!sessions.has_room(), "all others are under way");
        sessions.lead(Uuid::from_u128(5000), true);
        assert!(sessions.is_led(Uuid::from_u128(5000)) && !sessions.is_led(Uuid::from_u128(5001)));
    }
}
