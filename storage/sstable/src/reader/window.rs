//! The part of Data.db that a cursor is reading: one block, or several joined ones if a row does not end in its block.
//!
//! Most rows end in the block that they begin in: it is read in place. If one does not, the rest of the block is copied
//! to a buffer together with the beginning of the next block, as far as the row reaches.
//!
//! Invariants: the bytes are consecutive; bytes before the position that is read are dropped when a block is added.

use crate::input::Input;
use bytes::Bytes;

/// How many bytes of a block are joined at first; most rows end within them.
const JOINED_FIRST_BYTES: usize = 2 << 10;

#[derive(Default, Debug)]
pub(crate) struct Window {
    /// The offset of the bytes in the uncompressed data.
    start: u64,
    /// The last block that was supplied; the only one if nothing is joined.
    block: Bytes,
    joined: JoinBuffer,
    /// How many bytes at the end of `block` have not been joined.
    unjoined: usize,
}

/// A buffer whose capacity is zeroed once and then reused.
#[derive(Default, Debug)]
struct JoinBuffer {
    bytes: Vec<u8>,
    /// How many of the bytes are in use.
    len: usize,
}

impl JoinBuffer {
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Adds `len` bytes and returns them, to be filled.
    fn room(&mut self, len: usize) -> &mut [u8] {
        let (start, end) = (self.len, self.len + len);
        if end > self.bytes.len() {
            self.bytes.resize(end.max(2 * start), 0);
        }
        self.len = end;
        self.bytes.get_mut(start..end).unwrap_or_default()
    }

    /// Drops the first `count` bytes.
    fn drop_front(&mut self, count: usize) {
        if count > 0 {
            self.bytes.copy_within(count..self.len, 0);
            self.len -= count;
        }
    }
}

impl Window {
    fn bytes(&self) -> &[u8] {
        if self.joined.len == 0 { &self.block } else { self.joined.bytes() }
    }

