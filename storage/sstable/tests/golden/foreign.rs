//! Foreign SSTables: whatever the bytes of its components are, opening and reading an SSTable ends with rows or an
//! error.
//!
//! 1. An input chooses one of Cassandra's SSTables and a list of changes to its components ([`Specimen::changed`]). It
//!    may ask for uncompressed data, and for checksums that match the changed bytes, so that changes reach the code
//!    behind them.
//! 2. The SSTable is opened without Helenus.db. All of it is read by scans, by key, by slices forward and in reverse,
//!    and by the walk of the tools; what a scan gives is written again ([`Changed::read`]).
//!
//! Invariants: nothing panics; no cursor takes more than [`STEPS_MAX`] steps. The caller measures memory against
//! [`MEMORY_BYTES_MAX`].
//!
//! The fuzz target `foreign` includes this file; `tests/foreign.rs` runs it on random inputs.

use super::{unpack, versions};
use bytes::Bytes;
use model::Partitioner;
use model::fragment::Fragment;
use model::query::Slice;
use model::token::{RingPosition, TokenRange};
use model::{DecoratedKey, Table};
use sstable::compression::CompressionParams;
use sstable::reader::{ComponentBytes, Cursor, CursorStep, Reader};
use sstable::statistics::{EncodingStats, Metadata};
use sstable::walker::{WalkStep, Walker};
use sstable::writer::{Builder, Options};
use sstable::{BlockId, Component, Descriptor, Error, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of an SSTable that is small enough to be changed and read thousands of times.
const SPECIMEN_BYTES_MAX: usize = 48 << 10;
/// Most steps of a cursor over an SSTable of that size.
const STEPS_MAX: usize = 1 << 20;
/// Most memory that reading an SSTable of that size may take, in bytes.
pub(crate) const MEMORY_BYTES_MAX: usize = 512 << 20;
/// Most changes that one input makes.
const CHANGES_MAX: usize = 24;
/// The longest run of bytes that one change inserts or copies.
const RUN_BYTES_MAX: usize = 64;

type Files = BTreeMap<Component, Vec<u8>>;

/// One of Cassandra's SSTables.
pub(crate) struct Specimen {
    pub(crate) descriptor: Descriptor,
    table: Arc<Table>,
    files: Files,
    /// The uncompressed data, unless Data.db is that.
    plain: Option<Vec<u8>>,
    /// Keys to read by: the first, the last and one between, and one that is not there.
    keys: Vec<DecoratedKey>,
    /// Comparable forms of rows to slice by, ascending.
    positions: Vec<Vec<u8>>,
}

/// A specimen with changed components.
pub(crate) struct Changed<'s> {
    specimen: &'s Specimen,
    files: Files,
}

/// The bytes of an input that are left. After its end it reads as zeros.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> usize {
        (0..4).fold(0, |number, _| number << 8 | usize::from(self.byte()))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.number() % limit.max(1)
    }
}

/// Loads the SSTables of a version that are small enough.
pub(crate) fn specimens(version: Version) -> Vec<Specimen> {
    let mut found = Vec::new();
    for files in versions::tables(version.name()).values() {
        for (descriptor, files) in by_descriptor(files) {
            if files.values().map(Vec::len).sum::<usize>() <= SPECIMEN_BYTES_MAX {
                found.extend(Specimen::new(descriptor, files));
            }
        }
    }
    found
}

fn by_descriptor(files: &unpack::Files) -> BTreeMap<Descriptor, Files> {
    let mut found: BTreeMap<Descriptor, Files> = BTreeMap::new();
    for (name, bytes) in files {
        if let Some((descriptor, Some(component))) = Descriptor::parse(name) {
            found.entry(descriptor).or_default().insert(component, bytes.clone());
        }
    }
    found
}

