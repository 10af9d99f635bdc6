//! Thresholds of tombstones and batches, which hold for the requests of all clients.

use super::{ConfigError, Given, error};
use shard::{BatchThresholds, FilteringThresholds, TombstoneThresholds};

/// The largest count that a threshold can name: Cassandra's numbers have 32 bits.
const COUNT_MAX: u64 = i32::MAX as u64;

impl Given {
    pub(super) fn tombstones(&self) -> Result<TombstoneThresholds, ConfigError> {
        let default = TombstoneThresholds::default();
        Ok(TombstoneThresholds {
            warn: self.number("tombstone_warn_threshold", 0, COUNT_MAX)?.unwrap_or(default.warn),
            fail: self.number("tombstone_failure_threshold", 0, COUNT_MAX)?.unwrap_or(default.fail),
        })
    }

    pub(super) fn filtering(&self) -> Result<FilteringThresholds, ConfigError> {
        const GROUP: &str = "replica_filtering_protection";
        let default = FilteringThresholds::default();
        let threshold = |name: &str, default: u64| {
            let Some(given) = self.take(GROUP).and_then(|group| group.get(name)) else { return Ok(default) };
            match given.as_u64() {
                Some(count) if count <= COUNT_MAX => Ok(count),
                _ => error(format!("{GROUP}.{name}: {given:?} is not a number from 0 to {COUNT_MAX}")),
            }
        };
        Ok(FilteringThresholds {
            warn: threshold("cached_rows_warn_threshold", default.warn)?,
            fail: threshold("cached_rows_fail_threshold", default.fail)?,
        })
    }

    pub(super) fn batches(&self) -> Result<BatchThresholds, ConfigError> {
        let default = BatchThresholds::default();
        let warn = self.size("batch_size_warn_threshold")?;
        let fail = self.size("batch_size_fail_threshold")?;
        let batches = BatchThresholds {
            bytes_warn: warn.map_or(default.bytes_warn, |bytes| bytes as usize),
            bytes_max: fail.map_or(default.bytes_max, |bytes| bytes as usize),
            unlogged_partitions_warn: self
                .number("unlogged_batch_across_partitions_warn_threshold", 0, COUNT_MAX)?
                .map_or(default.unlogged_partitions_warn, |count| count as usize),
        };
        if batches.bytes_max < batches.bytes_warn {
            return error(format!(
                "batch_size_fail_threshold: {} bytes are less than batch_size_warn_threshold",
                batches.bytes_max
            ));
        }
        Ok(batches)
    }

    /// The value of the option `name`, a size in bytes of at most 2 TiB; `None` if it is not given.
    pub(super) fn size(&self, name: &'static str) -> Result<Option<u64>, ConfigError> {
        match self.bytes(name)? {
            Some(bytes) if bytes > COUNT_MAX << 10 => {
                error(format!("{name}: {bytes} bytes, at most {}", COUNT_MAX << 10))
            }
            bytes => Ok(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use shard::{BatchThresholds, FilteringThresholds, TombstoneThresholds};

    #[test]
    fn thresholds_are_read() {
        let default = Config::read("", &[]).expect("valid");
        assert_eq!(default.node.tombstones, TombstoneThresholds { warn: 1_000, fail: 100_000 });
        assert_eq!(default.node.filtering, FilteringThresholds { warn: 2_000, fail: 32_000 });
        let bytes = BatchThresholds { bytes_warn: 5 << 10, bytes_max: 50 << 10, unlogged_partitions_warn: 10 };
        assert_eq!(default.node.batches, bytes);
        let file = "tombstone_warn_threshold: 5\ntombstone_failure_threshold: 20\nbatch_size_warn_threshold: 1KiB\n\
                    replica_filtering_protection: {cached_rows_warn_threshold: 7, cached_rows_fail_threshold: 8}\n\
                    batch_size_fail_threshold_in_kb: 4\nunlogged_batch_across_partitions_warn_threshold: 3\n";
        let told = Config::read(file, &[]).expect("valid");
        assert!(told.unused.is_empty(), "{:?}", told.unused);
        assert_eq!(told.node.tombstones, TombstoneThresholds { warn: 5, fail: 20 });
        assert_eq!(told.node.filtering, FilteringThresholds { warn: 7, fail: 8 });
        let bytes = BatchThresholds { bytes_warn: 1 << 10, bytes_max: 4 << 10, unlogged_partitions_warn: 3 };
        assert_eq!(told.node.batches, bytes);
        for wrong in [
            "tombstone_warn_threshold: x",
            "batch_size_warn_threshold: 5",
            "batch_size_fail_threshold: 1KiB",
            "replica_filtering_protection: {cached_rows_fail_threshold: 2147483648}",
        ] {
            assert!(Config::read(wrong, &[]).is_err(), "{wrong}");
        }
    }
}
