//! Names and opens the SSTables of this shard, and gives the options to write them with.

use super::block_cache::BlockCache;
use super::directory::{directories_of, directory_of};
use super::open_sstable::OpenSstable;
use super::sstable_id;
use crate::data_directories::DataDirectories;
use crate::error::Error;
use crate::guards::logged_thresholds::LoggedThresholds;
use crate::guards::partition_guard::{LargePartitions, large_from};
use crate::options::{Options, SstableOptions};
use model::{Partitioner, ShardMap, Table};
use runtime::HashSet;
use runtime::file::create_dir_all;
use sstable::statistics::EncodingStats;
use sstable::{Component, Descriptor, Version, writer};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// What all SSTables of a shard have in common: their directories, their writer, the options, and the cache of their
/// blocks.
pub(crate) struct SstableFiles {
    /// The node's data directories.
    pub(crate) data: DataDirectories,
    pub(crate) shard: u16,
    pub(crate) shard_map: ShardMap,
    pub(crate) cache: Rc<BlockCache>,
    options: SstableOptions,
    /// The node's id once it is known; SSTables record which node wrote them.
    host_id: Cell<Option<[u8; 16]>>,
    /// Told of large partitions.
    large_partitions: RefCell<Option<LargePartitions>>,
    /// The number of the SSTable that was opened last.
    numbers: Cell<u64>,
}

impl SstableFiles {
    pub(crate) fn new(options: &Options, shard: u16, cache: Rc<BlockCache>) -> SstableFiles {
        SstableFiles {
            data: options.directories.clone(),
            shard,
            shard_map: options.shard_map,
            cache,
            options: options.sstables,
            host_id: Cell::new(None),
            large_partitions: RefCell::new(None),
            numbers: Cell::new(0),
        }
    }

    /// Sets the node's id, which SSTables written from now on record.
    pub(crate) fn set_host_id(&self, host_id: [u8; 16]) {
        self.host_id.set(Some(host_id));
    }

    /// Sets who is told of large partitions.
    pub(crate) fn on_large_partition(&self, told: LargePartitions) {
        self.large_partitions.replace(Some(told));
    }

    /// Who is told of large partitions of a table, and from how many bytes on they are large: of one whose throughput
    /// is limited, or whose keys grow by themselves.
    pub(crate) fn large_partitions_of(&self, table: &Table) -> Option<(u64, LargePartitions)> {
        large_from(table).zip(self.large_partitions.borrow().clone())
    }

    /// The directory to which this shard writes a table's SSTables.
    pub(crate) fn directory_of(&self, table: &Table) -> PathBuf {
        directory_of(self.data.of_shard(self.shard), table)
    }

    /// The directory to which a shard writes a table's SSTables, made if it is missing.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) async fn make_directory(&self, table: &Table, shard: u16) -> Result<PathBuf, Error> {
        let directory = directory_of(self.data.of_shard(shard), table);
        create_dir_all(&directory).await.map_err(Error::Io)?;
        Ok(directory)
    }

    /// All directories in which SSTables of a table may lie.
    pub(crate) fn directories_of(&self, table: &Table) -> Vec<PathBuf> {
        directories_of(&self.data, table)
    }

    /// The version of the SSTables that are written.
    pub(crate) fn version(&self) -> Version {
        self.options.version
    }

    /// A name for a new SSTable, which no other SSTable has.
    pub(crate) fn new_descriptor(&self) -> Descriptor {
        Descriptor { version: self.options.version, id: sstable_id::sstable_id() }
    }

    /// Opens an SSTable and attaches it to the shard's block cache.
    pub(crate) async fn open(
        &self,
        directory: &Path,
        descriptor: &Descriptor,
        components: &HashSet<Component>,
        table: &Arc<Table>,
    ) -> Result<OpenSstable, Error> {
        let number = self.numbers.get() + 1;
        self.numbers.set(number);
        let refuses = self.options.refuses_negative_times;
        let opened = OpenSstable::open(directory, descriptor, components, table.clone(), number, refuses).await?;
        let own = self.shard_map.partitioner;
        let named = Partitioner::named(&opened.reader.metadata().partitioner);
        if let Some(partitioner) = named.filter(|partitioner| *partitioner != own) {
            let path = directory.join(descriptor.to_string());
            return Err(Error::OtherPartitioner { path, partitioner, own });
        }
        opened.cached_in(&self.cache);
        Ok(opened)
    }

    /// The options with which a flush writes an SSTable of rows that have these statistics.
    pub(crate) fn flush_options(&self, table: &Table, stats: EncodingStats) -> Result<writer::Options, Error> {
        let mut options = self.compaction_options(table, stats)?;
        let flushed = options.compression.map(|compression| self.options.flush_compression.apply(compression));
        options.compression = flushed;
        Ok(options)
    }

    /// The options with which a compaction or a split writes an SSTable of rows that have these statistics.
    pub(crate) fn compaction_options(&self, table: &Table, stats: EncodingStats) -> Result<writer::Options, Error> {
        let unwritable = |problem: sstable::Problem| Error::Unwritable { what: problem.to_string() };
        let mut options = writer::Options::of(table, stats).map_err(unwritable)?;
        options.partitioner = self.shard_map.partitioner;
        options.row_index_bytes = self.options.row_index_bytes;
        options.owner = Some((self.shard, self.shard_map));
        options.host_id = self.host_id.get();
        Ok(options)
    }

    /// Whether a start goes on without SSTables that cannot be opened, if other nodes have their rows.
    pub(crate) fn opens_without_damaged(&self) -> bool {
        self.options.opens_without_damaged
    }

    /// The thresholds beyond which partitions and collections are logged when they are written.
    pub(crate) fn logged_thresholds(&self) -> LoggedThresholds {
        self.options.logged
    }
}
