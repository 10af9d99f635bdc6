//! How an SSTable is written.

use crate::compression::CompressionParams;
use crate::input::Problem;
use crate::statistics::{EncodingStats, Header, LogPosition};
use model::ShardMap;
use model::schema::Table;

/// Bytes of a block of the row index of bti, unless `column_index_size` says otherwise.
pub const ROW_INDEX_GRANULARITY: usize = 16 << 10;
/// The same of big.
pub const COLUMN_INDEX_BYTES: usize = 64 << 10;

/// See the module.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// How rows are encoded. Columns that it does not have are left out.
    pub header: Header,
    /// `None`: not compressed.
    pub compression: Option<CompressionParams>,
    /// The chance of false positives of the filter; 1 for no filter.
    pub filter_chance: f64,
    /// How many partitions the filter is for.
    pub expected_partitions: u64,
    /// Bytes of a block of the row index; `None` for the format's own.
    pub row_index_bytes: Option<usize>,
    /// Entries of Index.db between two of Summary.db.
    pub min_index_interval: u32,
    /// The owner's shard, by a map; `None` for an SSTable without Helenus.db.
    pub owner: Option<(u16, ShardMap)>,
    /// The parts of the commit log that it stands for, ascending.
    pub log_intervals: Vec<(LogPosition, LogPosition)>,
    /// The level of leveled compaction.
    pub level: u32,
    /// Milliseconds, or 0.
    pub repaired_at: i64,
    /// The repair session that owns it.
    pub pending_repair: Option<[u8; 16]>,
    /// Whether it is of transient replicas.
    pub transient: bool,
    /// The node that writes it.
    pub host_id: Option<[u8; 16]>,
    /// The part of the ring that it covers, or NaN.
    pub token_space_coverage: f64,
}

impl Options {
    /// As the table's options say, of rows of these figures.
    ///
    /// # Errors
    /// A compressor that is not known.
    pub fn of(table: &Table, stats: EncodingStats) -> Result<Options, Problem> {
        Ok(Options {
            header: Header::of(table, stats),
            compression: CompressionParams::of(&table.options.compression)?,
            filter_chance: table.options.bloom_filter_fp_chance,
            expected_partitions: 0,
            row_index_bytes: None,
            min_index_interval: u32::try_from(table.options.min_index_interval).unwrap_or(1).max(1),
            owner: None,
            log_intervals: Vec::new(),
            level: 0,
            repaired_at: 0,
            pending_repair: None,
            transient: false,
            host_id: None,
            token_space_coverage: f64::NAN,
        })
    }
}
