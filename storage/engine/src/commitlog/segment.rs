//! One segment file: its header, the frame of a group, and how a file becomes a segment. Byte map:
//! `docs/commitlog.md`.
//!
//! 1. A new file gets a temporary name, all of its disk space and its header; it is synced and then renamed to its
//!    id. A recycled file keeps its contents: it is renamed to the temporary name, gets a new header and is renamed
//!    to its new id.
//! 2. Checksums are seeded with the segment's nonce and id and the group's offset. So neither groups left by an
//!    earlier use of the file nor bytes that a client made up pass as groups of this segment.
//!
//! Invariants: a file named as a segment has a complete header of that id; these functions do not panic whatever the
//! bytes are.

use runtime::AlignedBuf;
use runtime::File;
use runtime::file::{OpenOptions, remove, rename, sync_dir};
use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The first bytes of every segment.
pub const MAGIC: [u8; 8] = *b"HELENUSC";
/// The version of segments whose column ids are those of [`ColumnIds::OfRun`]. Read only: earlier versions of the
/// program wrote it.
pub const VERSION_OF_RUN: u32 = 1;
/// The version of the format that is written.
pub const VERSION: u32 = 2;
/// Bytes of the header block.
pub const HEADER_BYTES: u32 = 4096;
/// Alignment of groups, bytes.
pub const BLOCK_BYTES: u32 = 4096;
/// The first bytes of every group: "GRUP", little-endian.
pub const GROUP_MAGIC: u32 = 0x5055_5247;
/// Bytes of a group's header.
pub const GROUP_HEADER_BYTES: usize = 20;
/// Length of the smallest segment, bytes.
pub const SEGMENT_BYTES_MIN: u32 = 16 << 10;
/// Length of the largest segment, bytes.
pub const SEGMENT_BYTES_MAX: u32 = 1 << 30;
/// Zeros are written to a new file in pieces of this many bytes.
const FILL_BYTES: usize = 256 << 10;

const VERSION_AT: usize = 8;
const LENGTH_AT: usize = 12;
const ID_AT: usize = 16;
const NONCE_AT: usize = 24;
const SHARDS_AT: usize = 32;
const RULE_AT: usize = 34;
const HEADER_CRC_AT: usize = 36;

/// What the column ids in a segment's mutations mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnIds {
    /// Columns as the run that wrote the segment numbered them; column lists in the segment say which is which.
    OfRun,
    /// The columns' ids for good, as the schema has them.
    OfSchema,
}

/// A segment's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// `counter << 16 | shard`.
    pub id: u64,
    /// A random number for each use of a file, which seeds the checksums.
    pub nonce: u64,
    /// Length of the segment in bytes.
    pub segment_bytes: u32,
    /// The node's map from tokens to shards when the segment was written.
    pub shard_map: model::ShardMap,
    /// What the column ids in its mutations mean.
    pub column_ids: ColumnIds,
}

impl Header {
    /// Writes the header to the start of a zeroed block.
    pub fn encode(&self, block: &mut [u8]) {
        block[..8].copy_from_slice(&MAGIC);
        let version = match self.column_ids {
            ColumnIds::OfRun => VERSION_OF_RUN,
            ColumnIds::OfSchema => VERSION,
        };
        block[VERSION_AT..LENGTH_AT].copy_from_slice(&version.to_le_bytes());
        block[LENGTH_AT..ID_AT].copy_from_slice(&self.segment_bytes.to_le_bytes());
        block[ID_AT..NONCE_AT].copy_from_slice(&self.id.to_le_bytes());
        block[NONCE_AT..SHARDS_AT].copy_from_slice(&self.nonce.to_le_bytes());
        block[SHARDS_AT..RULE_AT].copy_from_slice(&self.shard_map.shards.to_le_bytes());
        block[RULE_AT] = self.shard_map.rule();
        block[RULE_AT + 1] = 0;
        let crc = crc32fast::hash(&block[..HEADER_CRC_AT]);
        block[HEADER_CRC_AT..HEADER_CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Decodes the header of the segment `id`; the error names what is wrong.
    pub fn decode(block: &[u8], id: u64) -> Result<Header, &'static str> {
        let (fields, crc) = block.split_at_checked(HEADER_CRC_AT).ok_or("segment without a header")?;
        let crc = crc.first_chunk::<4>().ok_or("segment without a header")?;
        if fields[..8] != MAGIC {
            return Err("not a commit log segment");
        }
        if crc32fast::hash(fields) != u32::from_le_bytes(*crc) {
            return Err("segment header with a wrong checksum");
        }
        let number = |at: usize, len: usize| {
            fields[at..at + len].iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let column_ids = match number(VERSION_AT, 4) as u32 {
            VERSION_OF_RUN => ColumnIds::OfRun,
            VERSION => ColumnIds::OfSchema,
            _ => return Err("commit log segment of an unknown version"),
        };
        let shard_map = model::ShardMap::of_rule(number(SHARDS_AT, 2) as u16, number(RULE_AT, 1) as u8);
        let segment_bytes = number(LENGTH_AT, 4) as u32;
        let length_valid = (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes)
            && segment_bytes.is_multiple_of(BLOCK_BYTES);
        if shard_map.shards == 0 || !length_valid {
            return Err("segment header with impossible values");
        }
        if number(ID_AT, 8) != id {
            return Err("segment header of another segment");
        }
        Ok(Header { id, nonce: number(NONCE_AT, 8), segment_bytes, shard_map, column_ids })
    }

    fn seeded(&self, offset: u32) -> crc32fast::Hasher {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.nonce.to_le_bytes());
        hasher.update(&self.id.to_le_bytes());
        hasher.update(&offset.to_le_bytes());
        hasher
    }
}

/// The header of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupFrame {
    /// Bytes of the group's records.
    pub payload_bytes: u32,
    /// How many records the group has.
    pub records: u32,
    crc: u32,
}

