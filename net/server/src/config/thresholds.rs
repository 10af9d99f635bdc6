//! What requests are warned about and refused for, whoever sends them: tombstones and batches.

use super::{ConfigError, Given, error, units};
use shard::{BatchThresholds, TombstoneThresholds};

/// Most tombstones and partitions that a threshold can name: Cassandra's numbers have 32 bits.
const COUNT_MAX: u64 = i32::MAX as u64;

impl Given {
    pub(super) fn tombstones(&mut self) -> Result<TombstoneThresholds, ConfigError> {
        let default = TombstoneThresholds::default();
        Ok(TombstoneThresholds {
            warn: self.number("tombstone_warn_threshold", 0, COUNT_MAX)?.unwrap_or(default.warn),
            fail: self.number("tombstone_failure_threshold", 0, COUNT_MAX)?.unwrap_or(default.fail),
        })
    }

    pub(super) fn batches(&mut self) -> Result<BatchThresholds, ConfigError> {
        let default = BatchThresholds::default();
        let warn = self.size("batch_size_warn_threshold", Some("batch_size_warn_threshold_in_kb"))?;
        let fail = self.size("batch_size_fail_threshold", Some("batch_size_fail_threshold_in_kb"))?;
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

    /// A size with its unit; its older spelling is a plain number of kibibytes.
    pub(super) fn size(
        &mut self,
        name: &'static str,
        kibibytes: Option<&'static str>,
    ) -> Result<Option<u64>, ConfigError> {
        if let Some(older) = kibibytes
            && let Some(number) = self.number(older, 0, COUNT_MAX)?
        {
            return Ok(Some(number << 10));
        }
        let Some(text) = self.text(name)? else { return Ok(None) };
        match units::bytes(&text) {
            Some(bytes) if bytes <= COUNT_MAX << 10 => Ok(Some(bytes)),
            _ => error(format!("{name}: {text} is not a size such as 5KiB")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use shard::{BatchThresholds, TombstoneThresholds};

    #[test]
    fn thresholds_are_read() {
        let default = Config::read("", &[]).expect("valid");
        assert_eq!(default.tombstones, TombstoneThresholds { warn: 1_000, fail: 100_000 });
        let bytes = BatchThresholds { bytes_warn: 5 << 10, bytes_max: 50 << 10, unlogged_partitions_warn: 10 };
        assert_eq!(default.batches, bytes);
        let file = "tombstone_warn_threshold: 5\ntombstone_failure_threshold: 20\nbatch_size_warn_threshold: 1KiB\n\
                    batch_size_fail_threshold_in_kb: 4\nunlogged_batch_across_partitions_warn_threshold: 3\n";
        let told = Config::read(file, &[]).expect("valid");
        assert!(told.unused.is_empty(), "{:?}", told.unused);
        assert_eq!(told.tombstones, TombstoneThresholds { warn: 5, fail: 20 });
        let bytes = BatchThresholds { bytes_warn: 1 << 10, bytes_max: 4 << 10, unlogged_partitions_warn: 3 };
        assert_eq!(told.batches, bytes);
        for wrong in ["tombstone_warn_threshold: x", "batch_size_warn_threshold: 5", "batch_size_fail_threshold: 1KiB"]
        {
            assert!(Config::read(wrong, &[]).is_err(), "{wrong}");
        }
    }
}