    /// Returns the offset at which the blocks end.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.len() as u64
    }

    /// Returns the offset from which a reader at `at` needs more data: the end of the blocks, or `at` if it lies
    /// outside.
    pub(crate) fn end_after(&self, at: u64) -> u64 {
        if (self.start..=self.end()).contains(&at) { self.end() } else { at }
    }

    /// Returns the length of the blocks from the first byte kept, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes().len() + self.unjoined
    }

    /// Returns the bytes from `at` on, if that lies inside or at the end. After [`Window::supply_begin`] they may not
    /// be all; [`Window::more`] adds to them.
    pub(crate) fn input(&self, at: u64) -> Option<Input<'_>> {
        let skip = usize::try_from(at.checked_sub(self.start)?).ok()?;
        Some(Input::new(self.bytes().get(skip..)?, at))
    }

    /// Adds a block for a reader at `at`. It follows the bytes that are there, if the reader still needs them, or
    /// replaces them.
    pub(crate) fn supply(&mut self, at: u64, offset: u64, block: Bytes) {
        if self.joins(at, offset) {
            self.keep(at);
            self.joined.room(block.len()).copy_from_slice(&block);
        } else {
            self.restart(offset);
        }
        self.block = block;
    }

    /// Adds a block as [`Window::supply`] does, but joins only its beginning, in which a row is likely to end.
    /// [`Window::more`] joins more; rows that begin in the block are read in place.
    pub(crate) fn supply_begin(&mut self, at: u64, offset: u64, block: Bytes) {
        if self.joins(at, offset) {
            self.keep(at);
            self.unjoined = block.len();
            self.block = block;
            self.more();
        } else {
            self.restart(offset);
            self.block = block;
        }
    }

    /// Doubles what is joined of the last block. Returns false if nothing is left to join.
    pub(crate) fn more(&mut self) -> bool {
        let wanted = self.joined.len.max(JOINED_FIRST_BYTES).min(self.unjoined);
        let from = self.block.len().saturating_sub(self.unjoined);
        let added = self.block.get(from..from + wanted).unwrap_or_default();
        self.joined.room(added.len()).copy_from_slice(added);
        self.unjoined -= wanted;
        wanted > 0
    }

    /// Adds a block of `len` bytes as [`Window::supply`] does and returns them, to be filled.
    pub(crate) fn room(&mut self, at: u64, offset: u64, len: usize) -> &mut [u8] {
        if self.joins(at, offset) {
            self.keep(at);
        } else {
            self.restart(offset);
        }
        self.block = Bytes::new();
        self.joined.room(len)
    }

    pub(crate) fn clear(&mut self) {
        self.restart(self.start);
        self.block = Bytes::new();
    }

    /// Drops what is joined.
    fn restart(&mut self, start: u64) {
        (self.start, self.joined.len, self.unjoined) = (start, 0, 0);
    }

    fn joins(&self, at: u64, offset: u64) -> bool {
        offset == self.end() && at < offset && at >= self.start
    }

    /// Joins what a reader at `at` still needs, and drops what it does not.
    fn keep(&mut self, at: u64) {
        while self.more() {}
        let skip = (at - self.start) as usize;
        if self.joined.len == 0 {
            let kept = self.block.get(skip..).unwrap_or_default();
            self.joined.room(kept.len()).copy_from_slice(kept);
        } else {
            self.joined.drop_front(skip);
        }
        self.start = at;
    }

    /// Goes back to reading the last block in place, once a reader at `at` has left the others.
    pub(crate) fn forget(&mut self, at: u64) {
        let last = self.end() - self.block.len() as u64;
        if self.joined.len > 0 && at >= last {
            self.restart(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_joined_as_far_as_a_row_reaches() {
        let data: Vec<u8> = (0..40_000u32).map(|i| (i % 251) as u8).collect();
        let block = |number: usize| Bytes::copy_from_slice(&data[10_000 * number..10_000 * (number + 1)]);
        let shown = |window: &Window, at: usize| {
            let bytes = window.input(at as u64).map_or(0, |input| input.rest().len());
            assert_eq!(window.input(at as u64).map(|input| input.rest()), Some(&data[at..at + bytes]));
            bytes
        };
        let mut window = Window::default();
        window.supply_begin(0, 0, block(0));
        assert_eq!((shown(&window, 9900), window.more()), (100, false));
        window.supply_begin(9900, 10_000, block(1));
        assert_eq!((shown(&window, 9900), window.end(), window.len()), (100 + JOINED_FIRST_BYTES, 20_000, 10_100));
        assert!(window.more());
        assert_eq!(shown(&window, 9900), 2 * (100 + JOINED_FIRST_BYTES));
        window.forget(10_500);
        assert_eq!(shown(&window, 10_500), 9500);
        // A row over several blocks.
        window.supply_begin(19_000, 20_000, block(2));
        window.supply_begin(19_000, 30_000, block(3));
        assert_eq!((shown(&window, 19_000), window.end()), (21_000, 40_000));
        assert!(!window.more());
        window.forget(30_000);
        assert_eq!(shown(&window, 30_000), 10_000);
        window.supply_begin(35_000, 35_000, block(3));
        window.clear();
        assert_eq!((window.len(), window.more()), (0, false));
    }

    #[test]
    fn blocks_join_after_what_is_still_read() {
        let data: Vec<u8> = (0..40).collect();
        for raw in [0b000, 0b010, 0b101, 0b111] {
            let mut window = Window::default();
            let add = |window: &mut Window, number: usize, at: u64| {
                let block = &data[10 * number..10 * number + 10];
                if raw >> number & 1 == 1 {
                    window.room(at, 10 * number as u64, 10).copy_from_slice(block);
                } else {
                    window.supply(at, 10 * number as u64, Bytes::copy_from_slice(block));
                }
            };
            let rest = |window: &Window, at: u64| window.input(at).map(|input| input.rest().to_vec());
            add(&mut window, 0, 0);
            assert_eq!(rest(&window, 3).as_deref(), Some(&data[3..10]), "{raw}");
            add(&mut window, 1, 7);
            assert_eq!(rest(&window, 7).as_deref(), Some(&data[7..20]), "{raw}");
            assert_eq!((rest(&window, 6), window.end(), window.len()), (None, 20, 13), "{raw}");
            window.forget(9);
            assert_eq!(rest(&window, 9).as_deref(), Some(&data[9..20]), "{raw}");
            add(&mut window, 2, 9);
            assert_eq!(rest(&window, 9).as_deref(), Some(&data[9..30]), "{raw}");
            window.forget(25);
            assert_eq!(rest(&window, 25).as_deref(), Some(&data[25..30]), "{raw}");
            window.forget(30);
            // A block that does not follow replaces what is there.
            window.supply(30, 30, Bytes::copy_from_slice(&data[30..]));
            assert_eq!(rest(&window, 30).as_deref(), Some(&data[30..]), "{raw}");
        }
    }
}
