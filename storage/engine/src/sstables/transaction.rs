//! Transactions: changes to a table's set of SSTables. A start after a crash undoes or finishes them by their logs.
//!
//! The format of the log is Cassandra's (`LogFile` and `LogRecord` of its `db.lifecycle`), so that either program can
//! clean up after the other: a file `VERSION_txn_KIND_UUID.log` beside the SSTables with one record per line,
//! `TYPE:[prefix of names,time,files][checksum]`. A table has a directory in each data directory; a log is in one of
//! them and may name SSTables in all, whose names are unique within the table. (Cassandra writes the same log into each
//! directory that it names.)
//! 1. The log with the names of the new SSTables is durable before the first of their files is created.
//! 2. Once the new files are durable, [`Transaction::commit`] durably adds `COMMIT`.
//! 3. The files of the replaced SSTables are removed when nothing reads them, and then the log.
//!
//! If a log has no `COMMIT`, a start removes the SSTables of its `ADD` records; if it has one, those of its `REMOVE`
//! records.
//!
//! Invariants: the log is always replaced as a whole, so that it is never torn; cleaning up may be interrupted and
//! repeated any number of times.

use super::directory::{Listed, listed_all, name_of};
use crate::error::Error;
use runtime::HashSet;
use runtime::file::{list_dir, read_small, remove, replace_small, sync_dir};
use sstable::Descriptor;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// Longest log that is read, in bytes: room for more SSTables than a table ever has, each with a path of usual length.
pub const LOG_BYTES_MAX: usize = 64 << 20;

/// The operation that changes a table's set of SSTables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionKind {
    /// A flush adds an SSTable.
    Flush,
    /// A compaction or a split replaces SSTables by others.
    Compaction,
    /// The table is dropped or truncated, and its SSTables are removed.
    Truncate,
    /// SSTables are imported.
    Import,
}

impl TransactionKind {
    /// Cassandra's word for the operation in the log's file name.
    fn name(self) -> &'static str {
        match self {
            TransactionKind::Flush => "flush",
            TransactionKind::Compaction => "compaction",
            TransactionKind::Truncate | TransactionKind::Import => "unknown",
        }
    }
}

/// A transaction under way.
#[derive(Debug)]
pub struct Transaction {
    directory: PathBuf,
    path: PathBuf,
    /// The SSTables that it adds, with their directories.
    added: Vec<(PathBuf, Descriptor)>,
    /// The text of the log: all records so far.
    text: String,
}

impl Transaction {
    /// A transaction with its log in a table's directory. Nothing is written yet. `id` is a time UUID that no other
    /// transaction has.
    pub fn new(directory: &Path, kind: TransactionKind, id: uuid::Uuid) -> Transaction {
        let path = directory.join(format!("da_txn_{}_{id}.log", kind.name()));
        Transaction { directory: directory.to_owned(), path, added: Vec::new(), text: String::new() }
    }

    /// Durably records a new SSTable in a directory of the table. Must be called before any file of it is created.
    pub async fn add(&mut self, directory: &Path, descriptor: &Descriptor) -> Result<(), Error> {
        self.add_all([(directory, descriptor)]).await
    }

    /// Durably records new SSTables with their directories. Must be called before any file of them is created.
    pub async fn add_all<'s>(
        &mut self,
        sstables: impl IntoIterator<Item = (&'s Path, &'s Descriptor)>,
    ) -> Result<(), Error> {
        for (directory, descriptor) in sstables {
            self.added.push((directory.to_owned(), descriptor.clone()));
            self.record("ADD", &prefix(directory, descriptor), 0, FILES_OF_ADDED);
        }
        replace_small(&self.path, self.text.as_bytes()).await.map_err(Error::Io)
    }

    /// Records an SSTable that the commit removes: its directory, its number of files, and when it last changed, in
    /// milliseconds since 1970. The commit makes the record durable.
    pub fn remove(&mut self, directory: &Path, descriptor: &Descriptor, millis: u64, files: usize) {
        self.record("REMOVE", &prefix(directory, descriptor), millis, files);
    }

    /// Durably commits the transaction. The files of the new SSTables must be durable already.
    pub async fn commit(&mut self, millis: u64) -> Result<(), Error> {
        self.record("COMMIT", "", millis, 0);
        replace_small(&self.path, self.text.as_bytes()).await.map_err(Error::Io)
    }

    /// Removes the log. Called once the transaction is committed and the files of the removed SSTables are gone.
    pub async fn finish(self) -> Result<(), Error> {
        remove_if_there(&self.path).await.map_err(Error::Io)?;
        // The directory of a dropped table may have gone with its last snapshot, and the log with it.
        sync_if_there(&self.directory).await.map_err(Error::Io)
    }

    /// Undoes the transaction: removes the new SSTables' files, then the log.
    pub async fn abort(self) -> Result<(), Error> {
        delete_all(&self.added).await.map_err(Error::Io)?;
        // A failed write of the log may leave its temporary file.
        let mut unfinished = self.path.clone().into_os_string();
        unfinished.push(".tmp");
        remove_if_there(Path::new(&unfinished)).await.map_err(Error::Io)?;
        self.finish().await
    }

    fn record(&mut self, kind: &str, prefix: &str, time: u64, files: usize) {
        let checksum = checksum(kind, prefix, time, files as u32);
        writeln!(self.text, "{kind}:[{prefix},{time},{files}][{checksum}]").expect("a string grows");
    }
}

