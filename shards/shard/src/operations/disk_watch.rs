//! The guardrails `data_disk_usage_percentage_warn_threshold`, `..._fail_threshold` and
//! `data_disk_usage_max_disk_size`: shard 0 measures periodically how full the disks of the data directories are and
//! tells all shards what that means for writes. Names and texts are Cassandra's.
//!
//! The percentage is the data's size, memtables included, of the data on disk plus the free space, or of
//! `data_disk_usage_max_disk_size` if that is less. Without a threshold nothing is measured.

use crate::guards::alerts::AlertKind;
use crate::guards::disk_usage::{DiskThresholds, DiskUsage};
use crate::messages::admin::{TableAnswer, TableVerb};
use crate::shard_state::Shard;
use cql::guardrails::Threshold;
use model::Failure;
use runtime::Instant;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time between two measurements.
const PERIOD: Duration = Duration::from_secs(30);
/// Shortest time between two log lines about an unchanged state.
const TOLD_PERIOD: Duration = Duration::from_secs(30 * 60);

/// Measures the disk for as long as the node runs and tells every shard of changes.
pub(crate) async fn watch(shard: Shard, thresholds: DiskThresholds) {
    let mut told: Option<(DiskUsage, Instant)> = None;
    while let Ok(pass) = shard.enter() {
        match percent(&shard, thresholds.bytes_max).await {
            Err(failure) => tracing::warn!(%failure, "how full the disk is cannot be told"),
            Ok(percent) => {
                alert(&shard, percent, thresholds.percentage);
                let usage = DiskUsage::of(percent, thresholds.percentage);
                if usage != shard.disk_usage()
                    && let Err(failure) = shard.on_every_shard(TableVerb::SetDiskUsage(usage)).await
                {
                    tracing::warn!(%failure, "not every core knows how full the disk is");
                }
                let now = runtime::now();
                if told.is_none_or(|(before, at)| before != usage || now.since(at) >= TOLD_PERIOD) {
                    tell(percent, usage, thresholds.percentage);
                    told = Some((usage, now));
                }
            }
        }
        drop(pass);
        runtime::sleep(PERIOD).await;
    }
}

/// Notes how much is used of what the threshold for failures allows, or of that for warnings if there is no other. The
/// log is told of it only where throughput is limited: otherwise it says what Cassandra's does.
fn alert(shard: &Shard, percent: u64, threshold: Threshold) {
    let Some(limit) = threshold.fail.or(threshold.warn) else { return };
    let (used, limit) = (percent * 100 / limit.max(1), format!("{limit}% of the disks"));
    let is_logged = shard.throughput().is_metered();
    shard.alerts().note(AlertKind::DiskUsage, ("", ""), "the data", (used, &limit), is_logged);
}

fn tell(percent: u64, usage: DiskUsage, Threshold { warn, fail }: Threshold) {
    const NAME: &str = "Guardrail local_data_disk_usage violated: Local data disk usage";
    let limit = |limit: Option<u64>| limit.unwrap_or_default();
    match usage {
        DiskUsage::Spacious => {}
        DiskUsage::Stuffed => {
            tracing::warn!("{NAME} {percent}%(Stuffed) exceeds warning threshold of {}%", limit(warn));
        }
        DiskUsage::Full => tracing::error!(
            "{NAME} {percent}%(Full) exceeds failure threshold of {}%, will stop accepting writes",
            limit(fail)
        ),
    }
}

/// The percentage of the disk that data takes, rounded up; `bytes_max` limits the size that counts as the disk's.
async fn percent(shard: &Shard, bytes_max: Option<u64>) -> Result<u64, Failure> {
    let failed = |error: std::io::Error| Failure::server(error.to_string());
    let mut used = 0;
    let mut free_by_disk: BTreeMap<u64, u64> = BTreeMap::new();
    for directory in shard.config().directories.all() {
        let directory = directory.join("data");
        // A node that has not flushed anything has no data directory yet.
        runtime::file::create_dir_all(&directory).await.map_err(failed)?;
        let space = runtime::file::space(&directory).await.map_err(failed)?;
        used += space.used;
        free_by_disk.insert(space.disk, space.free);
    }
    let free = free_by_disk.values().fold(0, |sum: u64, free| sum.saturating_add(*free));
    let stored = used;
    for answer in shard.on_every_shard(TableVerb::Memory).await? {
        if let TableAnswer::Memory(bytes) = answer {
            used += bytes;
        }
    }
    let all = bytes_max.unwrap_or(u64::MAX).min(stored.saturating_add(free)).max(1);
    Ok(used.saturating_mul(100).div_ceil(all))
}
