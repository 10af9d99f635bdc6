//! How an SSTable is written.

use crate::compression::CompressionParams;
use crate::error::Problem;
use crate::statistics::{EncodingStats, Header, LogPosition};
use model::schema::Table;
use model::{Partitioner, ShardMap};

/// The default length of a block of the row index of `bti`, in bytes. `column_index_size` sets another one.
pub const ROW_INDEX_GRANULARITY: usize = 16 << 10;
/// The default length of a block of the row index of `big`, in bytes. `column_index_size` sets another one.
pub const COLUMN_INDEX_BYTES: usize = 64 << 10;

/// How one SSTable is written, and where its rows come from.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The partitioner in whose order the partitions come.
    pub partitioner: Partitioner,
    /// How rows are encoded. Cells of columns that the header does not have are left out.
    pub header: Header,
    /// How Data.db is compressed; `None` if it is not.
    pub compression: Option<CompressionParams>,
    /// The bloom filter's chance of false positives; 1 for no filter.
    pub filter_chance: f64,
    /// How many partitions the bloom filter is made for.
    pub expected_partitions: u64,
    /// Length of a block of the row index, in bytes; `None` for the format's default.
    pub row_index_bytes: Option<usize>,
    /// How many entries of Index.db lie from one entry of Summary.db to the next.
    pub min_index_interval: u32,
    /// The shard that owns the SSTable, by a map from tokens to shards; `None` for an SSTable without Helenus.db.
    pub owner: Option<(u16, ShardMap)>,
    /// The intervals of the commit log whose data is in the SSTable, ascending.
    pub log_intervals: Vec<(LogPosition, LogPosition)>,
    /// The level in leveled compaction.
    pub level: u32,
    /// When the data was repaired, in milliseconds; 0 if it was not.
    pub repaired_at: i64,
    /// The repair session that the SSTable is part of.
    pub pending_repair: Option<[u8; 16]>,
    /// Whether the SSTable belongs to a transient replica.
    pub transient: bool,
    /// The id of the node that writes the SSTable.
    pub host_id: Option<[u8; 16]>,
    /// The part of the token space that the SSTable covers, 0 to 1, or NaN.
    pub token_space_coverage: f64,
}

impl Options {
    /// Returns the options that a table asks for, under Murmur3. `stats` are the smallest times of the rows to be
    /// written.
    ///
    /// # Errors
    /// The table's compressor is unknown.
    pub fn of(table: &Table, stats: EncodingStats) -> Result<Options, Problem> {
        Ok(Options {
            partitioner: Partitioner::default(),
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
