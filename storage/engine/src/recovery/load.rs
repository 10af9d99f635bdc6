//! The SSTables that a start finds, and what of the log they make needless.
//!
//! 1. Shard 0 finishes or takes back what transactions left ([`Store::clean`]), before any shard looks.
//! 2. Each shard opens those whose `Helenus.db` names it, and every *foreign* one: of another program or another map of
//!    tokens to cores. A foreign one is served by all shards, each of which sees its own tokens, until it is split
//!    ([`crate::operations::split`]).
//! 3. Replay leaves out the records that an SSTable stands for.
//!
//! Invariants: nothing is removed but what a transaction or a truncation gave up ([`crate::sstables::truncation_lists`] says how that is
//! known of foreign ones).

use crate::Error;
use crate::commitlog::position::{LogPosition, Truncation};
use crate::commitlog::segment::shard_of;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::transaction::entries;
use crate::sstables::view;
use crate::store::{Inner, Store};
use model::{ShardMap, Table, TableId, Token};
use runtime::HashSet;
use runtime::file::read_small;
use sstable::sidecar::Sidecar;
use sstable::{Component, Descriptor};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Longest `Helenus.db`, in bytes: that of an SSTable of several TiB.
const SIDECAR_BYTES_MAX: usize = 1 << 30;

/// Where a table's SSTables are, under the node's data directory: as Cassandra lays them out.
pub fn directory_of(data: &Path, table: &Table) -> PathBuf {
    if let Some(directory) = crate::index::directory_of(data, table) {
        return directory;
    }
    data.join("data").join(&table.keyspace).join(format!("{}-{}", table.name, table.id.uuid().simple()))
}

/// The records of the log that an SSTable stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Flushed {
    pub(crate) shard: u16,
    pub(crate) map: ShardMap,
    pub(crate) intervals: Vec<(LogPosition, LogPosition)>,
}

impl Flushed {
    /// Of an SSTable; `None` if another program wrote it.
    fn of(sstable: &OpenSstable) -> Option<Flushed> {
        let sidecar = sstable.sidecar()?;
        let intervals = &sstable.reader.metadata().statistics.log_intervals;
        let intervals = intervals.iter().map(|(lower, upper)| (LogPosition::from(*lower), LogPosition::from(*upper)));
        Some(Flushed { shard: sidecar.shard, map: sidecar.map, intervals: intervals.collect() })
    }

    /// Whether the SSTable holds what a record at `position` wrote under a token; `local`: of a table of shard 0.
    pub(crate) fn covers(&self, position: LogPosition, token: Token, local: bool) -> bool {
        (local || self.map.owner(token) == self.shard)
            && self.intervals.iter().any(|(lower, upper)| {
                shard_of(lower.segment) == shard_of(position.segment) && *lower <= position && position < *upper
            })
    }

    /// Whether all that it holds was truncated.
    fn is_truncated(&self, truncation: &Truncation) -> bool {
        let last = |upper: &LogPosition| LogPosition { segment: upper.segment, offset: upper.offset.saturating_sub(1) };
        !self.intervals.is_empty() && self.intervals.iter().all(|(_, upper)| truncation.covers(last(upper)))
    }
}

