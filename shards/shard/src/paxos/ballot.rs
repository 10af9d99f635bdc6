//! Ballots: version 1 uuids whose time, made unique by random bits, orders the rounds of Paxos, as in Cassandra.
//!
//! The time is the write timestamp of what the round decides, in microseconds; the digit below (100 ns) holds the scope
//! of the round. So a later round writes with a later timestamp.

use model::CqlType;
use model::value::compare;
use std::cmp::Ordering;

/// 100 ns intervals between 1582-10-15 and 1970-01-01.
const GREGORIAN_OFFSET: i64 = 0x01b2_1dd2_1381_4000;

/// Which replicas decide a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// The replicas of one data centre: LOCAL_SERIAL.
    Local = 1,
    /// All replicas: SERIAL.
    Global = 2,
}

/// The number of a round.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ballot([u8; 16]);

impl Ballot {
    /// A ballot at `micros` since 1970; `random` distinguishes it from other ballots of that microsecond.
    pub(crate) fn new(micros: i64, scope: Scope, random: u64) -> Ballot {
        let ticks = micros.wrapping_mul(10).wrapping_add(GREGORIAN_OFFSET).wrapping_add(scope as i64) as u64;
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&(ticks as u32).to_be_bytes());
        bytes[4..6].copy_from_slice(&((ticks >> 32) as u16).to_be_bytes());
        bytes[6..8].copy_from_slice(&((ticks >> 48) as u16 & 0x0fff | 0x1000).to_be_bytes());
        bytes[8..].copy_from_slice(&(random >> 2 | 1 << 63).to_be_bytes());
        Ballot(bytes)
    }

    /// The ballot in a stored value; `None` if it does not have 16 bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Ballot> {
        bytes.try_into().ok().map(Ballot)
    }

    pub(crate) fn bytes(&self) -> [u8; 16] {
        self.0
    }

    /// The write timestamp of what the round decides, microseconds since 1970.
    pub(crate) fn micros(&self) -> i64 {
        self.ticks().div_euclid(10)
    }

    /// Which replicas decide the round; all of them if it does not say.
    pub(crate) fn scope(&self) -> Scope {
        match self.ticks().rem_euclid(10) == Scope::Local as i64 {
            true => Scope::Local,
            false => Scope::Global,
        }
    }

    /// 100 ns since 1970.
    fn ticks(&self) -> i64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        i64::from_be_bytes([g & 0x0f, h, e, f, a, b, c, d]) - GREGORIAN_OFFSET
    }
}

impl Ord for Ballot {
    fn cmp(&self, other: &Ballot) -> Ordering {
        compare(&CqlType::Timeuuid, &self.0, &other.0)
    }
}

impl PartialOrd for Ballot {
    fn partial_cmp(&self, other: &Ballot) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ballots_carry_their_time_and_order_by_it() {
        let micros = 1_795_286_180_335_123;
        for (scope, random) in [(Scope::Local, 0), (Scope::Global, u64::MAX)] {
            let ballot = Ballot::new(micros, scope, random);
            assert_eq!((ballot.micros(), ballot.scope()), (micros, scope));
            let bytes = ballot.bytes();
            assert_eq!((bytes[6] >> 4, bytes[8] >> 6), (1, 2), "version 1, the usual variant");
            assert_eq!(Ballot::from_bytes(&bytes), Some(ballot));
        }
        let at = |micros, random| Ballot::new(micros, Scope::Global, random);
        assert!(at(micros, u64::MAX) < at(micros + 1, 0));
        assert_ne!(at(micros, 4), at(micros, 8));
        assert_eq!(Ballot::from_bytes(&[0; 15]), None);
    }
}
