//! `sstabledump`: prints what Data.db holds, as JSON or as one line per row.
//!
//! Everything in the file is shown, under the schema that the file itself describes: deleted and expired data, and
//! columns that have been dropped.

mod debug;

use super::dates::{Unit, instant};
use super::files::{Location, Opened};
use super::json::{JsonWriter, Layout};
use super::options::{Known, Style, flag, parse};
use super::values::KeyTypes;
use super::{Failure, Output};
use model::comparable::BoundSide;
use model::row::{Deletion, Liveness};
use model::text::to_plain;
use model::{CqlType, RingToken, identifier, json as json_text};
use sstable::statistics::{Header, HeaderColumn};
use sstable::walker::{FileCell, FileColumn, FileItem, FileMarker, FileRow};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// Most keys of one `-k` or `-x`.
const KEYS_MAX: usize = 500;
const OPTIONS: &[Known] = &[
    Known { short: "k", long: "", values_max: KEYS_MAX },
    Known { short: "x", long: "", values_max: KEYS_MAX },
    flag("e", ""),
    flag("d", ""),
    flag("t", ""),
    flag("l", ""),
];
const USAGE: &str = "\
usage: sstabledump <sstable file path> <options>
Dump contents of given SSTable to standard output in JSON format.
 -d         CQL row per line internal representation
 -e         enumerate partition keys only
 -k <arg>   List of included partition keys
 -l         Output json lines, by partition
 -t         Print raw timestamps instead of iso8601 date strings
 -x <arg>   List of excluded partition keys
";

/// Runs the tool and returns its exit code.
pub(crate) fn run(arguments: &[String], now: i64, output: &mut Output<'_>) -> Result<u8, Failure> {
    let given = match parse(OPTIONS, Style::Posix, arguments) {
        Ok(given) if given.rest.len() == 1 => given,
        Ok(_) => return usage("You must supply exactly one sstable", output),
        Err(text) => return usage(&text, output),
    };
    let name = given.rest.first().map(String::as_str).unwrap_or_default();
    let file = Path::new(name);
    if !runtime::blocking::exists(file) {
        return Err(Failure(format!("Cannot find file {}", absolute(file))));
    }
    let location = Location::of(file)?;
    let opened = location.open()?;
    let header = &opened.reader.metadata().header;
    let types = KeyTypes::of(header).ok_or_else(|| Failure("a type of the partition key is not known".into()))?;
    let partitioner = opened.reader.partitioner();
    let excluded: BTreeSet<&str> = given.values("x").collect();
    let wanted = if given.has("k") {
        let keys = given.values("k").filter(|key| !excluded.contains(key));
        Some(
            keys.map(|key| types.parse(key).map(|key| partitioner.ring_token(&key)))
                .collect::<Result<_, _>>()
                .map_err(Failure)?,
        )
    } else {
        None
    };
    let dump = Dump { opened: &opened, header, types, excluded, wanted, raw_times: given.has("t"), now };
    if given.has("e") {
        dump.keys(output)?;
    } else if given.has("d") {
        dump.lines(output)?;
    } else {
        dump.json(if given.has("l") { Layout::Lines } else { Layout::Pretty }, output)?;
    }
    Ok(0)
}

fn usage(text: &str, output: &mut Output<'_>) -> Result<u8, Failure> {
    writeln!(output.err, "{text}")?;
    output.out.write_all(USAGE.as_bytes())?;
    Ok(1)
}

fn absolute(file: &Path) -> String {
    std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf()).display().to_string()
}

/// What to show, and of which SSTable.
struct Dump<'d> {
    opened: &'d Opened,
    header: &'d Header,
    types: KeyTypes,
    excluded: BTreeSet<&'d str>,
    /// The tokens of the keys to show; `None` for all keys.
    wanted: Option<BTreeSet<RingToken>>,
    raw_times: bool,
    /// The current time, in seconds since 1970.
    now: i64,
}

