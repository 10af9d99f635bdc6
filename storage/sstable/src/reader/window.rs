//! The part of Data.db that a cursor is reading: one block, or several if a row does not end in its block.
//!
//! Invariants: the bytes are consecutive; what lies before the place that is read is forgotten when a block is added.

use crate::input::Input;
use bytes::Bytes;

#[derive(Default, Debug)]
pub(crate) struct Window {
    /// Where the bytes begin in the uncompressed data.
    start: u64,
    /// One block, if `joined` is empty.
    block: Bytes,
    joined: Vec<u8>,
}

impl Window {
    fn bytes(&self) -> &[u8] {
        if self.joined.is_empty() { &self.block } else { &self.joined }
    }

    /// Where the bytes end.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes().len() as u64
    }

    /// Where the next block begins for a reader at `at`: behind the bytes, or at `at` if it has left them.
    pub(crate) fn end_after(&self, at: u64) -> u64 {
        if (self.start..=self.end()).contains(&at) { self.end() } else { at }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes().len()
    }

    /// The bytes from a place on, if it is inside or at the end.
    pub(crate) fn input(&self, at: u64) -> Option<Input<'_>> {
        let skip = usize::try_from(at.checked_sub(self.start)?).ok()?;
        Some(Input::new(self.bytes().get(skip..)?, at))
    }

    /// Adds a block for a reader at `at`: behind the bytes that are there, if they are still wanted, or instead of them.
    pub(crate) fn supply(&mut self, at: u64, offset: u64, block: Bytes) {
        if offset == self.end() && at < offset && at >= self.start {
            let skip = (at - self.start) as usize;
            if self.joined.is_empty() {
                self.joined.reserve(self.block.len() - skip + block.len());
                self.joined.extend_from_slice(&self.block[skip..]);
            } else {
                self.joined.drain(..skip);
            }
            self.joined.extend_from_slice(&block);
            self.start = at;
            self.block = block;
        } else {
            self.start = offset;
            self.joined.clear();
            self.block = block;
        }
    }

    /// Goes back to one block once a reader at `at` has left the others behind.
    pub(crate) fn forget(&mut self, at: u64) {
        let last = self.end() - self.block.len() as u64;
        if !self.joined.is_empty() && at >= last {
            self.joined.clear();
            self.start = last;
        }
    }
}
