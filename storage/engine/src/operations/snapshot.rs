//! Snapshots: hard links to a table's SSTables in a directory of their own, with a manifest and the table's definition.
//!
//! `TABLE/snapshots/TAG/`, as Cassandra lays it out, in each data directory that has SSTables of the table:
//! 1. Every shard links what it serves ([`crate::Store::link_snapshot`]), after a flush; a view that is held keeps its
//!    files. An index that is dropped meanwhile is left out.
//! 2. One shard writes `schema.cql` and, last of all, `manifest.json` into the first data directory ([`write()`]). A
//!    snapshot without it was cut off.
//! 3. [`list`] finds those of all tables, of dropped ones too; [`remove`] takes the manifest first. [`list_copied`]
//!    finds them in copies of other nodes' directories.
//!
//! A snapshot of a whole cluster has what describes that as `cluster.json` beside the manifest ([`write_cluster`]).
//!
//! Invariants: no start reads or removes snapshots; linking twice is linking once, so that a snapshot may be taken up
//! again; foreign SSTables are linked by every shard, so that one that is being split is there in one form at least.

use crate::data_directories::DataDirectories;
use crate::error::Error;
use crate::index::{IndexState, directory_name};
use crate::sstables::directory::{directories_of, entries};
use crate::sstables::sstable_files::SstableFiles;
use crate::tables::Tables;
use model::text::instant;
use model::{Table, TableId};
use runtime::HashSet;
use runtime::file::{OpenOptions, create_dir_all, link, list_dir, read_small, remove_dir, replace_small, sync_dir};
use sstable::{Component, Descriptor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Longest tag, in bytes: that of a file's name.
pub const TAG_BYTES_MAX: usize = 255;
/// Longest manifest that is read, in bytes.
pub const MANIFEST_BYTES_MAX: usize = 16 << 20;

/// The directory of a table's snapshots, within the table's.
const DIRECTORY: &str = "snapshots";
const MANIFEST: &str = "manifest.json";
const SCHEMA: &str = "schema.cql";
const CLUSTER: &str = "cluster.json";

/// What a snapshot says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Manifest {
    /// Names of the Data.db files.
    pub files: BTreeSet<String>,
    /// Milliseconds since 1970; `None`: it does not say.
    pub created_at: Option<i64>,
    /// When it may go, milliseconds since 1970; `None`: never by itself.
    pub expires_at: Option<i64>,
    /// Whether it is gone with the process that took it.
    pub ephemeral: bool,
}

/// A table's snapshot on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Its name.
    pub tag: String,
    /// The keyspace of the table, which may be dropped.
    pub keyspace: String,
    /// The table's name.
    pub table: String,
    /// Where it is: within directories of its table, one at least.
    pub directories: Vec<PathBuf>,
    /// What it says of itself but for the files.
    pub manifest: Manifest,
    /// Bytes of its files.
    pub disk_bytes: u64,
    /// Bytes of those that are not also the table's.
    pub true_bytes: u64,
    /// Bytes of the SSTables' files that are not also the table's.
    pub sstable_bytes: u64,
}

/// Whether a snapshot may have this name: that of a file.
pub fn is_tag(tag: &str) -> bool {
    !matches!(tag, "" | "." | "..") && tag.len() <= TAG_BYTES_MAX && !tag.contains(['/', '\0'])
}

/// Where a table's snapshot of a name may be, by data directory.
pub fn directories(data: &DataDirectories, table: &Table, tag: &str) -> Vec<PathBuf> {
    directories_of(data, table).into_iter().map(|directory| directory.join(DIRECTORY).join(tag)).collect()
}

/// Gives all files of the SSTables that this shard serves of a table, and of its indexes, a second name in its snapshot
/// `tag`, durably; the names of the Data.db files.
///
/// # Errors
/// The disk's; what was linked stays.
pub(crate) async fn link_table(
    tables: &Tables,
    files: &SstableFiles,
    table: TableId,
    tag: &str,
) -> Result<Vec<String>, Error> {
    let targets = directories(&files.data, &*tables.description(table)?, tag);
    create_dir_all(&targets[0]).await.map_err(Error::Io)?;
    let mut names = link_sstables(tables, files, table, &targets).await?;
    for index in tables.indexes_of(table).iter() {
        let own = directory_name(&index.index.name);
        let targets: Vec<PathBuf> = targets.iter().map(|target| target.join(&own)).collect();
        let linked = match link_sstables(tables, files, index.id(), &targets).await {
            // Dropped meanwhile.
            Err(Error::UnknownTable(_)) => continue,
            // The same, and its directory was cleared. What was linked is of no use, nor in anybody's way.
            Err(Error::Io(error)) if is_nothing(&error) && !is_current(tables, table, index) => continue,
            linked => linked?,
        };
        names.extend(linked.into_iter().map(|name| format!("{own}/{name}")));
    }
    Ok(names)
}