impl Dump<'_> {
    fn is_shown(&self, key: &[u8]) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&self.opened.reader.partitioner().ring_token(key)))
            && (self.excluded.is_empty() || !self.excluded.contains(self.types.text(key).as_str()))
    }

    /// `-e`: prints the keys alone, whatever else is asked for.
    fn keys(&self, output: &mut Output<'_>) -> Result<(), Failure> {
        let mut json = JsonWriter::new(output.out, Layout::Pretty);
        let mut items = self.opened.items();
        json.start_array()?;
        while let Some(item) = items.next()? {
            if let FileItem::Partition { key, .. } = item {
                self.key(&key, &mut json)?;
            }
        }
        Ok(json.end()?)
    }

    fn json(&self, layout: Layout, output: &mut Output<'_>) -> Result<(), Failure> {
        let mut json = JsonWriter::new(output.out, layout);
        let mut items = self.opened.items();
        if layout == Layout::Pretty {
            json.start_array()?;
        }
        let mut shown = false;
        while let Some(item) = items.next()? {
            match item {
                FileItem::Partition { key, deletion, statics, rows_at, .. } => {
                    shown = self.is_shown(&key);
                    if shown {
                        self.partition(&key, deletion, statics.as_ref(), rows_at, &mut json)?;
                    }
                }
                _ if !shown => {}
                FileItem::Row(row, at) => self.row(&row, false, at, &mut json)?,
                FileItem::Marker(marker, _) => self.marker(&marker, &mut json)?,
                FileItem::PartitionEnd(_) => {
                    json.end()?;
                    json.end()?;
                }
            }
        }
        if layout == Layout::Pretty {
            json.end()?;
        }
        Ok(())
    }

    fn key(&self, key: &[u8], json: &mut JsonWriter<'_>) -> io::Result<()> {
        json.compact_objects = true;
        json.compact_arrays = true;
        json.start_array()?;
        for text in self.types.texts(key) {
            json.string(&text)?;
        }
        json.end()?;
        json.compact_objects = false;
        json.compact_arrays = false;
        Ok(())
    }

    fn partition(
        &self,
        key: &[u8],
        deletion: Deletion,
        statics: Option<&FileRow>,
        rows_at: u64,
        json: &mut JsonWriter<'_>,
    ) -> io::Result<()> {
        json.start_object()?;
        json.name("table kind")?;
        json.string("REGULAR")?;
        json.name("partition")?;
        json.start_object()?;
        json.name("key")?;
        self.key(key, json)?;
        json.name("position")?;
        json.raw(&rows_at.to_string())?;
        if !deletion.is_live() {
            self.deletion(deletion, json)?;
        }
        json.end()?;
        json.name("rows")?;
        json.start_array()?;
        match statics {
            Some(row) => self.row(row, true, rows_at, json),
            None => Ok(()),
        }
    }

    fn row(&self, row: &FileRow, is_static: bool, at: u64, json: &mut JsonWriter<'_>) -> io::Result<()> {
        if row.is_empty() && !is_static {
            return Ok(());
        }
        json.start_object()?;
        json.name("type")?;
        json.string(if is_static { "static_block" } else { "row" })?;
        json.name("position")?;
        json.raw(&at.to_string())?;
        if !is_static {
            self.clustering(&row.clustering, json)?;
        }
        if let Some(liveness) = row.liveness {
            json.compact_objects = false;
            json.name("liveness_info")?;
            json.compact_objects = true;
            json.start_object()?;
            self.time("tstamp", liveness.timestamp, Unit::Microseconds, json)?;
            if let Some((ttl, end)) = liveness.expiry {
                self.expiry(ttl, end, json)?;
            }
            json.end()?;
            json.compact_objects = false;
        }
        if !row.deletion.is_live() {
            self.deletion(row.deletion, json)?;
        }
        json.name("cells")?;
        json.start_array()?;
        let columns = if is_static { &self.header.statics } else { &self.header.regulars };
        for found in &row.columns {
            if let Some(column) = columns.get(found.index) {
                self.column(found, column, row.liveness, json)?;
            }
        }
        json.end()?;
        json.end()
    }

    fn column(
        &self,
        found: &FileColumn,
        column: &HeaderColumn,
        liveness: Option<Liveness>,
        json: &mut JsonWriter<'_>,
    ) -> io::Result<()> {
        if !found.deletion.is_live() {
            json.compact_objects = true;
            json.start_object()?;
            json.name("name")?;
            json.string(&column_name(column))?;
            self.deletion(found.deletion, json)?;
            json.compact_objects = true;
            json.end()?;
            json.compact_objects = false;
        }
        found.cells.iter().try_for_each(|cell| self.cell(cell, column, liveness, json))
    }

    fn cell(
        &self,
        cell: &FileCell,
        column: &HeaderColumn,
        liveness: Option<Liveness>,
        json: &mut JsonWriter<'_>,
    ) -> io::Result<()> {
        json.start_object()?;
        json.compact_objects = true;
        json.name("name")?;
        json.string(&column_name(column))?;
        let kind = CellType::of(&column.field.cql_type, cell);
        if let Some(path) = &kind.path {
            json.name("path")?;
            json.compact_arrays = true;
            json.start_array()?;
            json.string(path)?;
            json.end()?;
            json.compact_arrays = false;
        }
        if cell.is_tombstone() {
            json.name("deletion_info")?;
            json.compact_objects = true;
            json.start_object()?;
            self.time("local_delete_time", cell.local_deletion_time, Unit::Seconds, json)?;
            json.end()?;
            json.compact_objects = false;
        } else {
            json.name("value")?;
            json.raw(&kind.json(&cell.value))?;
        }
        if liveness.is_none_or(|liveness| liveness.timestamp != cell.timestamp) {
            self.time("tstamp", cell.timestamp, Unit::Microseconds, json)?;
        }
        let row_ttl = liveness.and_then(|liveness| liveness.expiry).map(|(ttl, _)| ttl);
        if cell.ttl != 0 && row_ttl != Some(cell.ttl) {
            self.expiry(cell.ttl, cell.local_deletion_time, json)?;
        }
        json.end()?;
        json.compact_objects = false;
        Ok(())
    }

    fn expiry(&self, ttl: i32, end: i64, json: &mut JsonWriter<'_>) -> io::Result<()> {
        json.name("ttl")?;
        json.raw(&ttl.to_string())?;
        self.time("expires_at", end, Unit::Seconds, json)?;
        json.name("expired")?;
        json.raw(if end < self.now { "true" } else { "false" })
    }

    fn marker(&self, marker: &FileMarker, json: &mut JsonWriter<'_>) -> io::Result<()> {
        json.start_object()?;
        json.name("type")?;
        let kind = marker.kind;
        json.string(if kind.is_boundary() { "range_tombstone_boundary" } else { "range_tombstone_bound" })?;
        let before = kind.side() == BoundSide::Before;
        if kind.is_boundary() || kind.is_start() {
            self.bound("start", before, marker, marker.starts, json)?;
        }
        if kind.is_boundary() || !kind.is_start() {
            self.bound("end", !before, marker, marker.ends, json)?;
        }
        json.end()?;
        json.compact_objects = false;
        Ok(())
    }

    fn bound(
        &self,
        name: &str,
        inclusive: bool,
        marker: &FileMarker,
        deletion: Deletion,
        json: &mut JsonWriter<'_>,
    ) -> io::Result<()> {
        json.name(name)?;
        json.start_object()?;
        json.name("type")?;
        json.string(if inclusive { "inclusive" } else { "exclusive" })?;
        self.clustering(&marker.clustering, json)?;
        self.deletion(deletion, json)?;
        json.end()
    }

    fn clustering(&self, values: &[Option<Vec<u8>>], json: &mut JsonWriter<'_>) -> io::Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        json.name("clustering")?;
        json.compact_objects = true;
        json.start_array()?;
        json.compact_arrays = true;
        for (i, field) in self.header.clustering.iter().enumerate() {
            match values.get(i) {
                None => json.string("*")?,
                Some(None) => json.raw("null")?,
                Some(Some(value)) => json.raw(&json_text::to_json(&field.cql_type, value))?,
            }
        }
        json.end()?;
        json.compact_objects = false;
        json.compact_arrays = false;
        Ok(())
    }

    fn deletion(&self, deletion: Deletion, json: &mut JsonWriter<'_>) -> io::Result<()> {
        json.name("deletion_info")?;
        json.compact_objects = true;
        json.start_object()?;
        self.time("marked_deleted", deletion.timestamp, Unit::Microseconds, json)?;
        self.time("local_delete_time", deletion.local_deletion_time, Unit::Seconds, json)?;
        json.end()?;
        json.compact_objects = false;
        Ok(())
    }

    fn time(&self, name: &str, time: i64, unit: Unit, json: &mut JsonWriter<'_>) -> io::Result<()> {
        json.name(name)?;
        json.string(&if self.raw_times { time.to_string() } else { instant(time, unit) })
    }
}

