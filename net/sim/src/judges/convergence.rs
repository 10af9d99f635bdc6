//! Convergence (P8): when faults have ended, every replica of a partition has the same rows.
//!
//! Each replica is asked alone. What it answers is compared as bytes, so nothing has to be known about the writes.

use super::history::Violation;
use std::fmt::Debug;

/// Checks that the replicas of a partition have shown the same rows; `partition` says which one it is. The error tells
/// the first rows that differ.
pub fn check_equal<R: Debug, C: PartialEq + Debug>(partition: &str, shown: &[(R, Vec<C>)]) -> Result<(), Violation> {
    let Some(((first, rows), others)) = shown.split_first() else { return Ok(()) };
    let Some((replica, other)) = others.iter().find(|(_, other)| other != rows) else { return Ok(()) };
    let equal = rows.iter().zip(other).take_while(|(row, other)| row == other).count();
    Err(Violation(format!(
        "the replicas of {partition} are not equal: {first:?} has {} rows, and {:?} behind {equal} equal ones, where \
         {replica:?} has {} and {:?}",
        rows.len(),
        rows.get(equal),
        other.len(),
        other.get(equal),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_differs_is_found() {
        assert!(check_equal::<u8, u8>("p", &[]).is_ok());
        assert!(check_equal("p", &[(1, vec!["a"]), (2, vec!["a"]), (3, vec!["a"])]).is_ok());
        let told = check_equal("p", &[(1, vec!["a"]), (2, vec!["a"]), (3, vec!["a", "b"])]).expect_err("one differs").0;
        assert!(told.contains("1 has 1 rows, and None behind 1 equal ones, where 3 has 2 and Some(\"b\")"), "{told}");
    }
}
