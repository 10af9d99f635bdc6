//! `system.size_estimates` and `system.table_estimates`: how many partitions each primary range of a table has and how
//! large they are, for tools that divide a scan of a table between their workers.
//!
//! Shard 0 estimates every five minutes from the SSTables of all cores, as Cassandra's `SizeEstimatesRecorder` does,
//! and writes what has changed. With one data centre the primary ranges and those of the local data centre are the
//! same.

use crate::messages::admin::{TableAnswer, TableVerb};
use crate::schema::cells::{self, RowReader, RowWriter, StoredRow};
use crate::schema::rows::system_table;
use crate::shard_state::Shard;
use engine::SizeEstimate;
use model::mutation::{Clustering, push_clustering};
use model::row::{Deletion, RowBuilder};
use model::{Failure, Keyspace, MutationBuilder, RingToken, Table, TokenRange};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// From the start to the first estimate.
const FIRST_WAIT: Duration = Duration::from_secs(30);
/// From one estimate to the next.
const PERIOD: Duration = Duration::from_secs(300);
/// Most rows that are written at once: as one entry of the commit log, which waits for the disk once.
const ROWS_MAX: usize = 256;
/// The values of `range_type` in `system.table_estimates`.
const RANGE_TYPES: [&str; 2] = ["local_primary", "primary"];

/// Keeps the tables up to date on shard 0, for as long as the node runs.
pub(crate) async fn keep(shard: Shard) {
    runtime::sleep(FIRST_WAIT).await;
    loop {
        match shard.refresh_size_estimates().await {
            Ok(()) => {}
            Err(_) if shard.enter().is_err() => return,
            Err(failure) => tracing::warn!(%failure, "the size estimates of tables are old"),
        }
        runtime::sleep(PERIOD).await;
    }
}

impl Shard {
    /// Estimates all replicated tables anew. To be called on shard 0.
    pub async fn refresh_size_estimates(&self) -> Result<(), Failure> {
        let _pass = self.enter()?;
        let schema = self.schema();
        let ends = primary_ranges(&self.tokens(), &self.partitioner().minimum());
        let ranges: Arc<[TokenRange]> =
            ends.iter().map(|(after, until)| TokenRange::between(after.clone(), until.clone())).collect();
        let (mut by_size, mut by_table) = (Estimates::new(), Estimates::new());
        let is_replicated = |keyspace: &&Arc<Keyspace>| !keyspace.is_local() && !keyspace.is_virtual();
        let replicated = schema.keyspaces.values().filter(is_replicated);
        for table in replicated.flat_map(|keyspace| keyspace.tables.values()) {
            let mut sums = vec![SizeEstimate::default(); ranges.len()];
            for answer in
                self.on_every_shard(TableVerb::SizeEstimates { table: table.id, ranges: ranges.clone() }).await?
            {
                let TableAnswer::SizeEstimates(estimates) = answer else { continue };
                sums.iter_mut().zip(&estimates).for_each(|(sum, estimate)| sum.add(estimate));
            }
            runtime::yield_if_needed().await;
            let (keyspace, name) = (table.keyspace.clone(), table.name.clone());
            for ((after, until), sum) in ends.iter().zip(&sums) {
                let (start, end) = (after.to_string(), until.to_string());
                let estimate = (sum.mean_partition_bytes(), sum.partitions());
                by_size.insert((keyspace.clone(), vec![name.clone(), start.clone(), end.clone()]), estimate);
                for range_type in RANGE_TYPES {
                    let clustering = vec![name.clone(), range_type.to_owned(), start.clone(), end.clone()];
                    by_table.insert((keyspace.clone(), clustering), estimate);
                }
            }
        }
        for (table, estimates) in [("size_estimates", by_size), ("table_estimates", by_table)] {
            self.replace_estimates(system_table(&schema, "system", table), estimates).await?;
        }
        Ok(())
    }

