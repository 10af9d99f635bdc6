//! The bytes of a component that is being written: its end in memory, what was taken before only as a length and checksums.
//!
//! Invariants: places are those in the file, whatever was taken; every byte is summed once, when it is taken.

use crate::sidecar::{PAGE_BYTES, PageChecksums};
use crate::{Component, trie};

/// See the module.
#[derive(Debug)]
pub(crate) struct Out {
    bytes: Vec<u8>,
    /// Bytes that were taken.
    taken: u64,
    sums: PageSums,
}

impl Out {
    pub(crate) fn new() -> Out {
        Out { bytes: Vec::new(), taken: 0, sums: PageSums::default() }
    }

    /// Bytes so far: where the next one goes.
    pub(crate) fn len(&self) -> u64 {
        self.taken + self.bytes.len() as u64
    }

    /// Bytes that can be taken.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Where to append.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// What is left of the page of a trie at the end.
    pub(crate) fn page_left(&self) -> usize {
        trie::PAGE_BYTES - (self.len() % trie::PAGE_BYTES as u64) as usize
    }

    /// Fills the page of a trie at the end, if it is begun.
    pub(crate) fn pad(&mut self) {
        let left = self.page_left() % trie::PAGE_BYTES;
        self.bytes.resize(self.bytes.len() + left, 0);
    }

    /// Gives what is there and forgets it.
    pub(crate) fn drain(&mut self, give: impl FnOnce(&[u8])) {
        if !self.bytes.is_empty() {
            self.sums.add(&self.bytes);
            give(&self.bytes);
            self.taken += self.bytes.len() as u64;
            self.bytes.clear();
        }
    }

    /// The rest, and the checksums of everything.
    pub(crate) fn finish(mut self, component: Component) -> (Vec<u8>, PageChecksums) {
        self.sums.add(&self.bytes);
        (self.bytes, self.sums.finish(component))
    }
}

/// CRC-32 of each page of bytes that come in pieces.
#[derive(Default, Debug)]
struct PageSums {
    len: u64,
    crcs: Vec<u32>,
    page: crc32fast::Hasher,
}

impl PageSums {
    fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let filled = (self.len % PAGE_BYTES as u64) as usize;
            let (now, rest) = bytes.split_at(bytes.len().min(PAGE_BYTES - filled));
            self.page.update(now);
            self.len += now.len() as u64;
            if self.len.is_multiple_of(PAGE_BYTES as u64) {
                self.crcs.push(std::mem::take(&mut self.page).finalize());
            }
            bytes = rest;
        }
    }

    fn finish(mut self, component: Component) -> PageChecksums {
        if !self.len.is_multiple_of(PAGE_BYTES as u64) {
            self.crcs.push(self.page.finalize());
        }
        PageChecksums { component, len: self.len, crcs: self.crcs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_summed_as_the_whole() {
        let bytes: Vec<u8> = (0..20_000u32).map(|i| (i % 251) as u8).collect();
        for step in [1, 100, 4095, 4096, 4097, 20_000] {
            let mut out = Out::new();
            let mut taken = Vec::new();
            for piece in bytes.chunks(step) {
                out.extend(piece);
                assert_eq!(out.pending_bytes(), piece.len());
                out.drain(|bytes| taken.extend_from_slice(bytes));
                assert_eq!(out.len(), taken.len() as u64);
            }
            let (rest, pages) = out.finish(Component::Rows);
            assert!(rest.is_empty());
            assert_eq!(pages, PageChecksums::of(Component::Rows, &bytes));
            assert_eq!(taken, bytes);
        }
    }

    #[test]
    fn pages_of_tries_are_filled() {
        let mut out = Out::new();
        out.pad();
        assert_eq!(out.len(), 0);
        out.extend(&[1]);
        out.drain(|_| {});
        assert_eq!(out.page_left(), trie::PAGE_BYTES - 1);
        out.pad();
        assert_eq!(out.len(), trie::PAGE_BYTES as u64);
        assert_eq!(out.page_left(), trie::PAGE_BYTES);
    }
}
