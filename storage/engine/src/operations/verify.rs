//! Checks whole SSTables, as Cassandra's verify does.
//!
//! 1. The SSTable is opened anew: statistics, filter, chunk offsets and summary are read and checked.
//! 2. Unless the check is to be quick, the checksum of Data.db is computed again, and that of every page of our own
//!    files.
//! 3. An extended check reads every row; partitions must be in order, each once.
//!
//! Invariants: nothing is changed, and nothing is kept in the cache; the SSTable goes on being served.

use crate::error::Error;
use crate::faults::Faults;
use crate::sstables::directory::components;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::sstable_scan::SstableScan;
use crate::tables::Tables;
use model::fragment::{Cursor, Fragment, FragmentStep};
use model::{DecoratedKey, Table, TableId};
use runtime::file::{OpenOptions, read_small};
use runtime::{AlignedBuf, File, HashSet};
use sstable::{BlockId, Component, Descriptor, Problem};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;
/// Longest Digest.crc32, in bytes.
const DIGEST_BYTES_MAX: usize = 64;
/// Fragments read between two calls of `yield_if_needed`.
const FRAGMENTS_PER_YIELD: usize = 128;

/// How much of an SSTable is looked at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Depth {
    /// What opening it reads.
    Quick,
    /// All bytes that have a checksum.
    Checksums,
    /// Every row.
    Extended,
}

/// What a check looks at and does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Check {
    /// How much of each SSTable.
    pub depth: Depth,
    /// Whether an old version is a fault.
    pub latest: bool,
    /// Whether a fault is one of the disk, for which `disk_failure_policy` decides.
    pub invokes_policy: bool,
}

/// What is wrong with an SSTable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invalid {
    /// Its Data.db.
    pub file: std::path::PathBuf,
    /// What was found.
    pub text: String,
}

/// Checks the SSTables that this shard serves of a table, foreign ones on shard 0; the first that is not good.
///
/// # Errors
/// The disk's.
pub(crate) async fn verify(
    tables: &Tables,
    faults: &Faults,
    table: TableId,
    asked: Check,
) -> Result<Option<Invalid>, Error> {
    let (memtable, view) = tables.readable(table)?;
    let description = memtable.table().clone();
    if let Some(sstable) = view.unopened.iter().find(|sstable| !sstable.foreign || tables.shard == 0) {
        let error = sstable.error();
        if asked.invokes_policy {
            faults.note(&error);
        }
        return Ok(Some(Invalid { file: sstable.file(), text: error.to_string() }));
    }
    for sstable in view.sstables.iter().filter(|sstable| !sstable.foreign || tables.shard == 0) {
        let descriptor = sstable.reader.descriptor();
        let file = sstable.directory.join(descriptor.file_name(Component::Data));
        if asked.latest && !descriptor.version.is_cassandra_5() {
            let text = format!("{} is not the latest version, run upgradesstables", file.display());
            return Ok(Some(Invalid { file, text }));
        }
        let components = components(&sstable.directory, descriptor).await?;
        match check(&sstable.directory, descriptor, &components, &description, asked.depth).await {
            Err(error @ Error::BadSstable { .. }) => {
                sstable.suspect.set(true);
                if asked.invokes_policy {
                    faults.note(&error);
                }
                return Ok(Some(Invalid { file, text: error.to_string() }));
            }
            checked => checked?,
        }
    }
    Ok(None)
}

/// Checks an SSTable in any directory as one of `table`.
///
/// # Errors
/// [`Error::BadSstable`] if it is not good; a file that is missing and the disk's.
pub(crate) async fn check(
    directory: &Path,
    descriptor: &Descriptor,
    components: &HashSet<Component>,
    table: &Arc<Table>,
    depth: Depth,
) -> Result<(), Error> {
    let sstable = Rc::new(OpenSstable::open(directory, descriptor, components, table.clone(), 0, false).await?);
    if depth >= Depth::Checksums {
        checksums(&sstable, components).await?;
    }
    if depth >= Depth::Extended {
        rows(&sstable).await?;
    }
    Ok(())
}

async fn checksums(sstable: &OpenSstable, components: &HashSet<Component>) -> Result<(), Error> {
    let descriptor = sstable.reader.descriptor();
    let listed = sstable.sidecar().map(|sidecar| &sidecar.components);
    let listed = listed.into_iter().flatten().map(|pages| pages.component);
    let files: HashSet<Component> = listed.chain([Component::Data]).collect();
    for component in files {
        let path = sstable.directory.join(descriptor.file_name(component));
        let file = File::open(&path, OpenOptions::default()).await.map_err(Error::Io)?;
        let len = file.len().await.map_err(Error::Io)?;
        if sstable.sidecar().is_some_and(|sidecar| sidecar.len(component).is_some_and(|was| was != len)) {
            return Err(invalid(sstable, component, len, "as long as it was written"));
        }
        let mut crc = crc32fast::Hasher::new();
        let mut offset = 0;
        while offset < len {
            let wanted = READ_BYTES.min((len - offset) as usize);
            let (read, mut buffer) = file.read_at(AlignedBuf::zeroed(wanted), offset).await;
            let read = read.map_err(Error::Io)?.min(wanted);
            if read == 0 {
                return Err(Error::Io(std::io::ErrorKind::UnexpectedEof.into()));
            }
            buffer.set_len(read);
            crc.update(&buffer);
            if let Some(sidecar) = sstable.sidecar()
                && sidecar.len(component).is_some()
            {
                let place = BlockId { component, offset };
                sidecar.check(descriptor, place, &buffer).map_err(|error| sstable.bad(error))?;
            }
            offset += read as u64;
        }
        if component == Component::Data && components.contains(&Component::Digest) {
            let path = sstable.directory.join(descriptor.file_name(Component::Digest));
            let digest = read_small(&path, DIGEST_BYTES_MAX).await.map_err(Error::Io)?;
            let digest = std::str::from_utf8(&digest).ok().and_then(|text| text.trim().parse::<u32>().ok());
            if digest != Some(crc.finalize()) {
                let what = "the bytes that its Digest.crc32 was made of";
                return Err(invalid(sstable, Component::Data, 0, what));
            }
        }
    }
    Ok(())
}

fn invalid(sstable: &OpenSstable, component: Component, offset: u64, what: &'static str) -> Error {
    let problem = Problem::Invalid(what);
    sstable.bad(sstable::Error::new(sstable.reader.descriptor(), component, offset, problem))
}

async fn rows(sstable: &Rc<OpenSstable>) -> Result<(), Error> {
    let mut input = SstableScan::new(sstable.clone());
    let partitioner = sstable.reader.partitioner();
    let mut last: Option<DecoratedKey> = None;
    let mut fragments = 0;
    loop {
        match input.advance().map_err(|error| sstable.bad(error))? {
            FragmentStep::End => return Ok(()),
            FragmentStep::Need(need) => {
                input.bring(need).await?;
                continue;
            }
            FragmentStep::Fragment => {}
        }
        if let Some(Fragment::PartitionStart { token, key, .. }) = input.fragment() {
            let key = DecoratedKey { token, partitioner, key: key.into() };
            if last.as_ref().is_some_and(|last| *last >= key) {
                let what = "a partition behind the one before";
                return Err(invalid(sstable, Component::Data, 0, what));
            }
            last = Some(key);
        }
        fragments += 1;
        if fragments % FRAGMENTS_PER_YIELD == 0 {
            runtime::yield_if_needed().await;
        }
    }
}