impl GroupFrame {
    /// Fills in the header of a group that will stand at `offset`. `group` is room for the header followed by the
    /// payload.
    pub fn seal(header: &Header, offset: u32, records: u32, group: &mut [u8]) {
        let (frame, payload) = group.split_at_mut(GROUP_HEADER_BYTES);
        let mut hasher = header.seeded(offset);
        hasher.update(payload);
        frame[..4].copy_from_slice(&GROUP_MAGIC.to_le_bytes());
        frame[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        frame[8..12].copy_from_slice(&records.to_le_bytes());
        frame[12..16].copy_from_slice(&hasher.finalize().to_le_bytes());
        let mut hasher = header.seeded(offset);
        hasher.update(&frame[..16]);
        frame[16..20].copy_from_slice(&hasher.finalize().to_le_bytes());
    }

    /// Decodes the group header in `bytes`, read at `offset`; `None` if there is none or the group does not fit the
    /// segment.
    pub fn read(header: &Header, offset: u32, bytes: &[u8]) -> Option<GroupFrame> {
        let frame = bytes.first_chunk::<GROUP_HEADER_BYTES>()?;
        let number = |at: usize| u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        if number(0) != GROUP_MAGIC {
            return None;
        }
        let mut hasher = header.seeded(offset);
        hasher.update(&frame[..16]);
        let found = GroupFrame { payload_bytes: number(4), records: number(8), crc: number(12) };
        let room = header.segment_bytes.checked_sub(offset)? as usize;
        (hasher.finalize() == number(16) && found.bytes() <= room).then_some(found)
    }

    /// Whether `payload` has the length and the checksum that the header gives.
    pub fn matches(&self, header: &Header, offset: u32, payload: &[u8]) -> bool {
        let mut hasher = header.seeded(offset);
        hasher.update(payload);
        payload.len() == self.payload_bytes as usize && hasher.finalize() == self.crc
    }

    /// Bytes of header and payload together.
    pub fn bytes(&self) -> usize {
        GROUP_HEADER_BYTES + self.payload_bytes as usize
    }

    /// Where the group after this one begins, if this one stands at `offset`.
    pub fn next_offset(&self, offset: u32) -> u32 {
        offset.saturating_add(self.bytes().next_multiple_of(BLOCK_BYTES as usize) as u32)
    }
}

/// The shard that wrote a segment, from the segment's id.
pub fn shard_of(id: u64) -> u16 {
    id as u16
}

/// The counter of a segment, from the segment's id.
pub fn counter_of(id: u64) -> u64 {
    id >> 16
}

/// The id of the segment with this counter and shard.
pub fn id_of(counter: u64, shard: u16) -> u64 {
    counter << 16 | u64::from(shard)
}

/// The path of a segment: `<id in 16 hexadecimal digits>.log`.
pub fn path_of(directory: &Path, id: u64) -> PathBuf {
    directory.join(format!("{id:016x}.log"))
}

/// The path of a file that is not a segment yet: `<id>.log.tmp`.
pub fn temporary_path_of(directory: &Path, id: u64) -> PathBuf {
    directory.join(format!("{id:016x}.log.tmp"))
}

/// A segment that is ready for groups.
pub(crate) struct Segment {
    pub(crate) header: Header,
    pub(crate) file: Rc<File>,
    /// Blocks before this offset were written before. The first durable write of a block also makes the file system
    /// write its journal, which takes as long as the write itself.
    pub(crate) written: Cell<u32>,
}

/// Creates a segment in a new file. On an error the temporary file is removed, if the disk still allows that.
pub(crate) async fn create(directory: &Path, header: Header) -> io::Result<Segment> {
    let temporary = temporary_path_of(directory, header.id);
    let made = create_at(directory, &temporary, header).await;
    if made.is_err() {
        let _ = remove(&temporary).await;
    }
    made
}

async fn create_at(directory: &Path, temporary: &Path, header: Header) -> io::Result<Segment> {
    let file = File::open(temporary, OpenOptions { write: true, create: true, exclusive: false }).await?;
    let written = match file.allocate(u64::from(header.segment_bytes)).await {
        Ok(()) => HEADER_BYTES,
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            fill(&file, header.segment_bytes).await?;
            header.segment_bytes
        }
        Err(error) => return Err(error),
    };
    let mut block = AlignedBuf::zeroed(HEADER_BYTES as usize);
    header.encode(&mut block);
    file.write_at(block, 0).await.0?;
    file.sync().await?;
    rename(temporary, &path_of(directory, header.id)).await?;
    sync_dir(directory).await?;
    Ok(Segment { header, file: Rc::new(file), written: Cell::new(written) })
}

