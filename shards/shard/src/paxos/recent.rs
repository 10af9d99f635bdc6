//! What the acceptors of a core have stored lately, so that a step of a round need not read what the step before it has
//! stored.
//!
//! A step takes a state out, changes it, stores the change and puts it back. So a step that fails or is given up leaves
//! nothing here, and the next one reads what is stored.
//!
//! What is streamed from other nodes adds to the stored states. Then all that is here is forgotten, and so is what a
//! step has taken out before that.
//!
//! Invariants: whoever takes or puts a state holds the partition's lock, and nothing else writes `system.paxos` but
//! streams, so a state that is here is the stored one; number, bytes and age are limited, and no state is used when its
//! row may have expired.

use super::{Acceptor, Proposal, Update};
use model::{DecoratedKey, TableId};
use runtime::Instant;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Places for states, a power of two. Two partitions with the same place displace each other.
const PLACES: usize = 1024;
/// Bytes of the key and of the updates of a state that is kept, at most.
const STATE_BYTES_MAX: usize = 2 << 10;
/// How long a state is kept, at most; rows live longer.
const AGE_MAX: Duration = Duration::from_secs(3600);

/// A state, and whose it is.
struct Kept {
    table: TableId,
    key: Vec<u8>,
    stored: Instant,
    state: Acceptor<Update>,
}

/// The states that a core has stored lately.
#[derive(Default)]
pub(crate) struct RecentAcceptors {
    places: RefCell<Vec<Option<Kept>>>,
    /// How often everything was forgotten.
    forgotten: Cell<u64>,
}

/// When a state was taken out or read: it may be put back if nothing was forgotten since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken(u64);

impl RecentAcceptors {
    /// Before a state is taken or read.
    pub(crate) fn begin(&self) -> Taken {
        Taken(self.forgotten.get())
    }

    /// Forgets all states, because stored ones have changed.
    pub(crate) fn forget_all(&self) {
        self.forgotten.set(self.forgotten.get() + 1);
        self.places.borrow_mut().clear();
    }

    /// Takes the state of a partition out.
    pub(crate) fn take(&self, table: TableId, key: &DecoratedKey, now: Instant) -> Option<Acceptor<Update>> {
        let mut places = self.places.borrow_mut();
        let place = places.get_mut(place(table, key))?;
        let kept = place.take_if(|kept| kept.table == table && kept.key[..] == key.key[..])?;
        (now.since(kept.stored) <= AGE_MAX).then_some(kept.state)
    }

    /// Keeps the state of a partition, which is the stored one if nothing was forgotten since it was `taken`.
    pub(crate) fn put(&self, taken: Taken, table: TableId, key: &DecoratedKey, state: Acceptor<Update>, now: Instant) {
        if taken != self.begin() {
            return;
        }
        let bytes = |proposal: &Option<Proposal<Update>>| {
            proposal.as_ref().and_then(|proposal| proposal.update.as_ref()).map_or(0, Vec::len)
        };
        if key.key.len() + bytes(&state.accepted) + bytes(&state.committed) > STATE_BYTES_MAX {
            return;
        }
        let mut places = self.places.borrow_mut();
        if places.is_empty() {
            places.resize_with(PLACES, || None);
        }
        places[place(table, key)] = Some(Kept { table, key: key.key.to_vec(), stored: now, state });
    }
}

/// Where the state of a partition is.
fn place(table: TableId, key: &DecoratedKey) -> usize {
    let mut first = [0; 8];
    first.copy_from_slice(&table.0[..8]);
    let mixed = (key.token.0 as u64 ^ u64::from_le_bytes(first)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (u64::BITS - PLACES.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paxos::ballot::{Ballot, Scope};
    use model::Partitioner;

    const TABLE: TableId = TableId([7; 16]);

    fn key(number: usize) -> DecoratedKey {
        DecoratedKey::new(Partitioner::Murmur3, &number.to_be_bytes())
    }

    fn state(micros: i64, bytes: usize) -> Acceptor<Update> {
        let committed = Proposal { ballot: Ballot::new(micros, Scope::Global, 0), update: Some(vec![1; bytes]) };
        Acceptor { committed: Some(committed), ..Acceptor::default() }
    }

    const NOW: Instant = Instant(0);

    #[test]
    fn a_state_that_is_taken_is_here_no_more() {
        let recent = RecentAcceptors::default();
        assert_eq!(recent.take(TABLE, &key(1), NOW), None);
        recent.put(recent.begin(), TABLE, &key(1), state(5, 10), NOW);
        assert_eq!(recent.take(TABLE, &key(2), NOW), None);
        assert_eq!(recent.take(TableId([8; 16]), &key(1), NOW), None);
        assert_eq!(recent.take(TABLE, &key(1), NOW), Some(state(5, 10)));
        assert_eq!(recent.take(TABLE, &key(1), NOW), None);
    }

    /// A step that is under way when a stream adds to what is stored must not hide that.
    #[test]
    fn d2_what_was_streamed_is_not_hidden_by_what_was_kept_or_taken_before() {
        let recent = RecentAcceptors::default();
        let taken = recent.begin();
        recent.put(taken, TABLE, &key(1), state(5, 10), NOW);
        recent.forget_all();
        assert_eq!(recent.take(TABLE, &key(1), NOW), None);
        recent.put(taken, TABLE, &key(1), state(5, 10), NOW);
        assert_eq!(recent.take(TABLE, &key(1), NOW), None);
        recent.put(recent.begin(), TABLE, &key(1), state(6, 10), NOW);
        assert_eq!(recent.take(TABLE, &key(1), NOW), Some(state(6, 10)));
    }

    #[test]
    fn number_bytes_and_age_are_limited() {
        let recent = RecentAcceptors::default();
        let most = STATE_BYTES_MAX - key(1).key.len();
        recent.put(recent.begin(), TABLE, &key(1), state(5, most), NOW);
        assert_eq!(recent.take(TABLE, &key(1), NOW.after(AGE_MAX)), Some(state(5, most)));
        recent.put(recent.begin(), TABLE, &key(1), state(5, most), NOW);
        assert_eq!(recent.take(TABLE, &key(1), NOW.after(AGE_MAX + Duration::from_nanos(1))), None);
        recent.put(recent.begin(), TABLE, &key(1), state(5, most + 1), NOW);
        assert_eq!(recent.take(TABLE, &key(1), NOW), None);
        (0..2 * PLACES).for_each(|number| recent.put(recent.begin(), TABLE, &key(number), state(5, 10), NOW));
        let kept = (0..2 * PLACES).filter(|number| recent.take(TABLE, &key(*number), NOW).is_some()).count();
        assert!((PLACES / 2..=PLACES).contains(&kept), "{kept}");
    }
}