fn column_name(column: &HeaderColumn) -> String {
    identifier::quoted(&String::from_utf8_lossy(&column.name)).into_owned()
}

/// Returns the type of a cell's value, and the text of its path.
struct CellType<'t> {
    /// `None` for the elements of a set, which have no value.
    value: Option<&'t CqlType>,
    path: Option<String>,
}

impl<'t> CellType<'t> {
    fn of(cql_type: &'t CqlType, cell: &FileCell) -> CellType<'t> {
        let Some(path) = &cell.path else { return CellType { value: Some(cql_type), path: None } };
        match cql_type {
            CqlType::List { element, .. } => {
                CellType { value: Some(element), path: Some(to_plain(&CqlType::Timeuuid, path)) }
            }
            CqlType::Set { element, .. } => CellType { value: None, path: Some(to_plain(element, path)) },
            CqlType::Map { key, value, .. } => CellType { value: Some(value), path: Some(to_plain(key, path)) },
            CqlType::User { definition, .. } => {
                let place = path.first_chunk::<2>().map_or(usize::MAX, |place| u16::from_be_bytes(*place).into());
                let field = definition.fields.get(place);
                CellType { value: field.map(|(_, cql_type)| cql_type), path: field.map(|(name, _)| name.clone()) }
            }
            _ => CellType { value: Some(cql_type), path: Some(to_plain(&CqlType::Blob, path)) },
        }
    }

    fn json(&self, value: &[u8]) -> String {
        match self.value {
            None => "\"\"".into(),
            // Cassandra shows the first bytes of the counter's shards.
            Some(CqlType::Counter) => json_text::to_json(&CqlType::Bigint, value.get(..8).unwrap_or(value)),
            Some(cql_type) => json_text::to_json(cql_type, value),
        }
    }
}