/// What the names of an SSTable's files begin with.
fn prefix(directory: &Path, descriptor: &Descriptor) -> String {
    format!("{}/{descriptor}-", directory.display())
}

/// The number of files in an `ADD` record; only `REMOVE` records need the true number.
const FILES_OF_ADDED: usize = 8;

/// Cassandra's checksum of a record.
fn checksum(kind: &str, prefix: &str, time: u64, files: u32) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(prefix.as_bytes());
    crc.update(kind.as_bytes());
    crc.update(&(time as u32).to_be_bytes());
    crc.update(&((time >> 32) as u32).to_be_bytes());
    crc.update(&files.to_be_bytes());
    crc.finalize()
}

/// The contents of a transaction's log.
#[derive(Default, PartialEq, Eq, Debug)]
struct TransactionLog {
    added: Vec<Descriptor>,
    removed: Vec<Descriptor>,
    committed: bool,
}

/// Parses a log. A last line that is incomplete is ignored, because its writer did not finish it; other faults are
/// errors.
fn parse(text: &str) -> Result<TransactionLog, &'static str> {
    let mut log_file = TransactionLog::default();
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let is_last = index + 1 == lines.len();
        let Some(record) = Record::parse(line) else {
            if is_last {
                break;
            }
            return Err("malformed record of a transaction");
        };
        if log_file.committed {
            return Err("record behind the end of a transaction");
        }
        match (record.kind, record.descriptor()) {
            ("ADD", Some(descriptor)) => log_file.added.push(descriptor),
            ("REMOVE", Some(descriptor)) => log_file.removed.push(descriptor),
            ("COMMIT", _) => log_file.committed = true,
            ("ABORT", _) => {}
            _ => return Err("record of a transaction that names no SSTable"),
        }
    }
    Ok(log_file)
}

struct Record<'a> {
    kind: &'a str,
    prefix: &'a str,
}

