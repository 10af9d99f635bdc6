//! Memory for the bytes of one memtable: keys, clusterings and row blobs in large chunks that are freed together.
//!
//! 1. Chunks grow from [`CHUNK_BYTES_MIN`] to [`CHUNK_BYTES_MAX`], so that a small table stays small. Anything longer
//!    than a chunk gets one of its own.
//! 2. A [`Span`] names bytes by chunk and offset; it is valid as long as the arena.
//! 3. Row blobs are replaced often: their room is rounded up to [`CLASS_BYTES`], and released room is reused for the
//!    next blob of the same size class.
//!
//! Invariants: the bytes of a span change only through [`Arena::replace`] and after [`Arena::release`], which the
//! memtable calls only while no reader holds a snapshot.

/// Length of the first chunk of an arena, bytes.
pub const CHUNK_BYTES_MIN: usize = 4 << 10;
/// The largest shared chunk, bytes.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;
/// Row blobs are rounded up to a multiple of this many bytes.
pub const CLASS_BYTES: usize = 16;
/// Released blobs are reused if their room is at most this many bytes.
pub const REUSE_BYTES_MAX: usize = 2 << 10;
/// Bytes that [`Arena::prefetch`] asks for: a key and a small row. The hardware prefetches what follows them.
pub const PREFETCH_BYTES: usize = 320;

/// Where bytes lie in an [`Arena`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    chunk: u32,
    offset: u32,
    /// Length in bytes.
    pub len: u32,
}

/// The memory of one memtable.
#[derive(Debug)]
pub struct Arena {
    chunks: Vec<Vec<u8>>,
    /// The chunk that small allocations go to.
    current: usize,
    /// Released spans, indexed by size class.
    free: Vec<Vec<Span>>,
    bytes: usize,
    waste: usize,
}

impl Arena {
    /// An arena without chunks.
    pub fn new() -> Arena {
        Arena { chunks: Vec::new(), current: 0, free: Vec::new(), bytes: 0, waste: 0 }
    }

    /// The bytes of a span of this arena.
    pub fn get(&self, span: Span) -> &[u8] {
        &self.chunks[span.chunk as usize][span.offset as usize..][..span.len as usize]
    }

    /// Prefetches a span and what was put after it, [`PREFETCH_BYTES`] in all.
    pub fn prefetch(&self, span: Span) {
        let rest = &self.chunks[span.chunk as usize][span.offset as usize..];
        runtime::prefetch(&rest[..rest.len().min(PREFETCH_BYTES)]);
    }

    /// Prefetches a span, at most [`PREFETCH_BYTES`] of it.
    pub fn prefetch_within(&self, span: Span) {
        let bytes = self.get(span);
        runtime::prefetch(&bytes[..bytes.len().min(PREFETCH_BYTES)]);
    }

    /// The two parts of a span that was put in as a pair: its first `first` bytes, and the rest.
    pub fn get_pair(&self, span: Span, first: u32) -> (&[u8], &[u8]) {
        self.get(span).split_at(first as usize)
    }

    /// Copies `parts` one after the other into the arena and returns their span.
    pub fn put(&mut self, parts: &[&[u8]]) -> Span {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.write(len, len, parts)
    }

    /// Copies a row blob into the arena, into released room of its size class if there is any.
    pub fn put_blob(&mut self, blob: &[u8]) -> Span {
        let room = blob.len().next_multiple_of(CLASS_BYTES);
        if let Some(span) = self.free.get_mut(room / CLASS_BYTES).and_then(Vec::pop) {
            self.waste -= room;
            let span = Span { len: blob.len() as u32, ..span };
            self.bytes_mut(span).copy_from_slice(blob);
            return span;
        }
        self.write(room, blob.len(), &[blob])
    }

    /// Whether `blob` can be written over `old`, because both are of the same size class.
    pub fn fits(&self, old: Span, blob: &[u8]) -> bool {
        (old.len as usize).next_multiple_of(CLASS_BYTES) == blob.len().next_multiple_of(CLASS_BYTES)
    }

    /// Overwrites `old` with a blob that [`Arena::fits`].
    pub fn replace(&mut self, old: Span, blob: &[u8]) -> Span {
        debug_assert!(self.fits(old, blob));
        let span = Span { len: blob.len() as u32, ..old };
        self.bytes_mut(span).copy_from_slice(blob);
        span
    }

