//! `sstablemetadata -s`: statistics that need a scan of Data.db.
//!
//! Among partitions with equal figures the first ones are listed, in their order. Cassandra's order depends on the
//! internals of its heap.

use super::{Show, byte_count};
use crate::tools::Failure;
use crate::tools::files::Location;
use crate::tools::values::KeyTypes;
use sstable::walker::{FileItem, FileRow};

/// How many partitions a list has.
const LEADERS: usize = 5;
/// The size of a deletion in memory by Cassandra's count, in bytes.
const DELETION_BYTES: u64 = 12;
/// The size of a row without its cells, in bytes.
const ROW_BYTES: u64 = 1;
/// The shortest list of partitions with the most tombstones that is printed, in characters.
const TOMBSTONES_TEXT_MIN: usize = 11;
/// The length of the progress bar, in characters.
const BAR: usize = 30;
/// The size of a cell without path and value, in bytes.
const CELL_BYTES: u64 = 8 + 4 + 8;
const LIVENESS_BYTES: u64 = 8;
const EXPIRY_BYTES: u64 = 4 + 8;

#[derive(Default)]
struct Leaders(Vec<(u64, Vec<u8>)>);

impl Leaders {
    fn add(&mut self, value: u64, key: &[u8]) {
        let place = self.0.partition_point(|(other, _)| *other >= value);
        self.0.insert(place, (value, key.to_vec()));
        self.0.truncate(LEADERS);
    }
}

fn row_bytes(row: &FileRow) -> u64 {
    let mut bytes = row.clustering.iter().flatten().map(|value| value.len() as u64).sum::<u64>();
    bytes += LIVENESS_BYTES + row.liveness.and_then(|liveness| liveness.expiry).map_or(0, |_| EXPIRY_BYTES);
    bytes += DELETION_BYTES + ROW_BYTES;
    for column in &row.columns {
        let complex = column.cells.iter().any(|cell| cell.path.is_some()) || !column.deletion.is_live();
        bytes += if complex { DELETION_BYTES } else { 0 };
        for cell in &column.cells {
            bytes += CELL_BYTES + (cell.value.len() + cell.path.as_ref().map_or(0, Vec::len)) as u64;
        }
    }
    bytes
}

/// What is counted in a partition.
#[derive(Default)]
struct Partition {
    key: Vec<u8>,
    rows: u64,
    bytes: u64,
    tombstones: u64,
}

pub(super) fn show(location: &Location, types: &KeyTypes, show: &mut Show<'_>) -> Result<(), Failure> {
    let opened = location.open()?;
    let mut items = opened.items();
    let (mut partitions, mut rows, mut tombstones, mut cells) = (0u64, 0u64, 0u64, 0u64);
    let (mut widest, mut largest, mut dead) = (Leaders::default(), Leaders::default(), Leaders::default());
    let mut current = Partition::default();
    let total = opened.reader.metadata().statistics.cells;
    let mut progress = false;
    while let Some(item) = items.next()? {
        match item {
            FileItem::Partition { key, deletion, statics, .. } => {
                partitions += 1;
                current = Partition { key, tombstones: u64::from(!deletion.is_live()), ..Partition::default() };
                if let Some(row) = statics {
                    current.rows += 1;
                    current.bytes += row_bytes(&row);
                }
            }
            FileItem::Row(row, _) => {
                current.rows += 1;
                current.bytes += row_bytes(&row);
                for cell in row.columns.iter().flat_map(|column| &column.cells) {
                    cells += 1;
                    let percent = (cells as f64 / total as f64).min(1.0) * 100.0;
                    if !progress && percent >= 1.0 {
                        progress = true;
                        write_progress(percent as usize, show)?;
                    }
                    current.tombstones += u64::from(cell.is_tombstone());
                }
            }
            FileItem::Marker(..) => current.tombstones += 1,
            FileItem::PartitionEnd(_) => {
                rows += current.rows;
                tombstones += current.tombstones;
                widest.add(current.rows, &current.key);
                largest.add(current.bytes, &current.key);
                dead.add(current.tombstones, &current.key);
            }
        }
    }
    write!(show.out, "\r{:80}\r", "")?;
    show.field("Size", &opened.reader.data_len().to_string())?;
    show.field("Partitions", &partitions.to_string())?;
    show.field("Rows", &rows.to_string())?;
    show.field("Tombstones", &tombstones.to_string())?;
    show.field("Cells", &cells.to_string())?;
    let colours = show.look.colours;
    let line = |key: &[u8], value: u64| {
        let key = types.text(key);
        format!("  {}[{}{key}{}] {}{value}", colours.cyan, colours.reset, colours.cyan, colours.reset)
    };
    show.field("Widest Partitions", "")?;
    for (value, key) in &widest.0 {
        writeln!(show.out, "{}", line(key, *value))?;
    }
    show.field("Largest Partitions", "")?;
    for (value, key) in &largest.0 {
        let size = if *value == 0 { "null".into() } else { byte_count(*value as i64) };
        writeln!(show.out, "{}{} ({size}){}", line(key, *value), colours.white, colours.reset)?;
    }
    dead.0.retain(|(value, _)| *value > 0);
    let leaders: String = dead.0.iter().map(|(value, key)| format!("{}\n", line(key, *value))).collect();
    if leaders.chars().count() >= TOMBSTONES_TEXT_MIN {
        show.field("Tombstone Leaders", "")?;
        write!(show.out, "{leaders}")?;
    }
    Ok(())
}

/// The progress bar, shown when a hundredth of the cells has been read. Cassandra shows it again every second.
fn write_progress(percent: usize, show: &mut Show<'_>) -> std::io::Result<()> {
    let columns = percent * BAR / 100;
    let (full, empty) = if show.look.unicode { ("\u{2593}", "\u{2591}") } else { ("#", "-") };
    let bar = format!("{}{}", full.repeat(columns), empty.repeat(BAR - columns));
    let (blue, cyan, reset) = (show.look.colours.blue, show.look.colours.cyan, show.look.colours.reset);
    write!(show.out, "\r{blue}Analyzing SSTable...  {cyan}{bar} {reset}(%{percent})")
}
