//! `sstablemetadata`: prints Statistics.db in words.

mod scan;

use super::cardinality;
use super::dates::{Unit, american, words};
use super::files::Location;
use super::histogram::{self, Colours, Look};
use super::options::{Known, Style, flag, parse};
use super::values::KeyTypes;
use super::{Failure, Output};
use model::text::to_plain;
use model::{CqlType, Partitioner, text};
use runtime::blocking;
use sstable::Component;
use sstable::statistics::{ClusteringBounds, Header, HeaderColumn, LogPosition, Metadata, Statistics};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

const OPTIONS: &[Known] = &[
    flag("c", "colors"),
    flag("u", "unicode"),
    Known { short: "g", long: "gc_grace_seconds", values_max: 1 },
    Known { short: "t", long: "timestamp_unit", values_max: 1 },
    flag("h", "help"),
    flag("s", "scan"),
];
const USAGE: &str = "\
usage: sstablemetadata <options> <sstable...> [-c] [-g <arg>] [-h] [-s] [-t <arg>] [-u]

Dump information about SSTable[s] for Apache Cassandra 3.x
Options:
  -c,--colors                 Use ANSI color sequences
  -g,--gc_grace_seconds <arg> Time to use when calculating droppable tombstones
  -h,--help                   Help
  -s,--scan                   Full sstable scan for additional details. Only available in 3.0+ sstables. Defaults: false
  -t,--timestamp_unit <arg>   Time unit that cell timestamps are written with
  -u,--unicode                Use unicode to draw histograms and progress bars

";
/// The names that `-t` accepts. The option has no other effect.
const TIME_UNITS: [&str; 7] = ["NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS"];

/// Runs the tool and returns its exit code.
pub(crate) fn run(arguments: &[String], now: i64, output: &mut Output<'_>) -> Result<u8, Failure> {
    let given = match parse(OPTIONS, Style::Posix, arguments) {
        Ok(given) if !given.rest.is_empty() => given,
        Ok(_) => return usage("You must supply at least one sstable", output),
        Err(text) => return usage(&text, output),
    };
    let grace = given.value("g").unwrap_or("0");
    let grace: i32 = grace.parse().map_err(|_| Failure(format!("For input string: \"{grace}\"")))?;
    let unit = given.value("t").unwrap_or("MICROSECONDS");
    if !TIME_UNITS.contains(&unit) {
        return Err(Failure(format!("No enum constant java.util.concurrent.TimeUnit.{unit}")));
    }
    let colours = if given.has("c") { Colours::ANSI } else { Colours::NONE };
    let look = Look { colours, unicode: given.has("u") };
    for name in &given.rest {
        let file = Path::new(name);
        if !blocking::exists(file) {
            writeln!(output.out, "No such file: {name}")?;
            continue;
        }
        let location = Location::of(file)?;
        let mut show = Show { out: output.out, look, now: now - i64::from(grace) };
        show.sstable(&location, given.has("s"))?;
    }
    Ok(0)
}

fn usage(text: &str, output: &mut Output<'_>) -> Result<u8, Failure> {
    writeln!(output.err, "{text}")?;
    output.err.write_all(USAGE.as_bytes())?;
    Ok(1)
}

/// Writes one field after another.
struct Show<'s> {
    out: &'s mut dyn Write,
    look: Look,
    /// The time from which on tombstones may be dropped, in seconds.
    now: i64,
}