impl Specimen {
    /// Returns `None` for an SSTable with types that its file alone does not tell.
    fn new(descriptor: Descriptor, files: Files) -> Option<Specimen> {
        let metadata = Metadata::open(&descriptor, files.get(&Component::Statistics)?).expect("opens");
        let table = Arc::new(metadata.header.table()?);
        let mut specimen = Specimen { descriptor, table, files, plain: None, keys: Vec::new(), positions: Vec::new() };
        let whole = Changed { specimen: &specimen, files: specimen.files.clone() };
        let reader = whole.open().expect("opens");
        let (mut plain, mut keys, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        while (plain.len() as u64) < reader.data_len() {
            let block = BlockId { component: Component::Data, offset: plain.len() as u64 };
            plain.extend_from_slice(&whole.block(&reader, block).expect("reads"));
        }
        let visit = |fragment: &Fragment<'_>| match fragment {
            Fragment::PartitionStart { key, .. } => keys.push(DecoratedKey::new(Partitioner::Murmur3, key)),
            Fragment::Row { comparable, .. } => positions.push(comparable.to_vec()),
            _ => {}
        };
        let scanned = whole.drain(reader.scan(TokenRange::FULL), visit);
        if scanned.is_err() && !specimen.descriptor.version.features().frozen_user_types {
            return None;
        }
        scanned.expect("reads");
        let middle = keys.len() / 2;
        let mut chosen: Vec<DecoratedKey> = [0, middle, keys.len() - 1].map(|at| keys[at].clone()).to_vec();
        chosen.push(DecoratedKey::new(Partitioner::Murmur3, b"absent"));
        positions.sort_unstable();
        positions.dedup();
        let step = positions.len().div_ceil(4).max(1);
        specimen.plain = reader.compression().is_some().then_some(plain);
        specimen.keys = chosen;
        specimen.positions = positions.into_iter().step_by(step).collect();
        Some(specimen)
    }

    /// Returns the SSTable with the changes that an input asks for.
    pub(crate) fn changed(&self, input: &[u8]) -> Changed<'_> {
        let mut choices = Choices(input);
        let mut files = self.files.clone();
        let flags = choices.byte();
        if let (Some(plain), true) = (&self.plain, flags & 1 != 0) {
            files.insert(Component::Data, plain.clone());
            files.remove(&Component::CompressionInfo);
        }
        if flags & 2 != 0 {
            files.remove(&Component::Crc);
        }
        if flags & 4 != 0 {
            files.remove(&Component::Summary);
        }
        // Components that readers do not open are not changed.
        files.retain(|component, _| !matches!(component, Component::Digest | Component::Toc));
        for _ in 0..CHANGES_MAX {
            if choices.0.is_empty() {
                break;
            }
            change(&mut files, &mut choices);
        }
        let mut changed = Changed { specimen: self, files };
        if flags & 8 == 0 {
            changed.mend_checksums();
        }
        changed
    }
}

/// Makes one change to one component.
fn change(files: &mut Files, choices: &mut Choices<'_>) {
    let operation = choices.byte();
    // Half of the changes are to the data.
    let others: Vec<Component> = files.keys().copied().filter(|component| *component != Component::Data).collect();
    let component = match choices.byte() {
        choice if choice & 1 == 1 => others[usize::from(choice >> 1) % others.len()],
        _ => Component::Data,
    };
    let source = files[&component].clone();
    let Some(bytes) = files.get_mut(&component) else { return };
    let at = choices.below(bytes.len() + 1);
    let len = choices.below(RUN_BYTES_MAX).min(bytes.len() - at);
    match operation % 8 {
        0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << choices.below(8)),
        1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = choices.byte()),
        2 => bytes.iter_mut().skip(at).take(len).for_each(|byte| *byte = choices.byte()),
        3 => {
            let number = [0, 1, 0x7f, 0xff, u64::from(u32::MAX), i64::MAX as u64, u64::MAX, choices.number() as u64];
            let number = number[choices.below(number.len())].to_be_bytes();
            let width = [1, 2, 4, 8][choices.below(4)];
            bytes.iter_mut().skip(at).zip(&number[8 - width..]).for_each(|(byte, new)| *byte = *new);
        }
        4 => bytes.truncate(at),
        5 => drop(bytes.drain(at..at + len)),
        6 => drop(bytes.splice(at..at, (0..len).map(|_| choices.byte()).collect::<Vec<u8>>())),
        _ => {
            let from = choices.below(source.len() + 1);
            let run = source.iter().skip(from).take(RUN_BYTES_MAX);
            bytes.iter_mut().skip(at).zip(run).for_each(|(byte, new)| *byte = *new);
        }
    }
}

