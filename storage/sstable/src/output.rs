//! The bytes of a component that is being written: the end that has not been drained, and length and checksums of the
//! rest.
//!
//! Invariants: offsets are those in the file, however much has been drained; every byte is summed once, when it is
//! drained.

use crate::descriptor::Component;
use crate::sidecar::{PAGE_BYTES, PageChecksums};

/// A component that is being written.
#[derive(Debug)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    /// How many bytes have been drained.
    drained: u64,
    sums: PageSums,
}

impl Output {
    pub(crate) fn new() -> Output {
        Output { bytes: Vec::new(), drained: 0, sums: PageSums::default() }
    }

    /// Returns the length of the component so far: the offset of the next byte.
    pub(crate) fn len(&self) -> u64 {
        self.drained + self.bytes.len() as u64
    }

    /// Returns how many bytes can be drained.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes that have not been drained, to append to.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Passes all bytes that have not been drained to `give`, unless there are none, and forgets them.
    pub(crate) fn drain(&mut self, give: impl FnOnce(&[u8])) {
        if !self.bytes.is_empty() {
            self.sums.add(&self.bytes);
            give(&self.bytes);
            self.drained += self.bytes.len() as u64;
            self.bytes.clear();
        }
    }

    /// Returns the bytes that have not been drained, and the checksums of the whole component.
    pub(crate) fn finish(mut self, component: Component) -> (Vec<u8>, PageChecksums) {
        self.sums.add(&self.bytes);
        (self.bytes, self.sums.finish(component))
    }
}

/// Calculates the CRC-32 of each page of bytes that come in pieces.
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
            let mut out = Output::new();
            let mut drained = Vec::new();
            for piece in bytes.chunks(step) {
                out.extend(piece);
                assert_eq!(out.pending_bytes(), piece.len());
                out.drain(|bytes| drained.extend_from_slice(bytes));
                assert_eq!(out.len(), drained.len() as u64);
            }
            let (rest, pages) = out.finish(Component::Rows);
            assert!(rest.is_empty());
            assert_eq!(pages, PageChecksums::of(Component::Rows, &bytes));
            assert_eq!(drained, bytes);
        }
    }
}