impl Show<'_> {
    fn field(&mut self, name: &str, value: &str) -> io::Result<()> {
        let Colours { reset, blue, cyan, .. } = self.look.colours;
        writeln!(self.out, "{blue}{name}{cyan}: {reset}{value}")
    }

    fn remarked(&mut self, name: &str, value: &str, remark: Option<&str>) -> io::Result<()> {
        let Colours { reset, white, .. } = self.look.colours;
        match remark {
            Some(remark) => self.field(name, &format!("{value}{white} ({remark}){reset}")),
            None => self.field(name, value),
        }
    }

    fn sstable(&mut self, location: &Location, scan: bool) -> Result<(), Failure> {
        let path = location.path(Component::Statistics);
        let metadata = location.metadata()?.ok_or_else(|| Failure(format!("{} is missing", path.display())))?;
        let Metadata { header, statistics, .. } = &metadata;
        let types = KeyTypes::of(header).ok_or_else(|| Failure("a type of the partition key is not known".into()))?;
        self.field("SSTable", &location.base())?;
        // Cassandra compares the letters of versions, and `da` sorts before the version that it asks for.
        if scan && !location.descriptor.version.is_bti() {
            scan::show(location, &types, self)?;
        }
        self.field("Partitioner", &metadata.partitioner)?;
        self.field("Bloom Filter FP chance", &double(metadata.filter_chance))?;
        self.times(location, statistics)?;
        self.tokens(location, &metadata, &types)?;
        self.field("Covered clusterings", &covered_clusterings(&statistics.clustering_bounds, header))?;
        let overflow = || Failure("Unable to compute ceiling for max when histogram overflowed".into());
        let ratio = statistics.droppable_ratio(self.now).ok_or_else(overflow)?;
        self.field("Estimated droppable tombstones", &double(ratio))?;
        self.field("SSTable Level", &statistics.level.to_string())?;
        let repaired = (statistics.repaired_at != 0).then(|| american(statistics.repaired_at, Unit::Milliseconds));
        self.remarked("Repaired at", &statistics.repaired_at.to_string(), repaired.as_deref())?;
        self.field("Originating host id", &uuid(statistics.host_id))?;
        self.field("Pending repair", &uuid(statistics.pending_repair))?;
        let interval = |(start, end): &(LogPosition, LogPosition)| format!("{}={}", position(*start), position(*end));
        let intervals: Vec<String> = statistics.log_intervals.iter().map(interval).collect();
        self.field("Replay positions covered", &format!("{{{}}}", intervals.join(", ")))?;
        self.field("totalColumnsSet", &(statistics.cells as i64).to_string())?;
        self.field("totalRows", &(statistics.rows as i64).to_string())?;
        self.histograms(statistics)?;
        self.field("Local token space coverage", &double(statistics.token_space_coverage))?;
        if let Some(count) = cardinality::estimate(&metadata.cardinality) {
            self.field("Estimated cardinality", &count.to_string())?;
        }
        self.header(header)?;
        Ok(self.field("IsTransient", if statistics.transient { "true" } else { "false" })?)
    }

    fn times(&mut self, location: &Location, statistics: &Statistics) -> Result<(), Failure> {
        let Statistics { min_timestamp, max_timestamp, .. } = *statistics;
        for (name, time) in [("Minimum timestamp", min_timestamp), ("Maximum timestamp", max_timestamp)] {
            self.remarked(name, &date(time, Unit::Microseconds), Some(&time.to_string()))?;
        }
        let seconds = max_timestamp.wrapping_sub(min_timestamp) / 1_000_000;
        let parts = [seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60];
        let [days, hours, minutes, seconds] = parts;
        self.field("Duration", &format!("Days: {days} Hours: {hours} Minutes: {minutes} Seconds: {seconds}"))?;
        let none = if location.descriptor.version.is_cassandra_5() { u32::MAX } else { i32::MAX as u32 };
        let long = |time: u32| if time == none { i64::MAX } else { i64::from(time) };
        for (name, time) in [
            ("SSTable min local deletion time", long(statistics.min_local_deletion_time)),
            ("SSTable max local deletion time", long(statistics.max_local_deletion_time)),
        ] {
            let text = match time {
                0 | i64::MAX => "no tombstones".into(),
                _ => american(time, Unit::Seconds),
            };
            self.remarked(name, &text, Some(&time.to_string()))?;
        }
        let compression = location.read(Component::CompressionInfo)?;
        let class = compression.as_deref().and_then(compressor_class);
        self.field("Compressor", class.as_deref().unwrap_or("-"))?;
        if class.is_some() {
            self.field("Compression ratio", &double(statistics.compression_ratio))?;
        }
        for (name, ttl) in [("TTL min", statistics.min_ttl), ("TTL max", statistics.max_ttl)] {
            self.remarked(name, &ttl.to_string(), duration(ttl.into()).as_deref())?;
        }
        Ok(())
    }

    fn tokens(&mut self, location: &Location, metadata: &Metadata, types: &KeyTypes) -> Result<(), Failure> {
        let keys = if location.descriptor.version.is_cassandra_5() {
            Some(metadata.statistics.key_bounds.clone())
        } else {
            first_and_last(location)?
        };
        let Some((first, last)) = keys else { return Ok(()) };
        let partitioner = Partitioner::named(&metadata.partitioner).unwrap_or_default();
        for (name, key) in [("First token", first), ("Last token", last)] {
            self.remarked(name, &partitioner.ring_token(&key).to_string(), Some(&types.text(&key)))?;
        }
        Ok(())
    }

    fn histograms(&mut self, statistics: &Statistics) -> io::Result<()> {
        let look = self.look;
        self.field("Estimated tombstone drop times", "")?;
        let time = |time: i64| {
            let date = if time == 0 { String::new() } else { american(time, Unit::Seconds) };
            format!("{time} {}", look.colours.remark(&date))
        };
        histogram::print(&statistics.tombstones, "Drop Time", time, look, self.out)?;
        self.field("Partition Size", "")?;
        let size = |bytes: i64| format!("{bytes} {}", look.colours.remark(&byte_count(bytes)));
        histogram::print(&histogram::rows(&statistics.partition_sizes), "Size (bytes)", size, look, self.out)?;
        self.field("Column Count", "")?;
        let count = |count: i64| count.to_string();
        histogram::print(&histogram::rows(&statistics.cell_counts), "Columns", count, look, self.out)
    }

    fn header(&mut self, header: &Header) -> io::Result<()> {
        self.remarked("EncodingStats minTTL", &header.min_ttl.to_string(), duration(header.min_ttl).as_deref())?;
        let time = header.min_local_deletion_time;
        self.remarked("EncodingStats minLocalDeletionTime", &date(time, Unit::Seconds), Some(&time.to_string()))?;
        let time = header.min_timestamp;
        self.remarked("EncodingStats minTimestamp", &date(time, Unit::Microseconds), Some(&time.to_string()))?;
        self.field("KeyType", &header.key_class)?;
        let classes: Vec<&str> = header.clustering.iter().map(|field| field.class.as_str()).collect();
        self.field("ClusteringTypes", &format!("[{}]", classes.join(", ")))?;
        self.field("StaticColumns", &columns(&header.statics))?;
        self.field("RegularColumns", &columns(&header.regulars))
    }
}