    /// Gives a blob's room back for reuse. Nothing may read the blob any more.
    pub fn release(&mut self, blob: Span) {
        let room = (blob.len as usize).next_multiple_of(CLASS_BYTES);
        self.waste += room;
        if room > 0 && room <= REUSE_BYTES_MAX {
            let class = room / CLASS_BYTES;
            if self.free.len() <= class {
                self.free.resize_with(class + 1, Vec::new);
            }
            self.free[class].push(blob);
        }
    }

    /// Counts a blob as waste that the memtable no longer uses but a snapshot may still read.
    pub fn abandon(&mut self, blob: Span) {
        self.waste += (blob.len as usize).next_multiple_of(CLASS_BYTES);
    }

    /// Bytes allocated for chunks.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of replaced blobs whose room was not reused.
    pub fn waste(&self) -> usize {
        self.waste
    }

    fn bytes_mut(&mut self, span: Span) -> &mut [u8] {
        &mut self.chunks[span.chunk as usize][span.offset as usize..][..span.len as usize]
    }

    fn write(&mut self, room: usize, len: usize, parts: &[&[u8]]) -> Span {
        let fits = self.chunks.get(self.current).is_some_and(|chunk| chunk.capacity() - chunk.len() >= room);
        let index = if fits { self.current } else { self.add_chunk(room) };
        let chunk = &mut self.chunks[index];
        let offset = chunk.len();
        for part in parts {
            chunk.extend_from_slice(part);
        }
        chunk.resize(offset + room, 0);
        Span { chunk: index as u32, offset: offset as u32, len: len as u32 }
    }

    fn add_chunk(&mut self, room: usize) -> usize {
        // Every chunk is about as large as all before it together, up to the limit: a table of n bytes wastes at most
        // n.
        let size = self.bytes.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX).next_power_of_two();
        let own = room > CHUNK_BYTES_MAX / 4 && room > size / 2;
        let size = if own { room } else { size.max(room) };
        self.chunks.push(Vec::with_capacity(size));
        self.bytes += size;
        let index = self.chunks.len() - 1;
        if !own {
            self.current = index;
        }
        index
    }
}

impl Default for Arena {
    fn default() -> Arena {
        Arena::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_keep_their_bytes() {
        let mut arena = Arena::new();
        let mut spans = Vec::new();
        for i in 0..5000usize {
            let bytes = vec![i as u8; i % 700];
            spans.push((arena.put(&[&bytes, b"tail"]), bytes));
        }
        for (span, bytes) in &spans {
            let (first, second) = arena.get_pair(*span, bytes.len() as u32);
            assert_eq!(first, &**bytes);
            assert_eq!(second, b"tail");
        }
        let used: usize = spans.iter().map(|(span, _)| span.len as usize).sum();
        assert!(arena.bytes() < 2 * used, "{} bytes for {used}", arena.bytes());
    }

    #[test]
    fn a_small_arena_is_small() {
        let mut arena = Arena::new();
        arena.put(&[b"x"]);
        assert_eq!(arena.bytes(), CHUNK_BYTES_MIN);
    }

    #[test]
    fn a_blob_longer_than_a_chunk_gets_its_own() {
        let mut arena = Arena::new();
        arena.put(&[b"x"]);
        let long = vec![7; CHUNK_BYTES_MAX + 1];
        let span = arena.put_blob(&long);
        assert_eq!(arena.get(span), &long[..]);
        let after = arena.put(&[b"y"]);
        assert_eq!(arena.get(after), b"y");
        assert_eq!(after.chunk, 0, "small ones stay in the shared chunk");
    }

    #[test]
    fn released_blobs_are_used_again() {
        let mut arena = Arena::new();
        let first = arena.put_blob(&[1; 100]);
        arena.release(first);
        assert_eq!(arena.waste(), 112);
        let second = arena.put_blob(&[2; 110]);
        assert_eq!((second.chunk, second.offset), (first.chunk, first.offset));
        assert_eq!(arena.get(second), &[2; 110]);
        assert_eq!(arena.waste(), 0);
        assert!(arena.fits(second, &[0; 97]));
        assert!(!arena.fits(second, &[0; 96]));
        let third = arena.replace(second, &[3; 97]);
        assert_eq!(arena.get(third), &[3; 97]);
        let at_limit = arena.put_blob(&[0; REUSE_BYTES_MAX]);
        let past_limit = arena.put_blob(&[0; REUSE_BYTES_MAX + 1]);
        arena.release(at_limit);
        arena.release(past_limit);
        assert_eq!(arena.put_blob(&[0; REUSE_BYTES_MAX]), at_limit);
        assert_ne!(arena.put_blob(&[0; REUSE_BYTES_MAX + 1]), past_limit);
    }
}
