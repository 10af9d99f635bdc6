//! Limits of batches over several partitions.

/// Thresholds for warnings about batches over several partitions, and for refusing them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchThresholds {
    /// `batch_size_warn_threshold`: above so many bytes the client is warned.
    pub bytes_warn: usize,
    /// `batch_size_fail_threshold`: above so many bytes the batch is refused.
    pub bytes_max: usize,
    /// `unlogged_batch_across_partitions_warn_threshold`: above so many partitions of an unlogged batch the client is
    /// warned.
    pub unlogged_partitions_warn: usize,
}

impl Default for BatchThresholds {
    fn default() -> BatchThresholds {
        BatchThresholds { bytes_warn: 5 << 10, bytes_max: 50 << 10, unlogged_partitions_warn: 10 }
    }
}
