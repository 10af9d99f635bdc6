//! The stages of Cassandra's that exist here, all cores together: requests of clients, definitions, compactions, flushes.

use super::ShardFigures;
use crate::Shard;
use crate::ports::Activity;
use model::Failure;

/// Cassandra's name for who merges SSTables.
const COMPACTIONS: &str = "CompactionExecutor";
/// Cassandra's name for who writes memtables.
const FLUSHES: &str = "MemtableFlushWriter";
/// Cassandra's name for who changes the schema.
const DEFINITIONS: &str = "MigrationStage";
/// Cassandra's name for who executes requests.
pub(crate) const REQUESTS: &str = "Native-Transport-Requests";

/// How busy each stage is, by Cassandra's names.
pub fn stages(shards: &[ShardFigures]) -> [(&'static str, Activity); 4] {
    let sum = |of: fn(&ShardFigures) -> &Activity| {
        let mut sum = Activity::default();
        shards.iter().for_each(|figures| sum.add(of(figures)));
        sum
    };
    // There is one for all cores.
    let definitions = shards.first().map(|figures| figures.definitions).unwrap_or_default();
    [
        (REQUESTS, sum(|figures| &figures.served.requests)),
        (DEFINITIONS, definitions),
        (COMPACTIONS, sum(|figures| &figures.compactions)),
        (FLUSHES, sum(|figures| &figures.flushes)),
    ]
}

impl Shard {
    /// See [`stages`].
    pub(crate) async fn pools(&self) -> Result<[(&'static str, Activity); 4], Failure> {
        Ok(stages(&self.all_figures().await?))
    }
}