    /// Makes `estimates` the contents of a table; writes only what differs.
    async fn replace_estimates(&self, table: &Table, mut estimates: Estimates) -> Result<(), Failure> {
        let malformed = |error: crate::schema::Error| Failure::server(error.to_string());
        let mut gone = Vec::new();
        for row in cells::read_all(self.store(), table).await.map_err(malformed)? {
            let (place, estimate) = stored(table, &row).map_err(malformed)?;
            match estimates.get(&place) {
                Some(new) if *new == estimate => drop(estimates.remove(&place)),
                Some(_) => {}
                None => gone.push(place),
            }
        }
        let timestamp = runtime::wall_micros();
        let estimates: Vec<(Place, Estimate)> = estimates.into_iter().collect();
        for rows in in_parts(&estimates, |((keyspace, _), _)| keyspace) {
            let mut mutation = MutationBuilder::new(self.partitioner(), rows[0].0.0.as_bytes());
            for ((_, clustering), (mean_bytes, partitions)) in rows {
                let components: Vec<&[u8]> = clustering.iter().map(String::as_bytes).collect();
                RowWriter::new(table, &components, timestamp)
                    .set("mean_partition_size", mean_bytes.to_be_bytes())
                    .set("partitions_count", partitions.to_be_bytes())
                    .finish(mutation.table(table.id));
            }
            self.apply_estimates(mutation).await?;
        }
        let deletion = Deletion { timestamp, local_deletion_time: timestamp.div_euclid(1_000_000) };
        for rows in in_parts(&gone, |(keyspace, _)| keyspace) {
            let mut mutation = MutationBuilder::new(self.partitioner(), rows[0].0.as_bytes());
            for (_, clustering) in rows {
                let mut components = Vec::new();
                clustering.iter().for_each(|component| push_clustering(&mut components, component.as_bytes()));
                mutation.table(table.id).row(Clustering(&components), |out| {
                    RowBuilder::new(out, None, deletion);
                });
            }
            self.apply_estimates(mutation).await?;
        }
        Ok(())
    }

    async fn apply_estimates(&self, mutation: MutationBuilder) -> Result<(), Failure> {
        let applied = self.store().apply(mutation.finish(), true).await;
        applied.map_err(|error| Failure::server(error.to_string()))
    }
}

/// Rows in their order, in parts of at most [`ROWS_MAX`] of one keyspace.
fn in_parts<'r, T>(rows: &'r [T], keyspace: impl Fn(&T) -> &String + 'r) -> impl Iterator<Item = &'r [T]> {
    let of_one = rows.chunk_by(move |a, b| keyspace(a) == keyspace(b));
    of_one.flat_map(|rows| rows.chunks(ROWS_MAX))
}

/// A row's place: its keyspace and clustering.
type Place = (String, Vec<String>);
/// Mean size of a partition in bytes, and number of partitions.
type Estimate = (i64, i64);
type Estimates = BTreeMap<Place, Estimate>;

fn stored(table: &Table, row: &StoredRow) -> Result<(Place, Estimate), crate::schema::Error> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let place = (text(&row.key), row.clustering.iter().map(|component| text(component)).collect());
    let row = RowReader::new(table, row);
    Ok((place, (row.bigint("mean_partition_size")?, row.bigint("partitions_count")?)))
}

/// The exclusive start and the inclusive end of each range that ends at a token of the only node of a ring, sorted; the
/// range that wraps around is divided at `minimum`, the smallest token.
fn primary_ranges(tokens: &[RingToken], minimum: &RingToken) -> Vec<(RingToken, RingToken)> {
    let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else { return Vec::new() };
    let mut ranges = vec![(minimum.clone(), first.clone())];
    ranges.extend(tokens.windows(2).map(|pair| (pair[0].clone(), pair[1].clone())));
    ranges.push((last.clone(), minimum.clone()));
    ranges.dedup();
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_rows_of_one_keyspace_are_written_at_once() {
        let rows = |keyspace: &str, count: usize| vec![(keyspace.to_owned(), Vec::<String>::new()); count];
        let parts = |rows: &[Place]| -> Vec<(String, usize)> {
            in_parts(rows, |(keyspace, _)| keyspace).map(|part| (part[0].0.clone(), part.len())).collect()
        };
        assert_eq!(parts(&[]), []);
        assert_eq!(parts(&rows("a", ROWS_MAX)), [("a".to_owned(), ROWS_MAX)]);
        let all = [rows("a", ROWS_MAX + 1), rows("b", 2)].concat();
        assert_eq!(parts(&all), [("a".to_owned(), ROWS_MAX), ("a".to_owned(), 1), ("b".to_owned(), 2)]);
    }

    #[test]
    fn the_range_that_wraps_around_is_divided() {
        let of = |tokens: &[i64]| {
            let tokens: Vec<RingToken> = tokens.iter().copied().map(RingToken::Murmur3).collect();
            primary_ranges(&tokens, &RingToken::Murmur3(i64::MIN))
        };
        let range = |after, until| (RingToken::Murmur3(after), RingToken::Murmur3(until));
        assert_eq!(of(&[-5, 10]), [range(i64::MIN, -5), range(-5, 10), range(10, i64::MIN)]);
        assert_eq!(of(&[7]), [range(i64::MIN, 7), range(7, i64::MIN)]);
        assert_eq!(of(&[i64::MIN]), [range(i64::MIN, i64::MIN)]);
    }
}
