//! How a node writes SSTables, beside what each table's options say.

use crate::Error;
use crate::guards::logged_thresholds::LoggedThresholds;
use crate::store::Inner;
use model::Table;
use sstable::Version;
use sstable::compression::{CompressionParams, Compressor};
use sstable::statistics::EncodingStats;
use sstable::writer;

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
}

impl Default for SstableOptions {
    fn default() -> SstableOptions {
        SstableOptions {
            version: Version::Da,
            flush_compression: FlushCompression::Fast,
            row_index_bytes: None,
            logged: LoggedThresholds::default(),
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
    fn apply(self, table: CompressionParams) -> CompressionParams {
        match self {
            FlushCompression::None => CompressionParams { compressor: Compressor::Noop, ..CompressionParams::fast() },
            FlushCompression::Fast => table.for_flush(),
            FlushCompression::Table => table,
        }
    }
}

/// How an SSTable of a table is written by this shard, of rows of these figures.
pub(crate) fn of(inner: &Inner, table: &Table, stats: EncodingStats, is_flush: bool) -> Result<writer::Options, Error> {
    let unwritable = |problem: sstable::Problem| Error::Unwritable { what: problem.to_string() };
    let mut options = writer::Options::of(table, stats).map_err(unwritable)?;
    let how = &inner.options.sstables;
    if is_flush {
        options.compression = options.compression.map(|compression| how.flush_compression.apply(compression));
    }
    options.row_index_bytes = how.row_index_bytes;
    options.owner = Some((inner.shard, inner.options.shard_map));
    options.host_id = inner.host_id.get();
    Ok(options)
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
