//! How full the disk of the node is, and what that means for writes (the guardrail `data_disk_usage_percentage_*`).
//! Names and texts are Cassandra's. `operations::disk_watch` measures it.

use cql::guardrails::Threshold;
use model::Failure;

/// How full the disk may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskThresholds {
    /// Percent, 1 to 99.
    pub percentage: Threshold,
    /// Bytes that count as the size of the disk, if it is larger; positive.
    pub bytes_max: Option<u64>,
}

/// How full the disk of a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DiskUsage {
    /// There is room.
    #[default]
    Spacious,
    /// Above the threshold for warnings.
    Stuffed,
    /// Above the threshold for failures.
    Full,
}

impl DiskUsage {
    /// The state at `percent` used.
    pub(crate) fn of(percent: u64, threshold: Threshold) -> DiskUsage {
        let beyond = |limit: Option<u64>| limit.is_some_and(|limit| percent > limit);
        if beyond(threshold.fail) {
            DiskUsage::Full
        } else if beyond(threshold.warn) {
            DiskUsage::Stuffed
        } else {
            DiskUsage::Spacious
        }
    }

    /// The warning for a client whose write the disk has to take, if there is one.
    ///
    /// # Errors
    /// The disk is too full for it.
    pub(crate) fn check(self) -> Result<Option<String>, Failure> {
        const NAME: &str = "Guardrail replica_disk_usage violated";
        match self {
            DiskUsage::Spacious => Ok(None),
            DiskUsage::Stuffed => Ok(Some(format!("{NAME}: Replica disk usage exceeds warning threshold"))),
            DiskUsage::Full => Err(Failure::invalid(format!(
                "{NAME}: Write request failed because disk usage exceeds failure threshold"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_the_fullest_that_is_fine() {
        let threshold = Threshold { warn: Some(80), fail: Some(90) };
        assert_eq!(
            [0, 80, 81, 90, 91, 300].map(|percent| DiskUsage::of(percent, threshold)),
            [
                DiskUsage::Spacious,
                DiskUsage::Spacious,
                DiskUsage::Stuffed,
                DiskUsage::Stuffed,
                DiskUsage::Full,
                DiskUsage::Full
            ]
        );
        assert_eq!(DiskUsage::of(100, Threshold::default()), DiskUsage::Spacious);
    }
}