impl Store {
    /// On shard 0, before any shard loads: finishes or takes back what transactions left in the directories of all tables,
    /// dropped ones among them.
    pub async fn clean(&self) -> Result<(), Error> {
        for keyspace in entries(&self.inner().options.directory.join("data")).await? {
            for table in entries(&keyspace).await? {
                crate::sstables::transaction::clean(&table).await?;
                for index in entries(&table).await? {
                    if index.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with('.')) {
                        crate::sstables::transaction::clean(&index).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Opens the SSTables of the tables that became known since the call before, less what `truncations` cover, which
    /// [`Store::start`] removes. Comes before the [`Store::replay`] of those tables.
    pub async fn load(&self, truncations: &[(TableId, Truncation)]) -> Result<(), Error> {
        let inner = self.inner();
        let fresh: Vec<(Arc<Table>, bool, Option<TableId>)> = {
            let tables = inner.tables.borrow();
            let fresh = tables.values().filter(|state| !state.loaded);
            fresh.map(|state| (state.table.clone(), state.local, state.index_of)).collect()
        };
        for (table, local, index_of) in &fresh {
            // An index is truncated with its base.
            let truncated = index_of.unwrap_or(table.id);
            let truncation = truncations.iter().find(|(id, _)| *id == truncated).map(|(_, truncation)| truncation);
            let (opened, flushed) = inner.load(table, *local, index_of.is_some(), truncation).await?;
            if let Some(state) = inner.tables.borrow_mut().get_mut(&table.id) {
                state.loaded = true;
                state.view = Rc::new(state.view.replaced(&[], &opened));
                state.covered = flushed;
            }
        }
        for (table, ..) in fresh.iter().filter(|(_, _, index_of)| index_of.is_none()) {
            inner.load_built(table.id).await?;
        }
        Ok(())
    }
}

impl Inner {
    /// Opens an SSTable, its blocks to be kept in the shard's cache.
    pub(crate) async fn open_sstable(
        &self,
        directory: &Path,
        descriptor: &Descriptor,
        components: &HashSet<Component>,
        table: &Arc<Table>,
    ) -> Result<OpenSstable, Error> {
        let opened = OpenSstable::open(directory, descriptor, components, table.clone(), self.next_number()).await?;
        opened.cached_in(&self.cache);
        Ok(opened)
    }

    /// The name of an SSTable that is to be written.
    pub(crate) fn new_descriptor(&self) -> Descriptor {
        Descriptor { version: self.options.sstables.version, id: crate::sstables::sstable_id::sstable_id() }
    }

    pub(crate) fn directory_of(&self, table: &Table) -> PathBuf {
        directory_of(&self.options.directory, table)
    }

    async fn load(
        &self,
        table: &Arc<Table>,
        local: bool,
        is_index: bool,
        truncation: Option<&Truncation>,
    ) -> Result<(Vec<Rc<OpenSstable>>, Vec<Flushed>), Error> {
        let (mut opened, mut covered) = (Vec::new(), Vec::new());
        let directory = self.directory_of(table);
        let map = self.options.shard_map;
        let needed = |(_, upper): &(LogPosition, LogPosition)| self.old.borrow().is_anything_before(*upper);
        covered.extend(crate::sstables::purged_intervals::load(&directory, self.shard == 0, needed).await?);
        let taken = crate::sstables::truncation_lists::load(&directory, truncation, self.shard == 0).await?;
        for (descriptor, components) in view::list(&directory).await? {
            let sidecar = match components.contains(&Component::Helenus) {
                true => Some(read_sidecar(&directory, &descriptor).await?),
                false => None,
            };
            let owner = sidecar.filter(|sidecar| sidecar.map == map).map(|sidecar| sidecar.shard);
            let owner = if local { Some(0) } else { owner };
            if owner.is_some_and(|owner| owner != self.shard) {
                continue;
            }
            if is_index && owner.is_none() {
                // Of other cores, or another program: the index is built anew.
                self.unusable.borrow_mut().push((directory.clone(), descriptor));
                continue;
            }
            let mut sstable = self.open_sstable(&directory, &descriptor, &components, table).await?;
            sstable.foreign = owner.is_none();
            let flushed = Flushed::of(&sstable);
            let truncated = flushed.as_ref().zip(truncation).is_some_and(|(flushed, cut)| flushed.is_truncated(cut));
            if truncated || (sstable.foreign && taken.contains(&descriptor)) {
                // Not yet: other shards are still looking at what lies there.
                self.given_up.borrow_mut().entry(table.id).or_default().push(Rc::new(sstable));
                continue;
            }
            covered.extend(flushed);
            opened.push(Rc::new(sstable));
        }
        Ok((opened, covered))
    }
}

pub(crate) async fn read_sidecar(directory: &Path, descriptor: &Descriptor) -> Result<Sidecar, Error> {
    let path = directory.join(descriptor.file_name(Component::Helenus));
    let bytes = read_small(&path, SIDECAR_BYTES_MAX).await.map_err(Error::Io)?;
    Sidecar::open(descriptor, &bytes).map_err(|error| Error::BadSstable { directory: directory.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commitlog::segment::id_of;

    fn at(counter: u64, shard: u16, offset: u32) -> LogPosition {
        LogPosition { segment: id_of(counter, shard), offset }
    }

    #[test]
    fn s4_an_sstable_stands_for_its_own_shards_records_of_its_own_tokens() {
        let map = ShardMap::new(2);
        let own = (0..).map(|key: u32| Token::of(&key.to_be_bytes())).find(|token| map.owner(*token) == 1).unwrap();
        let other = (0..).map(|key: u32| Token::of(&key.to_be_bytes())).find(|token| map.owner(*token) == 0).unwrap();
        let flushed = Flushed { shard: 1, map, intervals: vec![(at(5, 1, 100), at(9, 1, 50))] };
        assert!(flushed.covers(at(5, 1, 100), own, false) && flushed.covers(at(9, 1, 49), own, false));
        assert!(flushed.covers(at(6, 1, 0), own, false));
        for kept in [at(5, 1, 99), at(9, 1, 50), at(6, 0, 0)] {
            assert!(!flushed.covers(kept, own, false), "{kept:?}");
        }
        assert!(!flushed.covers(at(6, 1, 0), other, false) && flushed.covers(at(6, 1, 0), other, true));
    }

    #[test]
    fn s4_a_truncation_takes_what_was_flushed_before_it() {
        let truncation = Truncation { counter_floor: 5, positions: vec![at(6, 1, 8192)], at_millis: 1 };
        let flushed = |upper| Flushed { shard: 1, map: ShardMap::new(2), intervals: vec![(at(4, 1, 0), upper)] };
        assert!(flushed(at(6, 1, 8192)).is_truncated(&truncation));
        assert!(!flushed(at(6, 1, 8193)).is_truncated(&truncation));
        assert!(!Flushed { shard: 1, map: ShardMap::new(2), intervals: Vec::new() }.is_truncated(&truncation));
    }
}
