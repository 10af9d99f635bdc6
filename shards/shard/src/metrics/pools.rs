//! Those of Cassandra's stages that exist here, for all cores together: requests of clients, definitions, compactions,
//! flushes, deliveries of hints.

use super::ShardMetrics;
use crate::ports::Activity;

/// Cassandra's name for the stage that merges SSTables.
const COMPACTIONS: &str = "CompactionExecutor";
/// Cassandra's name for the stage that flushes memtables.
const FLUSHES: &str = "MemtableFlushWriter";
/// Cassandra's name for the stage that changes the schema.
const DEFINITIONS: &str = "MigrationStage";
/// Cassandra's name for the stage that delivers hints.
const HINTS: &str = "HintsDispatcher";
/// Cassandra's name for the stage that executes requests.
pub(crate) const REQUESTS: &str = "Native-Transport-Requests";

/// The number of stages.
pub(crate) const STAGES: usize = 5;

/// The activity of each stage, by Cassandra's names.
pub fn stages(shards: &[ShardMetrics]) -> [(&'static str, Activity); STAGES] {
    let sum = |of: fn(&ShardMetrics) -> &Activity| {
        let mut sum = Activity::default();
        shards.iter().for_each(|metrics| sum.add(of(metrics)));
        sum
    };
    // Shard 0 makes the definitions of all cores.
    let definitions = shards.first().map(|metrics| metrics.definitions).unwrap_or_default();
    [
        (REQUESTS, sum(|metrics| &metrics.served.requests)),
        (DEFINITIONS, definitions),
        (COMPACTIONS, sum(|metrics| &metrics.compactions)),
        (FLUSHES, sum(|metrics| &metrics.flushes)),
        (HINTS, sum(|metrics| &metrics.hints.deliveries)),
    ]
}
