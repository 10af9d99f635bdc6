//! Convergence (P8): when faults have ended, every replica of a partition has the same rows.
//!
//! Each replica is asked alone. What it answers is compared as bytes, so nothing has to be known about the writes.

use super::history::Violation;
use std::fmt::Debug;

/// Checks that the replicas of a partition have shown the same; `partition` says which one it is.
pub fn check_equal<R: Debug, C: PartialEq + Debug>(partition: &str, shown: &[(R, C)]) -> Result<(), Violation> {
    let Some(((first, contents), others)) = shown.split_first() else { return Ok(()) };
    match others.iter().find(|(_, other)| other != contents) {
        None => Ok(()),
        Some((replica, other)) => Err(Violation(format!(
            "the replicas of {partition} are not equal: {first:?} has {contents:?}, {replica:?} has {other:?}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_differs_is_found() {
        assert!(check_equal::<u8, u8>("p", &[]).is_ok());
        assert!(check_equal("p", &[(1, "a"), (2, "a"), (3, "a")]).is_ok());
        let told = check_equal("p", &[(1, "a"), (2, "a"), (3, "b")]).expect_err("one differs").0;
        assert!(told.contains("1 has \"a\", 3 has \"b\""), "{told}");
    }
}
