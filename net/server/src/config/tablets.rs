//! Options of tables that are cut into tablets, and of hot partitions.

use super::given::Given;
use super::{ConfigError, error};
use std::time::Duration;

/// The smallest size at which tablets are split, bytes: the estimates of less are rough.
const SIZE_MIN: u64 = 64 << 10;
/// The largest, which is that of the managed services too, bytes.
const SIZE_MAX: u64 = 30 << 30;

/// The shortest time after which the replicas of a dead node are rebuilt: a restart must not move data.
const REPLACEMENT_MIN: Duration = Duration::from_secs(30);

/// The lowest and the highest throughput at which tablets are split, request units a second.
const THROUGHPUTS: (u64, u64) = (10, 1_000_000_000);

/// The lowest and the highest rate from which on a partition is hot, reads a second.
const HOT_READS: (u64, u64) = (1, 1_000_000);

impl Given {
    pub(super) fn replica_replacement_after(&self) -> Result<Option<Duration>, ConfigError> {
        match self.duration("replica_replacement_after")? {
            Some(time) if time < REPLACEMENT_MIN => {
                let (given, least) = (time.as_millis(), REPLACEMENT_MIN.as_millis());
                error(format!("replica_replacement_after: {given} ms, not at least {least}"))
            }
            time => Ok(time),
        }
    }

    pub(super) fn physical_partition_throughput(&self) -> Result<Option<u32>, ConfigError> {
        let units = self.number("physical_partition_throughput", THROUGHPUTS.0, THROUGHPUTS.1)?;
        Ok(units.map(|units| u32::try_from(units).unwrap_or(u32::MAX)))
    }

    pub(super) fn hot_partition_reads_per_second(&self) -> Result<Option<u32>, ConfigError> {
        let reads = self.number("hot_partition_reads_per_second", HOT_READS.0, HOT_READS.1)?;
        Ok(reads.map(|reads| u32::try_from(reads).unwrap_or(u32::MAX)))
    }

    pub(super) fn physical_partition_size(&self) -> Result<Option<u64>, ConfigError> {
        match self.bytes("physical_partition_size")? {
            Some(bytes) if !(SIZE_MIN..=SIZE_MAX).contains(&bytes) => {
                error(format!("physical_partition_size: {bytes} bytes, not from {SIZE_MIN} to {SIZE_MAX}"))
            }
            bytes => Ok(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn replicas_are_not_rebuilt_at_once() {
        let after = |text: &str| Config::read(text, &[]).map(|read| read.node.replica_replacement_after.as_secs());
        assert_eq!(after("").ok(), Some(600));
        assert_eq!(after("replica_replacement_after: 30s").ok(), Some(30));
        assert!(after("replica_replacement_after: 29999ms").is_err());
    }

    #[test]
    fn the_size_of_a_tablet_is_bounded() {
        let size = |text: &str| Config::read(text, &[]).map(|read| read.node.physical_partition_size);
        assert_eq!(size("").ok(), Some(10 << 30));
        assert_eq!(size("physical_partition_size: 64KiB").ok(), Some(64 << 10));
        assert_eq!(size("physical_partition_size: 30GiB").ok(), Some(30 << 30));
        assert!(size("physical_partition_size: 65535B").is_err());
        assert!(size("physical_partition_size: 32212254721B").is_err());
    }

    #[test]
    fn the_rate_of_a_hot_partition_is_bounded() {
        let rate = |text: &str| Config::read(text, &[]).map(|read| read.node.hot_partition_reads_per_second);
        assert_eq!(rate("").ok(), Some(1_000));
        assert_eq!(rate("hot_partition_reads_per_second: 1").ok(), Some(1));
        assert!(rate("hot_partition_reads_per_second: 0").is_err());
        assert!(rate("hot_partition_reads_per_second: 1000001").is_err());
        let relief = |text: &str| Config::read(text, &[]).map(|read| read.node.hot_partition_relief);
        assert_eq!((relief("").ok(), relief("hot_partition_relief: false").ok()), (Some(true), Some(false)));
    }

    #[test]
    fn the_throughput_of_a_tablet_is_bounded() {
        let units = |text: &str| Config::read(text, &[]).map(|read| read.node.physical_partition_throughput);
        assert_eq!(units("").ok(), Some(10_000));
        assert_eq!(units("physical_partition_throughput: 10").ok(), Some(10));
        assert!(units("physical_partition_throughput: 9").is_err());
        assert!(units("physical_partition_throughput: 1000000001").is_err());
    }
}