impl<'a> Record<'a> {
    /// Parses a line; `None` if it is malformed or its checksum is wrong.
    fn parse(line: &'a str) -> Option<Record<'a>> {
        let (kind, rest) = line.split_once(":[")?;
        let (body, rest) = rest.rsplit_once("][")?;
        let sum: u32 = rest.strip_suffix(']')?.parse().ok()?;
        let mut fields = body.rsplitn(3, ',');
        let files: u32 = fields.next()?.parse().ok()?;
        let time: u64 = fields.next()?.parse().ok()?;
        let prefix = fields.next()?;
        (checksum(kind, prefix, time, files) == sum).then_some(Record { kind, prefix })
    }

    fn descriptor(&self) -> Option<Descriptor> {
        let name = self.prefix.rsplit('/').next()?;
        Descriptor::parse(&format!("{name}Data.db")).map(|(descriptor, _)| descriptor)
    }
}

/// Whether a file name is that of a transaction's log.
pub(crate) fn is_log(name: &str) -> bool {
    name.contains("_txn_") && name.ends_with(".log")
}

/// The SSTables that uncommitted transactions with a log in this directory add or committed ones remove: their files
/// may be removed at any moment. With `all`, also those that committed transactions added.
pub async fn named(directory: &Path, all: bool) -> Result<HashSet<Descriptor>, Error> {
    let mut named = HashSet::default();
    for path in list_dir(directory).await.map_err(Error::Io)? {
        if !path.file_name().and_then(|name| name.to_str()).is_some_and(is_log) {
            continue;
        }
        let log_file = match read_log(&path).await {
            // The transaction was finished after the directory was listed.
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::NotFound => continue,
            log_file => log_file?,
        };
        if all || !log_file.committed {
            named.extend(log_file.added);
        }
        if log_file.committed {
            named.extend(log_file.removed);
        }
    }
    Ok(named)
}

async fn read_log(path: &Path) -> Result<TransactionLog, Error> {
    let bytes = read_small(path, LOG_BYTES_MAX).await.map_err(Error::Io)?;
    let corrupt = |what| Error::Corrupt { path: path.to_owned(), offset: 0, what };
    parse(std::str::from_utf8(&bytes).map_err(|_| corrupt("not a text"))?).map_err(corrupt)
}

/// Finishes or undoes the transactions whose logs are in the directories of a table. Removes nothing else.
pub async fn clean(directories: &[PathBuf]) -> Result<(), Error> {
    clean_listed(&listed_all(directories.to_vec()).await?).await
}

/// As [`clean`], in directories that nobody has changed since they were listed.
pub(crate) async fn clean_listed(directories: &[Listed]) -> Result<(), Error> {
    let mut logs: BTreeMap<OsString, (TransactionLog, Vec<&Path>)> = BTreeMap::new();
    for listed in directories {
        for path in &listed.paths {
            let name = name_of(path);
            if name.strip_suffix(".tmp").is_some_and(is_log) {
                remove_if_there(path).await.map_err(Error::Io)?;
                continue;
            }
            if !is_log(name) {
                continue;
            }
            // Logs of one name are one transaction's, and a crash may have kept the last records from some of them.
            let (log_file, paths) = logs.entry(name.into()).or_default();
            let read = read_log(path).await?;
            log_file.added.extend(read.added);
            log_file.removed.extend(read.removed);
            log_file.committed |= read.committed;
            paths.push(path);
        }
    }
    for (log_file, paths) in logs.into_values() {
        let gone = if log_file.committed { log_file.removed } else { log_file.added };
        let gone: HashSet<Descriptor> = gone.into_iter().collect();
        for listed in directories {
            delete(&listed.directory, |descriptor| gone.contains(descriptor)).await.map_err(Error::Io)?;
        }
        for path in paths {
            remove_if_there(path).await.map_err(Error::Io)?;
            if let Some(directory) = path.parent() {
                sync_dir(directory).await.map_err(Error::Io)?;
            }
        }
    }
    Ok(())
}

/// Durably deletes all files of some SSTables, given with their directories.
pub(crate) async fn delete_all(sstables: &[(PathBuf, Descriptor)]) -> io::Result<()> {
    let mut by_directory: BTreeMap<&Path, HashSet<&Descriptor>> = BTreeMap::new();
    for (directory, descriptor) in sstables {
        by_directory.entry(directory).or_default().insert(descriptor);
    }
    for (directory, names) in by_directory {
        delete(directory, |descriptor| names.contains(descriptor)).await?;
    }
    Ok(())
}

/// Durably deletes all files of the SSTables that `which` selects. A directory that is gone has none.
pub async fn delete(directory: &Path, which: impl Fn(&Descriptor) -> bool) -> io::Result<()> {
    let files = match list_dir(directory).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        files => files?,
    };
    for path in files {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if Descriptor::parse(name).is_some_and(|(descriptor, _)| which(&descriptor)) {
            remove_if_there(&path).await?;
        }
    }
    // Even if no file was there: somebody else may have removed it a moment ago, and not durably yet.
    sync_if_there(directory).await
}

async fn sync_if_there(directory: &Path) -> io::Result<()> {
    match sync_dir(directory).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        synced => synced,
    }
}

