//! Reading and writing the parts of bodies.

use model::query::{Position, Resume};
use model::{DecoratedKey, Partitioner};

/// Reads forward through a body. Every method gives `None` when too few bytes are left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(super) fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.chunk().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.chunk().map(i64::from_le_bytes)
    }

    /// A byte that is 0 or 1.
    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// The bytes after a u16 length.
    pub(super) fn short_bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u16()?;
        self.take(len.into())
    }

    /// The bytes after a u32 length.
    pub(super) fn long_bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    /// The text after a u32 length.
    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.long_bytes()?).ok()
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }

    /// A u32 count of things that have at least `bytes_min` bytes each, as many as are left for.
    pub(super) fn count(&mut self, bytes_min: usize) -> Option<usize> {
        let count = self.u32()? as usize;
        (count <= self.rest.len() / bytes_min).then_some(count)
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// A partition key, see [`push_key`].
    pub(super) fn key(&mut self, partitioner: Partitioner) -> Option<DecoratedKey> {
        Some(DecoratedKey::new(partitioner, self.short_bytes()?))
    }

    /// A position in a read, see [`push_resume`].
    pub(super) fn resume(&mut self, partitioner: Partitioner) -> Option<Option<Resume>> {
        if !self.flag()? {
            return Some(None);
        }
        let key = self.key(partitioner)?;
        let comparable = if self.flag()? { Some(self.long_bytes()?.into()) } else { None };
        Some(Some(Resume { position: Position { key, comparable }, partition_rows: self.u64()? }))
    }
}

/// Writes bytes after a u16 length. Longer ones do not occur: they are keys or names.
pub(super) fn push_short(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).expect("keys and names have at most 65535 bytes");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Writes bytes after a u32 length. Longer ones do not occur: bodies are much shorter than that.
pub(super) fn push_long(out: &mut Vec<u8>, bytes: &[u8]) {
    push_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Writes a count as a u32.
pub(super) fn push_count(out: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).expect("bodies are shorter than 4 GiB");
    out.extend_from_slice(&count.to_le_bytes());
}

/// Writes a position in a read, if there is one:
/// ```text
/// flag u8 [key length u16, key, flag u8 [comparable length u32, comparable], rows of the partition u64]
/// ```
pub(super) fn push_resume(out: &mut Vec<u8>, resume: Option<&Resume>) {
    out.push(resume.is_some().into());
    let Some(Resume { position, partition_rows }) = resume else { return };
    push_short(out, &position.key.key);
    out.push(position.comparable.is_some().into());
    if let Some(comparable) = &position.comparable {
        push_long(out, comparable);
    }
    out.extend_from_slice(&partition_rows.to_le_bytes());
}
