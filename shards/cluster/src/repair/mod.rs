//! Where replicas of a range differ, told from hashes of what they have.
//!
//! 1. A range is cut into segments of a bounded number of partitions ([`segments`]).
//! 2. The tokens of a segment are cut into leaves of equal size. A replica sums the digests of the partitions of each
//!    leaf ([`tree`]): sums of different cores add up, so numbers of cores do not matter.
//! 3. Of leaves whose sums differ every replica gives the digests of its partitions ([`partitions`]); those that differ
//!    are what must be made equal.
//!
//! [`session`] has the states of incremental repairs.
//!
//! Invariants: equal contents have equal digests ([`model::digest`]); what differs is found unless two different sums
//! of 64 bits are equal by chance.

pub mod partitions;
pub mod segments;
pub mod session;
pub mod tree;
