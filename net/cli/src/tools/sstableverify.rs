//! `sstableverify`: checks the files of a table.
//!
//! 1. Each SSTable must open, Data.db must match its digest, and with `-c` the version must be the latest.
//! 2. With `-e` every partition is read to its end, every block is checked, and keys must ascend.
//! 3. With `-t` every key must lie in one of the given ranges. Cassandra's tool accepts the option and ignores it.

use super::files::{Location, Opened};
use super::options::{Known, flag};
use super::tables::{DATA_DIRECTORY, asked, directories, sstables, usage};
use super::values::hex;
use super::{Failure, Output};
use model::{DecoratedKey, Partitioner, RingToken};
use server::admin::number_format::memory_size;
use sstable::walker::FileItem;
use sstable::{Component, Version};

/// How many bytes of Data.db are read at once for the digest.
const READ_BYTES: u64 = 1 << 20;
const OPTIONS: &[Known] = &[
    flag("c", "check_version"),
    flag("", "debug"),
    flag("e", "extended"),
    flag("f", "force"),
    flag("h", "help"),
    flag("q", "quick"),
    flag("r", "mutate_repair_status"),
    Known { short: "t", long: "token_range", values_max: usize::MAX },
    flag("v", "verbose"),
    Known { short: "", long: "data-dir", values_max: 1 },
];
const USAGE: &str = "\
usage: sstableverify [options] <keyspace> <column_family> force
--
Verify the sstable for the provided table.
--
NOTE: There are significant risks associated with using this tool; it
likely doesn't do what you expect and there are known edge cases. You must
provide a -f or --force argument in order to allow usage of the tool ->
see CASSANDRA-9947 and CASSANDRA-17017 for known risks.
https://issues.apache.org/jira/browse/CASSANDRA-9947
https://issues.apache.org/jira/browse/CASSANDRA-17017
--
Options are:
 -c,--check_version          make sure sstables are the latest version
    --debug                  display stack traces
 -e,--extended               extended verification
 -f,--force                  force verify - see CASSANDRA-17017
 -h,--help                   display this help message
 -q,--quick                  do a quick check, don't read all data
 -r,--mutate_repair_status   don't mutate repair status
 -t,--token_range <range>    long token range of the format left,right.
                             This may be provided multiple times to define
                             multiple different ranges
 -v,--verbose                verbose output
";

/// Runs the tool and returns its exit code.
pub(crate) fn run(arguments: &[String], output: &mut Output<'_>) -> Result<u8, Failure> {
    let (given, keyspace, table) = match asked(OPTIONS, arguments) {
        Ok(asked) => asked,
        Err(wrong) => return usage(USAGE, &wrong, output),
    };
    if !given.has("f") {
        let wrong = "verify will not run without -f or --force. See CASSANDRA-17017 for details.";
        return usage(USAGE, wrong, output);
    }
    if given.has("r") {
        return Err(Failure("-r is not supported: there is no repair".into()));
    }
    let data = given.value("data-dir").unwrap_or(DATA_DIRECTORY);
    let partitioner = partitioner(data, &keyspace, &table);
    let range = |text| token_range(partitioner, text);
    let ranges = given.values("t").map(range).collect::<Result<Vec<TokenRange>, Failure>>()?;
    let asked = Asked { extended: given.has("e"), verbose: given.has("v"), latest: given.has("c"), ranges };
    let Asked { extended, verbose, latest, ranges } = &asked;
    let tokens: Vec<String> = ranges.iter().map(|TokenRange(after, last)| format!("({after},{last}]")).collect();
    writeln!(
        output.out,
        "sstableverify using the following options: Options{{keyspaceName='{keyspace}', cfName='{table}', \
         debug={}, verbose={verbose}, extended={extended}, checkVersion={latest}, mutateRepairStatus=false, quick={}, \
         tokens=[{}]}}",
        given.has("debug"),
        given.has("q"),
        tokens.join(", ")
    )?;
    let directories = directories(data, &keyspace, &table)?;
    writeln!(
        output.out,
        "Running verifier with the following options: Options{{invokeDiskFailurePolicy=false, \
         extendedVerification={extended}, checkVersion={latest}, mutateRepairStatus=false, checkOwnsTokens={}, \
         quick=false}}",
        !ranges.is_empty()
    )?;
    let mut sound = true;
    for directory in directories {
        for location in sstables(&directory)? {
            let mut verify = Verify { location: &location, name: name(&location), output, asked: &asked };
            if *latest && !location.descriptor.version.is_cassandra_5() {
                sound = false;
                verify.is_old()?;
                continue;
            }
            if let Err(Failure(reason)) = verify.all() {
                sound = false;
                writeln!(output.out, "WARNING: {reason}")?;
                let path = location.path(Component::Data);
                writeln!(
                    output.out,
                    "WARNING: Error verifying {}: java.lang.Exception: Invalid SSTable {}, please force a full repair",
                    name(&location),
                    path.display()
                )?;
            }
        }
    }
    Ok(u8::from(!sound))
}

/// Returns the partitioner of a table's first SSTable that can be opened; Murmur3 if there is none.
fn partitioner(data: &str, keyspace: &str, table: &str) -> Partitioner {
    let directories = directories(data, keyspace, table).unwrap_or_default();
    let mut locations = directories.iter().flat_map(|directory| sstables(directory).unwrap_or_default());
    let first = locations.find_map(|location| location.open().ok());
    first.map_or(Partitioner::default(), |opened| opened.reader.partitioner())
}

/// Returns the text by which Cassandra refers to an open SSTable.
fn name(location: &Location) -> String {
    let class = if location.descriptor.version.is_bti() { "BtiTableReader:bti" } else { "BigTableReader:big" };
    format!("{class}(path='{}')", location.path(Component::Data).display())
}