/// Whether the table still has this index, and not one of the same name that was made later.
fn is_current(tables: &Tables, table: TableId, index: &Rc<IndexState>) -> bool {
    tables.indexes_of(table).iter().any(|now| Rc::ptr_eq(now, index))
}

/// Links the SSTables of one table, or index, into the directory among `targets` that is in their data directory, and
/// is made if there are any.
async fn link_sstables(
    tables: &Tables,
    files: &SstableFiles,
    table: TableId,
    targets: &[PathBuf],
) -> Result<Vec<String>, Error> {
    let (memtable, view) = tables.readable(table)?;
    let mut names = Vec::new();
    let sources = files.directories_of(&memtable.table());
    for (source, target) in sources.iter().zip(targets) {
        let within = view.sstables.iter().filter(|sstable| sstable.directory == *source);
        let unopened = view.unopened.iter().filter(|sstable| sstable.directory == *source);
        let unopened = unopened.map(|sstable| &sstable.name);
        let named: HashSet<&Descriptor> = within.map(|sstable| sstable.reader.descriptor()).chain(unopened).collect();
        if named.is_empty() {
            continue;
        }
        create_dir_all(target).await.map_err(Error::Io)?;
        link_named(source, target, &named).await?;
        names.extend(named.into_iter().map(|descriptor| descriptor.file_name(Component::Data)));
    }
    Ok(names)
}

/// Links all files of some SSTables from one directory into another, durably.
pub(crate) async fn link_named(source: &Path, target: &Path, named: &HashSet<&Descriptor>) -> Result<(), Error> {
    for path in list_dir(source).await.map_err(Error::Io)? {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if Descriptor::parse(name).is_some_and(|(descriptor, _)| named.contains(&descriptor)) {
            match link(&path, &target.join(name)).await {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                linked => linked.map_err(Error::Io)?,
            }
        }
    }
    sync_dir(target).await.map_err(Error::Io)
}

/// Ends a snapshot whose files are linked: writes how the table is made again, if that is told, and the manifest.
/// `directory` is the first of its directories.
pub async fn write(directory: &Path, manifest: &Manifest, schema: Option<&str>) -> Result<(), Error> {
    create_dir_all(directory).await.map_err(Error::Io)?;
    if let Some(schema) = schema {
        replace_small(&directory.join(SCHEMA), schema.as_bytes()).await.map_err(Error::Io)?;
    }
    replace_small(&directory.join(MANIFEST), json(manifest).as_bytes()).await.map_err(Error::Io)
}

/// Writes what describes the cluster. To be called before [`write()`], with the same directory.
pub async fn write_cluster(directory: &Path, json: &str) -> Result<(), Error> {
    create_dir_all(directory).await.map_err(Error::Io)?;
    replace_small(&directory.join(CLUSTER), json.as_bytes()).await.map_err(Error::Io)
}

/// What describes the cluster, in the directory where the snapshot's manifest lies; `None` if it is a snapshot of one
/// node, or the directory another one.
pub async fn read_cluster(directory: &Path) -> Result<Option<Vec<u8>>, Error> {
    read_bounded(&directory.join(CLUSTER)).await
}

/// How the table is made again, as [`write()`] was told; `None` if the directory has nothing about it.
pub async fn read_schema(directory: &Path) -> Result<Option<Vec<u8>>, Error> {
    read_bounded(&directory.join(SCHEMA)).await
}

/// Whether the directory has the manifest of a snapshot.
pub async fn has_manifest(directory: &Path) -> Result<bool, Error> {
    Ok(read_bounded(&directory.join(MANIFEST)).await?.is_some())
}

async fn read_bounded(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match read_small(path, MANIFEST_BYTES_MAX).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_nothing(&error) => Ok(None),
        Err(error) => Err(Error::Io(error)),
    }
}