async fn remove_if_there(path: &Path) -> io::Result<()> {
    match remove(path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::NodeId;
    use runtime::file::create_dir_all;
    use runtime::sim::{Options, Sim, Stop};
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::Duration;

    /// Written by `LogRecord` of Cassandra 5.0.9.
    const CASSANDRAS: [&str; 3] = [
        "ADD:[/var/lib/cassandra/data/ks/t-1b255f4def2540a60000000000000001/nb-7-big-,0,8][3406290900]",
        "REMOVE:[/var/lib/cassandra/data/ks/t-1b255f4def2540a60000000000000001/nb-6-big-,1700000000123,8][290557958]",
        "COMMIT:[,0,0][2613697770]",
    ];

    /// Deletes files that somebody else has just removed, perhaps not durably yet. Returns what a crash leaves of them.
    fn left_by_a_crash(image: u64) -> usize {
        let mut sim = Sim::new(image, Options::default());
        let done = Rc::new(Cell::new(false));
        let told = done.clone();
        sim.start_node(NodeId(1), 1, move |_| {
            let told = told.clone();
            async move {
                let (directory, path) = (Path::new("/t"), Path::new("/t/da-3gb2_1pqa_24vs02hl1s8dhqqg8x-bti-Data.db"));
                create_dir_all(directory).await.expect("made");
                replace_small(path, b"a").await.expect("written");
                remove(path).await.expect("removed");
                delete(directory, |_| true).await.expect("deleted");
                told.set(true);
                std::future::pending::<()>().await;
            }
        });
        assert_eq!(sim.run_until(Duration::from_secs(60), || done.get()), Stop::Condition);
        sim.crash_to(NodeId(1), image);
        sim.files(NodeId(1)).len()
    }

    #[test]
    fn what_two_delete_at_once_is_durably_deleted_for_both() {
        assert!((0..20).all(|image| left_by_a_crash(image) == 0));
    }

    fn descriptor(id: &str) -> Descriptor {
        Descriptor::parse(&format!("da-{id}-bti-Data.db")).expect("a name").0
    }

    fn log() -> Transaction {
        Transaction::new(Path::new("/d/ks/t"), TransactionKind::Compaction, uuid::Uuid::from_bytes([7; 16]))
    }

    #[test]
    fn s4_a_log_says_what_it_was_told() {
        let mut log = log();
        log.record("ADD", "/d/ks/t/da-1-bti-", 0, 8);
        log.remove(Path::new("/e/ks/t"), &descriptor("2"), 1_700_000_000_123, 9);
        let mut expected =
            TransactionLog { added: vec![descriptor("1")], removed: vec![descriptor("2")], committed: false };
        assert_eq!(parse(&log.text).as_ref(), Ok(&expected));
        log.record("COMMIT", "", 5, 0);
        expected.committed = true;
        assert_eq!(parse(&log.text), Ok(expected));
        log.record("COMMIT", "", 5, 0);
        assert!(parse(&log.text).is_err());
    }

    #[test]
    fn s4_a_cut_last_record_was_never_written_and_a_damaged_one_is_named() {
        let mut log = log();
        log.record("ADD", "/d/ks/t/da-1-bti-", 0, 8);
        let first = log.text.len();
        log.record("COMMIT", "", 5, 0);
        for cut in first..log.text.len() - 2 {
            assert_eq!(parse(&log.text[..cut]).map(|log_file| log_file.committed), Ok(false), "{cut}");
        }
        let damaged = log.text.replacen("da-1", "da-3", 1);
        assert!(parse(&damaged).is_err());
    }

    /// As a compaction of many SSTables, or a stream that brings many, leaves it when the node crashes.
    #[test]
    fn s7_a_log_of_many_sstables_is_cleaned_after_a_crash() {
        const MANY: usize = 20_000;
        let mut sim = Sim::new(1, Options::default());
        sim.run_node(NodeId(1), Duration::from_secs(60), || async {
            let directory = Path::new("/data/keyspace/table-1b255f4def2540a60000000000000001");
            create_dir_all(directory).await.expect("made");
            let mut log = Transaction::new(directory, TransactionKind::Import, uuid::Uuid::from_bytes([7; 16]));
            let names: Vec<Descriptor> = (1..=MANY).map(|id| descriptor(&id.to_string())).collect();
            log.add_all(names.iter().map(|name| (directory, name))).await.expect("written");
            assert!(log.text.len() > 1 << 20, "{}", log.text.len());
            let last = directory.join(format!("{}-Data.db", names[MANY - 1]));
            replace_small(&last, b"a").await.expect("written");
            clean(&[directory.to_owned()]).await.expect("cleaned");
            assert_eq!(list_dir(directory).await.expect("there"), Vec::<PathBuf>::new());
        });
    }

    #[test]
    fn cassandras_logs_are_read() {
        let log_file = parse(&CASSANDRAS.join("\n")).expect("a log");
        assert_eq!(
            (log_file.added[0].to_string(), log_file.removed[0].to_string()),
            ("nb-7-big".into(), "nb-6-big".into())
        );
        assert!(log_file.committed);
    }
}