impl Changed<'_> {
    fn file(&self, component: Component) -> Option<&[u8]> {
        self.files.get(&component).map(|bytes| &bytes[..])
    }

    fn open(&self) -> Result<Arc<Reader>, Error> {
        let bti = self.specimen.descriptor.version == Version::Da;
        let len = |component| self.file(component).map_or(0, <[u8]>::len) as u64;
        let components = ComponentBytes {
            data_len: len(Component::Data),
            statistics: self.file(Component::Statistics).unwrap_or_default(),
            compression_info: self.file(Component::CompressionInfo),
            crc: self.file(Component::Crc),
            filter: self.file(Component::Filter),
            index_len: len(if bti { Component::Partitions } else { Component::Index }),
            rows_len: len(Component::Rows),
            partitions_tail: self.file(Component::Partitions).unwrap_or_default(),
            summary: self.file(Component::Summary),
        };
        Reader::open(self.specimen.descriptor.clone(), self.specimen.table.clone(), components).map(Arc::new)
    }

    /// Makes the checksums of Statistics.db, and of the chunks of Data.db, match the bytes where those are well-formed.
    fn mend_checksums(&mut self) {
        let has_checksums = self.specimen.descriptor.version.features().statistics_checksums;
        if let Some(bytes) = self.files.get_mut(&Component::Statistics).filter(|_| has_checksums) {
            mend_statistics(bytes);
        }
        let Ok(reader) = self.open() else { return };
        let Some(data) = self.files.get_mut(&Component::Data) else { return };
        if let Some(info) = reader.compression() {
            let offsets = info.offsets.iter().map(|offset| *offset as usize).chain([data.len()]);
            let offsets: Vec<usize> = offsets.collect();
            for pair in offsets.windows(2) {
                seal(data, pair[0], pair[1]);
            }
        } else {
            let chunks = data.chunks(reader.block_len(Component::Data) as usize);
            let sums: Vec<u8> = chunks.flat_map(|chunk| crc32fast::hash(chunk).to_be_bytes()).collect();
            if let Some(bytes) = self.files.get_mut(&Component::Crc) {
                bytes.truncate(4);
                bytes.extend(sums);
            }
        }
    }

    fn block(&self, reader: &Reader, block: BlockId) -> Result<Bytes, Error> {
        reader.decode_block(block, Bytes::copy_from_slice(self.raw(reader, block)?))
    }

    fn raw(&self, reader: &Reader, block: BlockId) -> Result<&[u8], Error> {
        let (offset, len) = reader.block_range(block)?;
        let file = self.file(block.component).unwrap_or_default();
        Ok(&file[offset as usize..(offset + len) as usize])
    }

    /// Visits all fragments of a cursor, with every block that it needs.
    fn drain(&self, mut cursor: Cursor, mut visit: impl FnMut(&Fragment<'_>)) -> Result<(), Error> {
        let reader = cursor.reader().clone();
        for step in 0..STEPS_MAX {
            match cursor.advance()? {
                CursorStep::End => return Ok(()),
                CursorStep::Fragment => visit(&cursor.fragment().expect("a fragment")),
                // Compactions bring blocks of Data.db in another way than reads.
                CursorStep::Need(block) if block.component == Component::Data && step % 2 == 0 => {
                    cursor.supply_raw(block, self.raw(&reader, block)?)?;
                }
                CursorStep::Need(block) => cursor.supply(block, self.block(&reader, block)?),
            }
        }
        panic!("more than {STEPS_MAX} steps");
    }

    /// Reads everything in every way. Returns the number of rows and markers that a scan gives.
    pub(crate) fn read(&self) -> Result<usize, Error> {
        let reader = self.open()?;
        let metadata = reader.metadata();
        metadata.write(self.specimen.descriptor.version);
        metadata.header.table();
        metadata.statistics.droppable_ratio(1_700_000_000);
        reader.clustering_slice();
        let mut count = 0;
        let scanned = self.drain(reader.scan(TokenRange::FULL), |fragment| {
            count += usize::from(matches!(fragment, Fragment::Row { .. } | Fragment::RangeMarker { .. }));
        });
        let written = self.write_again(&reader);
        // A read by key may meet damage that a scan does not, and the other way round.
        let slices = self.slices();
        for key in &self.specimen.keys {
            reader.may_contain(&key.key);
            for slices in &slices {
                for reversed in [false, true] {
                    let _: Result<(), Error> =
                        self.drain(reader.partition(key.clone(), slices.clone(), reversed), |_| {});
                }
            }
            let range = TokenRange { start: Some(before(key)), end: None };
            let _: Result<(), Error> = self.drain(reader.scan(range), |_| {});
            let rest = reader.scan_from(TokenRange::FULL, Some(key.clone()), slices[0].clone());
            let _: Result<(), Error> = self.drain(rest, |_| {});
        }
        let _: Result<(), Error> = self.skip_partitions(&reader);
        let _: Result<(), Error> = self.walk(&reader);
        scanned.and(written).map(|()| count)
    }

    /// The whole partition, parts of it, and two parts at once.
    fn slices(&self) -> Vec<Arc<[Slice]>> {
        let slice = |start: &[u8], end: &[u8]| Slice { start: start.into(), end: end.into() };
        let mut found: Vec<Arc<[Slice]>> = vec![[Slice::all()].into()];
        if let [first, .., last] = &self.specimen.positions[..] {
            found.push([slice(first, last)].into());
            found.push([slice(last, &[])].into());
            found.push([slice(&[], first), slice(last, &[])].into());
        }
        found
    }

    /// Scans, and leaves every partition after its head.
    fn skip_partitions(&self, reader: &Arc<Reader>) -> Result<(), Error> {
        let mut cursor = reader.scan(TokenRange::FULL);
        for _ in 0..STEPS_MAX {
            match cursor.advance()? {
                CursorStep::End => return Ok(()),
                CursorStep::Fragment => cursor.skip_partition(),
                CursorStep::Need(block) => cursor.supply(block, self.block(reader, block)?),
            }
        }
        panic!("more than {STEPS_MAX} steps");
    }

    /// Writes the rows of a scan as another SSTable, as an import does.
    fn write_again(&self, reader: &Arc<Reader>) -> Result<(), Error> {
        let mut stats = EncodingStats::default();
        stats.add_header(&reader.metadata().header);
        let mut options = Options::of(&self.specimen.table, stats).expect("options");
        options.compression = Some(CompressionParams::fast());
        options.row_index_bytes = Some(64);
        let mut descriptor = self.specimen.descriptor.clone();
        if !descriptor.version.is_written() {
            descriptor.version = Version::Nb;
        }
        let mut builder = Builder::new(descriptor, self.specimen.table.clone(), options);
        self.drain(reader.scan(TokenRange::FULL), |fragment| builder.fragment(fragment))?;
        if builder.partitions() > 0 {
            builder.finish()?;
        }
        Ok(())
    }

    fn walk(&self, reader: &Arc<Reader>) -> Result<(), Error> {
        let mut walker = Walker::new(reader.clone());
        for _ in 0..STEPS_MAX {
            match walker.step()? {
                WalkStep::End => return Ok(()),
                WalkStep::Item(_) => {}
                WalkStep::Need(block) => walker.supply(block, self.block(reader, block)?),
            }
        }
        panic!("more than {STEPS_MAX} steps");
    }
}

