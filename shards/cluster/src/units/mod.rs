//! Request units: what a request costs, and how units are shared out where a table may use only so many a second.
//!
//! 1. [`mod@price`]: the price of a request, a function of what it does and of nothing else.
//! 2. Everything that is limited has a *scope*: a table, one of its physical partitions, one partition key, or the
//!    quota of a keyspace or role. One core of the data centre, its *keeper*, has the bucket of a scope ([`keeper`]).
//! 3. A coordinating core leases units from the keeper shortly before it needs them, and admits requests by what it
//!    has leased ([`lease`]); so a request is rarely sent anywhere before it is admitted, and never twice.
//!
//! Invariants: within any time `t` a keeper hands out at most `rate * t` and one pool; who waits for units gets some
//! before others get more of them, however slow its way to the keeper is. A coordinator that gets no answer admits its
//! equal part of the rate by itself.
//!
//! Amounts are hundredths of a unit, rates hundredths a second, times microseconds of a monotonic clock.

pub mod keeper;
pub mod lease;
pub mod limits;
pub mod price;

#[cfg(test)]
mod simulation_tests;

pub use keeper::{Ask, Grant, Keeper};
pub use lease::{Admission, Lease};
pub use price::{Work, price};

/// Hundredths in a unit.
pub const HUNDREDTHS: u64 = 100;