/// The tokens above the first one, up to and including the last one; the range wraps around the ring if the last one is
/// not larger.
struct TokenRange(RingToken, RingToken);

impl TokenRange {
    fn contains(&self, token: &RingToken) -> bool {
        let TokenRange(after, last) = self;
        if after < last { after < token && token <= last } else { token > after || token <= last }
    }
}

/// Parses a range of `-t`.
fn token_range(partitioner: Partitioner, text: &str) -> Result<TokenRange, Failure> {
    let parts: Vec<&str> = text.split(',').collect();
    let [after, last] = parts[..] else {
        let count = parts.len();
        return Err(Failure(format!(
            "Unable to parse token range from {text}; format is left,right but saw {count} parts"
        )));
    };
    let token = |text| partitioner.parse_token(text).map_err(|_| Failure(format!("For input string: \"{text}\"")));
    Ok(TokenRange(token(after)?, token(last)?))
}

/// What is checked.
struct Asked {
    extended: bool,
    verbose: bool,
    latest: bool,
    ranges: Vec<TokenRange>,
}

struct Verify<'v, 'o> {
    location: &'v Location,
    name: String,
    output: &'v mut Output<'o>,
    asked: &'v Asked,
}

impl Verify<'_, '_> {
    fn line(&mut self, text: &str) -> Result<(), Failure> {
        Ok(writeln!(self.output.out, "{text}")?)
    }

    fn detail(&mut self, text: &str) -> Result<(), Failure> {
        if self.asked.verbose { self.line(text) } else { Ok(()) }
    }

    /// Reports that an SSTable does not have the latest version.
    fn is_old(&mut self) -> Result<(), Failure> {
        let name = self.name.clone();
        let opened = self.location.open()?;
        self.line(&format!("Verifying {name} ({})", memory_size(opened.reader.data_len())))?;
        let reason = format!("{name} is not the latest version, run upgradesstables");
        self.line(&reason)?;
        self.line(&format!("WARNING: Error verifying {name}: {reason}"))
    }

    fn all(&mut self) -> Result<(), Failure> {
        let name = self.name.clone();
        let opened = self.location.open()?;
        self.line(&format!("Verifying {name} ({})", memory_size(opened.reader.data_len())))?;
        self.line(&format!("Deserializing sstable metadata for {name} "))?;
        if self.location.descriptor.version != Version::Da {
            for part in ["index summary", "index"] {
                self.detail(&format!("Deserializing {part} for {name}"))?;
            }
        }
        self.detail(&format!("Deserializing bloom filter for {name}"))?;
        self.line(&format!("Checking computed hash of {name} "))?;
        self.digest()?;
        if self.asked.extended {
            self.line("Extended Verify requested, proceeding to inspect values")?;
        }
        if !self.asked.extended && self.asked.ranges.is_empty() {
            return Ok(());
        }
        let count = self.partitions(&opened)?;
        if self.asked.extended {
            self.line(&format!("Verify of {name} succeeded. All {count} rows read successfully"))?;
        }
        Ok(())
    }

    fn digest(&mut self) -> Result<(), Failure> {
        let Some(stored) = self.location.read(Component::Digest)? else { return Ok(()) };
        let path = self.location.path(Component::Data);
        let file = runtime::blocking::BlockingFile::open(&path)?;
        let len = file.len()?;
        let mut crc = crc32fast::Hasher::new();
        let mut at = 0;
        while at < len {
            let bytes = file.read_at(at, READ_BYTES.min(len - at) as usize)?;
            at += bytes.len() as u64;
            crc.update(&bytes);
        }
        let computed = crc.finalize();
        let stored = String::from_utf8_lossy(&stored).trim().to_owned();
        if stored.parse() == Ok(computed) {
            return Ok(());
        }
        let file = path.display();
        Err(Failure(format!("Corrupted file: integrity check (digest) failed for {file}: {stored} != {computed}")))
    }

    /// Reads every partition. Returns how many there are.
    fn partitions(&mut self, opened: &Opened) -> Result<u64, Failure> {
        let mut items = opened.items();
        let partitioner = opened.reader.partitioner();
        let (mut count, mut begins, mut previous) = (0u64, 0u64, None::<DecoratedKey>);
        while let Some(item) = items.next()? {
            match item {
                FileItem::Partition { key, start, .. } => {
                    self.detail(&format!("Reading row at {start}"))?;
                    let token = partitioner.ring_token(&key);
                    let key = DecoratedKey::new(partitioner, &key);
                    let ranges = &self.asked.ranges;
                    if !ranges.is_empty() && !ranges.iter().any(|range| range.contains(&token)) {
                        let key = hex(&key.key);
                        return Err(Failure(format!(
                            "Key DecoratedKey({token}, {key}) is not contained in the given ranges"
                        )));
                    }
                    if previous.as_ref().is_some_and(|previous| *previous >= key) {
                        return Err(Failure(format!("Key out of order: {}", hex(&key.key))));
                    }
                    begins = start;
                    previous = Some(key);
                }
                FileItem::PartitionEnd(end) => {
                    count += 1;
                    let key = previous.as_ref().map(|key| &key.key[..]).unwrap_or_default();
                    let size = memory_size(end.saturating_sub(begins + 2 + key.len() as u64));
                    let line = format!("row {} is {size}", hex(key));
                    self.detail(&line)?;
                    self.detail(&format!("Row {count} at {begins} valid, moving to next row at {end} "))?;
                }
                FileItem::Row(..) | FileItem::Marker(..) => {}
            }
        }
        Ok(count)
    }
}