/// Writes the checksum of the bytes from `start` into the last four before `end`.
fn seal(bytes: &mut [u8], start: usize, end: usize) {
    if let Some((body, crc)) = bytes.get_mut(start..end).and_then(|bytes| bytes.split_last_chunk_mut()) {
        *crc = crc32fast::hash(body).to_be_bytes();
    }
}

/// Mends the checksums of a Statistics.db: of the table of contents, then of each component.
fn mend_statistics(bytes: &mut [u8]) {
    const CONTENTS: std::ops::Range<usize> = 8..40;
    let Some(count) = bytes.first_chunk::<4>().copied() else { return };
    let Some(contents) = bytes.get(CONTENTS).map(<[u8]>::to_vec) else { return };
    seal(bytes, 0, 8);
    if let Some(crc) = bytes.get_mut(CONTENTS.end..CONTENTS.end + 4) {
        crc.copy_from_slice(&crc32fast::hash(&[&count[..], &contents].concat()).to_be_bytes());
    }
    let offset = |entry: &[u8]| entry.last_chunk().map_or(0, |offset| u32::from_be_bytes(*offset) as usize);
    let offsets: Vec<usize> = contents.chunks(8).map(offset).chain([bytes.len()]).collect();
    for pair in offsets.windows(2) {
        seal(bytes, pair[0], pair[1]);
    }
}

/// The position just before a key's token.
fn before(key: &DecoratedKey) -> RingPosition {
    RingPosition { token: key.partitioner.ring_token(&key.key), is_after: false }
}