/// Formats a date; 0 as dashes.
fn date(time: i64, unit: Unit) -> String {
    if time == 0 { "--".into() } else { american(time, unit) }
}

fn duration(seconds: i64) -> Option<String> {
    match seconds {
        0 => None,
        seconds if seconds == i64::from(i32::MAX) => Some("never".into()),
        seconds => Some(words(seconds)),
    }
}

/// Formats a size as `6.7 kB`; 0 as nothing.
fn byte_count(bytes: i64) -> String {
    const UNITS: [&str; 5] = ["k", "M", "G", "T", "P"];
    match bytes {
        0 => String::new(),
        ..1024 => format!("{bytes} B"),
        _ => {
            let power = ((bytes as f64).ln() / 1024f64.ln()) as i32;
            let unit = UNITS.get(power as usize - 1).unwrap_or(&"P");
            // Java rounds halves up, unlike Rust's formatting.
            let tenths = (bytes as f64 / 1024f64.powi(power) * 10.0).round();
            format!("{:.1} {unit}B", tenths / 10.0)
        }
    }
}

fn double(number: f64) -> String {
    text::to_literal(&CqlType::Double, &number.to_be_bytes())
}

fn uuid(uuid: Option<[u8; 16]>) -> String {
    uuid.map_or_else(|| "--".into(), |uuid| text::to_literal(&CqlType::Uuid, &uuid))
}

fn position(position: LogPosition) -> String {
    format!("CommitLogPosition(segmentId={}, position={})", position.segment, position.position)
}

/// Returns the name of the compressor's class, which CompressionInfo.db begins with.
fn compressor_class(bytes: &[u8]) -> Option<String> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    let name = std::str::from_utf8(rest.get(..u16::from_be_bytes(*len).into())?).ok()?;
    Some(if name.contains('.') { name.into() } else { format!("org.apache.cassandra.io.compress.{name}") })
}

/// The first and the last key.
type Keys = (Vec<u8>, Vec<u8>);

/// Returns the first and the last key of an SSTable whose Statistics.db does not have them, from its Summary.db.
fn first_and_last(location: &Location) -> Result<Option<Keys>, Failure> {
    let opened = location.open()?;
    Ok(opened.reader.key_bounds().map(|(first, last)| (first.to_vec(), last.to_vec())))
}

fn covered_clusterings(bounds: &ClusteringBounds, header: &Header) -> String {
    let join = |values: &mut dyn Iterator<Item = Option<&[u8]>>| {
        let texts: Vec<String> = values
            .zip(&header.clustering)
            .map(|(value, field)| value.map_or_else(|| "null".into(), |value| to_plain(&field.cql_type, value)))
            .collect();
        texts.join(":")
    };
    match bounds {
        ClusteringBounds::Legacy { min, max } if min.is_empty() && max.is_empty() => "ALL".into(),
        ClusteringBounds::Legacy { min, max } => {
            let some = |values: &[Vec<u8>]| join(&mut values.iter().map(|value| Some(&value[..])));
            format!("[{}, {}]", some(min), some(max))
        }
        ClusteringBounds::Slice { start, end, .. } => {
            const INCLUSIVE_START: u8 = 1;
            const INCLUSIVE_END: u8 = 6;
            let open = if start.kind == INCLUSIVE_START { '[' } else { '(' };
            let close = if end.kind == INCLUSIVE_END { ']' } else { ')' };
            let some = |values: &[Option<Vec<u8>>]| join(&mut values.iter().map(Option::as_deref));
            format!("{open}{}, {}{close}", some(&start.values), some(&end.values))
        }
    }
}

/// Formats names and classes in the order of a Java hash map with the names as keys.
fn columns(columns: &[HeaderColumn]) -> String {
    let mut capacity = 16usize;
    while columns.len() > capacity / 4 * 3 {
        capacity *= 2;
    }
    let mut buckets: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for column in columns {
        let name = String::from_utf8_lossy(&column.name);
        let hash = name.encode_utf16().fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
        let bucket = (hash ^ (hash >> 16)) as usize & (capacity - 1);
        buckets.entry(bucket).or_default().push(format!("{name}:{}", column.field.class));
    }
    buckets.into_values().flatten().collect::<Vec<_>>().join(", ")
}