/// Writes zeros to a whole file, for file systems that cannot allocate space without writing.
async fn fill(file: &File, len: u32) -> io::Result<()> {
    let mut buffer = AlignedBuf::zeroed(FILL_BYTES.min(len as usize));
    let mut offset = 0;
    while offset < u64::from(len) {
        let piece = (u64::from(len) - offset).min(FILL_BYTES as u64);
        buffer.set_len(piece as usize);
        let (written, returned) = file.write_at(buffer, offset).await;
        written?;
        buffer = returned;
        offset += piece;
    }
    Ok(())
}

/// Turns the file of the segment `old`, whose records are no longer needed, into a new segment of the same length.
pub(crate) async fn recycle(directory: &Path, old: u64, header: Header) -> io::Result<Segment> {
    let temporary = temporary_path_of(directory, header.id);
    rename(&path_of(directory, old), &temporary).await?;
    // Makes the loss of the old name durable before the old header is overwritten.
    sync_dir(directory).await?;
    let file = File::open(&temporary, OpenOptions { write: true, create: false, exclusive: false }).await?;
    let mut block = AlignedBuf::zeroed(HEADER_BYTES as usize);
    header.encode(&mut block);
    let (written, _) = file.write_durable(block, 0).await;
    written?;
    rename(&temporary, &path_of(directory, header.id)).await?;
    sync_dir(directory).await?;
    Ok(Segment { header, file: Rc::new(file), written: Cell::new(header.segment_bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let (shard_map, column_ids) = (model::ShardMap::new(model::Partitioner::Murmur3, 4), ColumnIds::OfSchema);
        Header { id: id_of(7, 3), nonce: 99, segment_bytes: 64 << 10, shard_map, column_ids }
    }

    #[test]
    fn s1_every_bit_of_a_header_counts() {
        let mut block = vec![0; HEADER_BYTES as usize];
        header().encode(&mut block);
        assert_eq!(Header::decode(&block, header().id), Ok(header()));
        for bit in 0..(HEADER_CRC_AT + 4) * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&block, header().id).is_err(), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(Header::decode(&block, 1), Err("segment header of another segment"));
        for cut in 0..HEADER_CRC_AT + 4 {
            assert!(Header::decode(&block[..cut], header().id).is_err());
        }
        assert!(Header::decode(&[0; 4096], header().id).is_err());
    }

    #[test]
    fn segment_lengths_have_limits() {
        let decode = |segment_bytes| {
            let mut block = vec![0; HEADER_BYTES as usize];
            Header { segment_bytes, ..header() }.encode(&mut block);
            Header::decode(&block, header().id).is_ok()
        };
        assert!(decode(SEGMENT_BYTES_MIN) && decode(SEGMENT_BYTES_MAX));
        assert!(!decode(SEGMENT_BYTES_MIN - BLOCK_BYTES) && !decode(SEGMENT_BYTES_MAX + BLOCK_BYTES));
        assert!(!decode(SEGMENT_BYTES_MIN + 1));
    }

    #[test]
    fn s1_every_bit_of_a_group_counts_and_so_does_its_place() {
        let mut group = vec![0; GROUP_HEADER_BYTES];
        group.extend_from_slice(b"some records");
        GroupFrame::seal(&header(), 4096, 2, &mut group);
        let valid = |header: &Header, offset: u32, group: &[u8]| {
            GroupFrame::read(header, offset, group)
                .is_some_and(|frame| frame.matches(header, offset, &group[GROUP_HEADER_BYTES..]))
        };
        assert!(valid(&header(), 4096, &group));
        for bit in 0..group.len() * 8 {
            group[bit / 8] ^= 1 << (bit % 8);
            assert!(!valid(&header(), 4096, &group), "bit {bit}");
            group[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(!valid(&header(), 8192, &group));
        assert!(!valid(&Header { id: id_of(8, 3), ..header() }, 4096, &group));
        assert!(!valid(&Header { nonce: 98, ..header() }, 4096, &group));
    }

    #[test]
    fn a_group_must_fit_its_segment() {
        let header = header();
        let room = 4096 - GROUP_HEADER_BYTES;
        for (payload, fits) in [(room, true), (room + 1, false)] {
            let offset = header.segment_bytes - 4096;
            let mut group = vec![0; GROUP_HEADER_BYTES + payload];
            GroupFrame::seal(&header, offset, 1, &mut group);
            assert_eq!(GroupFrame::read(&header, offset, &group).is_some(), fits);
        }
    }
}
