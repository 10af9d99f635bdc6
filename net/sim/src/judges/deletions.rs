//! Deletions (P7): what every replica has acknowledged as deleted stays deleted, though the deletion itself is
//! forgotten after `gc_grace_seconds`.
//!
//! A key is written as often as its client likes, then deleted, and never written again. From the acknowledgement of
//! its deletion by all replicas on, no read at any level shows it.

use super::history::{Span, Violation};
use std::collections::BTreeMap;

/// The keys of a run that were deleted, each with when that was acknowledged by all replicas, in virtual nanoseconds.
#[derive(Debug, Default)]
pub struct Deletions {
    deleted: BTreeMap<i64, u64>,
}

impl Deletions {
    /// Records that every replica has acknowledged the deletion of a key.
    pub fn deleted(&mut self, key: i64, now: u64) {
        self.deleted.entry(key).or_insert(now);
    }

    /// The keys that were deleted.
    pub fn keys(&self) -> Vec<i64> {
        self.deleted.keys().copied().collect()
    }

    /// Checks that a read over `span` may show this value of a key.
    pub fn check(&self, key: i64, value: Option<i64>, span: Span) -> Result<(), Violation> {
        match (self.deleted.get(&key), value) {
            (Some(deleted), Some(value)) if *deleted <= span.0 => Err(Violation(format!(
                "key {key}, deleted on all replicas at {deleted}, shows {value} at {}..{}",
                span.0, span.1
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_comes_back_is_found() {
        let mut deletions = Deletions::default();
        assert!(deletions.check(1, Some(5), (1, 2)).is_ok());
        deletions.deleted(1, 10);
        deletions.deleted(1, 20);
        assert_eq!(deletions.keys(), [1]);
        assert!(deletions.check(1, Some(5), (9, 12)).is_ok());
        assert!(deletions.check(1, None, (10, 12)).is_ok());
        assert!(deletions.check(2, Some(5), (10, 12)).is_ok());
        assert!(deletions.check(1, Some(5), (10, 12)).is_err());
    }
}