/// Whether there is a snapshot, whole or not.
pub async fn exists(directories: &[PathBuf]) -> Result<bool, Error> {
    for directory in directories {
        match list_dir(directory).await {
            Ok(_) => return Ok(true),
            Err(error) if is_nothing(&error) => {}
            Err(error) => return Err(Error::Io(error)),
        }
    }
    Ok(false)
}

/// The snapshots of all tables of a node, by tag, keyspace and table. What goes meanwhile may be left out.
pub async fn list(data: &DataDirectories) -> Result<Vec<Snapshot>, Error> {
    list_within(data.all().iter().map(|data| data.join("data")).collect()).await
}

/// The same of what lies in copies of data directories: of this program's, which have a directory `data`, or of
/// Cassandra's, which have those of keyspaces.
pub async fn list_copied(directories: &[PathBuf]) -> Result<Vec<Snapshot>, Error> {
    let mut roots = Vec::new();
    for directory in directories {
        let within = directory.join("data");
        roots.push(if entries(&within).await?.is_empty() { directory.clone() } else { within });
    }
    list_within(roots).await
}

/// The snapshots in directories that hold those of keyspaces.
async fn list_within(roots: Vec<PathBuf>) -> Result<Vec<Snapshot>, Error> {
    // By tag, keyspace and name of the table's directory.
    let mut found: BTreeMap<(String, String, String), Snapshot> = BTreeMap::new();
    for root in roots {
        for keyspace in entries(&root).await? {
            for table in entries(&keyspace).await? {
                let Some((name, _)) = name_of(&table).rsplit_once('-') else { continue };
                let tags = entries(&table.join(DIRECTORY)).await?;
                if tags.is_empty() {
                    continue;
                }
                let mut live: HashSet<PathBuf> = entries(&table).await?.into_iter().collect();
                let indexes: Vec<PathBuf> = live.iter().filter(|path| is_index(path)).cloned().collect();
                for index in indexes {
                    live.extend(entries(&index).await?);
                }
                for directory in tags {
                    let (tag, keyspace) = (name_of(&directory).to_owned(), name_of(&keyspace).to_owned());
                    let key = (tag.clone(), keyspace.clone(), name_of(&table).to_owned());
                    let snapshot = found.entry(key).or_insert_with(|| Snapshot {
                        tag,
                        keyspace,
                        table: name.to_owned(),
                        directories: Vec::new(),
                        manifest: Manifest::default(),
                        disk_bytes: 0,
                        true_bytes: 0,
                        sstable_bytes: 0,
                    });
                    if let Some(manifest) = read_manifest(&directory).await? {
                        snapshot.manifest = manifest;
                    }
                    measure(snapshot, &directory, &table, &live).await?;
                    snapshot.directories.push(directory);
                }
            }
        }
    }
    let mut found: Vec<Snapshot> = found.into_values().collect();
    found.sort_by(|a, b| (&a.tag, &a.keyspace, &a.table).cmp(&(&b.tag, &b.keyspace, &b.table)));
    Ok(found)
}

/// Removes a snapshot from its directories, durably. One that is gone is no error.
pub async fn remove(directories: &[PathBuf]) -> Result<(), Error> {
    for directory in directories {
        match remove_all(directory).await {
            Err(error) if is_nothing(&error) => {}
            removed => removed.map_err(Error::Io)?,
        }
    }
    Ok(())
}

async fn remove_all(directory: &Path) -> io::Result<()> {
    let mut paths = list_dir(directory).await?;
    // Whoever finds the rest after a crash does not take it for whole.
    paths.sort_by_key(|path| name_of(path) != MANIFEST);
    for (at, path) in paths.iter().enumerate() {
        if is_index(path) {
            for path in list_dir(path).await? {
                runtime::file::remove(&path).await?;
            }
            remove_dir(path).await?;
        } else {
            runtime::file::remove(path).await?;
        }
        if at == 0 {
            sync_dir(directory).await?;
        }
    }
    sync_dir(directory).await?;
    remove_dir(directory).await?;
    match directory.parent() {
        Some(parent) => sync_dir(parent).await,
        None => Ok(()),
    }
}

