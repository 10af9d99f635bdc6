//! How a shard stores: the settings that [`crate::Store::open`] takes.

use crate::data_directories::DataDirectories;
use crate::guards::logged_thresholds::LoggedThresholds;
use model::MemtableConfigurations;
use model::key::ShardMap;
use sstable::Version;
use sstable::compression::{CompressionParams, Compressor};
use std::sync::Arc;
use std::time::Duration;

/// When a write is acknowledged against when it is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncMode {
    /// Acknowledge after the durable write of the group; the next group starts when the one before completes, or after
    /// `window` if that is longer.
    Group {
        /// `commitlog_sync_group_window`; zero: none.
        window: Duration,
    },
    /// As group, with one write per turn of the loop and no window.
    Batch,
    /// Acknowledge at once; durable within `period`.
    Periodic {
        /// `commitlog_sync_period`.
        period: Duration,
    },
}

/// How a shard stores.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's data directories; the log is in `commitlog/` under the first.
    pub directories: DataDirectories,
    /// Which tokens are this shard's: replay takes only those (tables that live on shard 0 go there whole).
    pub shard_map: ShardMap,
    /// Commit log mode.
    pub sync: SyncMode,
    /// `commitlog_segment_size`, bytes; a power of two multiple of 4 KiB.
    pub segment_bytes: u32,
    /// Memtables of user tables may hold this many bytes before writes wait; they are flushed from half of it on.
    pub memtable_bytes_max: usize,
    /// Blocks of SSTables may take this many bytes of memory.
    pub cache_bytes_max: usize,
    /// Full segments of the log may hold this many bytes before what the oldest one needs is flushed.
    pub log_bytes_max: u64,
    /// Whether SSTables of flushes are linked into the `backups` directory of their table, unless the table says no.
    pub incremental_backups: bool,
    /// How SSTables are written.
    pub sstables: SstableOptions,
    /// Which memtables tables have.
    pub memtables: Arc<MemtableConfigurations>,
}

/// `sstable.selected_format`, `storage_compatibility_mode`, `flush_compression` and `column_index_size`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SstableOptions {
    /// The version that flushes and compactions write.
    pub version: Version,
    /// How flushes compress tables that are compressed.
    pub flush_compression: FlushCompression,
    /// Bytes of a block of the row index; `None` for the format's own.
    pub row_index_bytes: Option<usize>,
    /// What is told to the log of that which is written.
    pub logged: LoggedThresholds,
    /// Whether negative local deletion times are damage: [`sstable::reader::Reader::refusing_negative_times`].
    pub refuses_negative_times: bool,
    /// Whether a start goes on without SSTables that cannot be opened, if other nodes have their rows.
    pub opens_without_damaged: bool,
}

impl Default for SstableOptions {
    fn default() -> SstableOptions {
        SstableOptions {
            version: Version::Da,
            flush_compression: FlushCompression::Fast,
            row_index_bytes: None,
            logged: LoggedThresholds::default(),
            refuses_negative_times: false,
            opens_without_damaged: true,
        }
    }
}

impl SstableOptions {
    /// The last second, since 1970, at which something may expire.
    pub fn expiration_max(&self) -> i64 {
        self.version.deletion_time_max()
    }
}

/// How flushes compress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushCompression {
    /// Not at all, but in chunks with checksums.
    None,
    /// With the table's compressor unless that is a slow one.
    Fast,
    /// With the table's compressor.
    Table,
}

impl FlushCompression {
    pub(crate) fn apply(self, table: CompressionParams) -> CompressionParams {
        match self {
            FlushCompression::None => CompressionParams { compressor: Compressor::Noop, ..CompressionParams::fast() },
            FlushCompression::Fast => table.for_flush(),
            FlushCompression::Table => table,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_compress_as_they_are_told() {
        let zstd = CompressionParams { compressor: Compressor::Zstd, chunk_len: 4096, ..CompressionParams::fast() };
        let flushed = |how: FlushCompression| {
            let params = how.apply(zstd.clone());
            (params.compressor, params.chunk_len)
        };
        assert_eq!(flushed(FlushCompression::None), (Compressor::Noop, 16 << 10));
        assert_eq!(flushed(FlushCompression::Fast), (Compressor::Lz4, 16 << 10));
        assert_eq!(flushed(FlushCompression::Table), (Compressor::Zstd, 4096));
        assert_eq!(SstableOptions::default().expiration_max(), 0xffff_fffe);
    }
}
