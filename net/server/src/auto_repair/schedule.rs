//! When a table is to be repaired again, and how much a repair that runs by itself takes of the node's time.
//!
//! Invariant: a repair begins early enough to end within half of the table's `gc_grace_seconds` of the one before, if
//! it takes at most a fifth of that.

use std::time::Duration;

/// How many times as long as a part of a range took a repair rests behind it, while it is in time.
const REST: u32 = 3;

/// How long after a repair of a table the next one begins.
pub(super) fn interval(gc_grace_seconds: u32, min_interval: Duration) -> Duration {
    match gc_grace_seconds {
        0 => min_interval,
        seconds => min_interval.min(Duration::from_secs(u64::from(seconds)) / 2 * 4 / 5),
    }
}

/// How much a repair rests that begins `late` after it was due.
pub(super) fn rest(late: Duration, gc_grace_seconds: u32) -> u32 {
    let reserve = Duration::from_secs(u64::from(gc_grace_seconds)) / 2 / 5;
    // Half of the reserve is used up: what is left is for the repair alone.
    if gc_grace_seconds > 0 && late > reserve / 2 { 0 } else { REST }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn repairs_begin_in_time_for_half_of_gc_grace() {
        assert_eq!(interval(864_000, DAY), DAY, "ten days");
        assert_eq!(interval(864_000, 30 * DAY), 4 * DAY);
        assert_eq!(interval(86_400, DAY), DAY * 2 / 5);
        assert_eq!(interval(0, DAY), DAY, "nothing is purged too early");
    }

    #[test]
    fn a_repair_that_is_late_does_not_rest() {
        assert_eq!(rest(Duration::ZERO, 864_000), REST);
        assert_eq!(rest(DAY / 2, 864_000), REST);
        assert_eq!(rest(DAY / 2 + Duration::from_secs(1), 864_000), 0);
        assert_eq!(rest(100 * DAY, 0), REST);
    }
}