/// Whether an entry of a snapshot is the directory that Cassandra keeps an index of the table in.
fn is_index(path: &Path) -> bool {
    name_of(path).starts_with('.')
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// There is no such directory.
fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Counts the bytes of a snapshot's files in `directory`; `live` are the files of the table's directory `table`.
async fn measure(
    snapshot: &mut Snapshot,
    directory: &Path,
    table: &Path,
    live: &HashSet<PathBuf>,
) -> Result<(), Error> {
    let mut paths = Vec::new();
    for path in entries(directory).await? {
        match is_index(&path) {
            true => paths.extend(entries(&path).await?),
            false => paths.push(path),
        }
    }
    for path in paths {
        let bytes = match bytes_of(&path).await {
            Err(error) if is_nothing(&error) => continue,
            bytes => bytes.map_err(Error::Io)?,
        };
        snapshot.disk_bytes += bytes;
        let Ok(within) = path.strip_prefix(directory) else { continue };
        if !live.contains(&table.join(within)) {
            snapshot.true_bytes += bytes;
            snapshot.sstable_bytes += if Descriptor::parse(name_of(&path)).is_some() { bytes } else { 0 };
        }
    }
    Ok(())
}

async fn bytes_of(path: &Path) -> io::Result<u64> {
    runtime::File::open(path, OpenOptions::default()).await?.len().await
}

/// What the manifest in a directory of a snapshot says; `None` if it says nothing.
async fn read_manifest(directory: &Path) -> Result<Option<Manifest>, Error> {
    let bytes = match read_small(&directory.join(MANIFEST), MANIFEST_BYTES_MAX).await {
        Err(error) if is_nothing(&error) || error.kind() == io::ErrorKind::InvalidData => return Ok(None),
        read => read.map_err(Error::Io)?,
    };
    let text = String::from_utf8(bytes).unwrap_or_default();
    let moment = |name| field(&text, name).and_then(instant::parse);
    Ok(Some(Manifest {
        files: BTreeSet::new(),
        created_at: moment("created_at"),
        expires_at: moment("expires_at"),
        ephemeral: field(&text, "ephemeral") == Some("true"),
    }))
}

/// The value of a name in a JSON object, as it stands there without quotes.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("\"{name}\""))?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => value.split([',', '}']).next().map(str::trim),
    }
}

/// As Cassandra writes it.
fn json(manifest: &Manifest) -> String {
    let moment =
        |millis: Option<i64>| millis.map_or("null".into(), |millis| format!("\"{}\"", instant::format(millis)));
    let mut out = String::from("{\n  \"files\" : [ ");
    for (at, file) in manifest.files.iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        write!(out, "{comma}\"{file}\"").expect("a string grows");
    }
    out.push_str(if manifest.files.is_empty() { "]" } else { " ]" });
    let (created_at, expires_at) = (moment(manifest.created_at), moment(manifest.expires_at));
    let rest = format!("\"created_at\" : {created_at},\n  \"expires_at\" : {expires_at}");
    out + &format!(",\n  {rest},\n  \"ephemeral\" : {}\n}}", manifest.ephemeral)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Cassandra 5.0.9 wrote.
    const CASSANDRAS: &str = "{\n  \"files\" : [ \"oa-3-big-Data.db\" ],\n  \"created_at\" : \"2026-11-21T12:52:07.402Z\",\n  \
                              \"expires_at\" : \"2026-11-21T16:52:07.402Z\",\n  \"ephemeral\" : false\n}";

    #[test]
    fn a_manifest_is_cassandras() {
        let created_at = 1_795_265_527_402;
        let mut manifest = Manifest {
            files: BTreeSet::from(["oa-3-big-Data.db".to_owned()]),
            created_at: Some(created_at),
            expires_at: Some(created_at + 4 * 3600 * 1000),
            ephemeral: false,
        };
        assert_eq!(json(&manifest), CASSANDRAS);
        assert_eq!(field(CASSANDRAS, "created_at").and_then(instant::parse), Some(created_at));
        assert_eq!(field(CASSANDRAS, "ephemeral"), Some("false"));
        manifest.files.clear();
        manifest.expires_at = None;
        let text = json(&manifest);
        assert!(text.starts_with("{\n  \"files\" : [ ],\n") && text.contains("\"expires_at\" : null,"), "{text}");
        assert_eq!(field(&text, "expires_at"), Some("null"));
        assert_eq!(field("", "expires_at"), None);
        assert_eq!(field("\"expires_at\"", "expires_at"), None);
    }

    #[test]
    fn tags_are_names_of_directories() {
        let longest = "x".repeat(TAG_BYTES_MAX);
        assert!(is_tag("a b") && is_tag("1795265531094") && is_tag(&longest));
        for bad in ["", ".", "..", "a/b", "a\0", &format!("{longest}x")] {
            assert!(!is_tag(bad), "{bad}");
        }
    }
}
