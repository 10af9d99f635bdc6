//! Steps of a cursor that ask the index where a partition is.

use super::Index;
use super::cursor::{Cursor, RowIndex, State, Target};
use crate::block::{Stop, in_component};
use crate::descriptor::Component;
use crate::filter::KeyHash;
use crate::index::{self, IndexEntry, IndexWalk, before};
use crate::trie::{Position, RowsEntry, UndecidedLeaf};
use model::{DecoratedKey, TokenRange};

impl Cursor {
    /// Asks the index for the partition, or for the first one of the range.
    pub(super) fn find(&mut self) -> Result<(), Stop> {
        if self.after.is_some() {
            return self.find_after(UndecidedLeaf::Return);
        }
        let reader = self.reader.clone();
        let (state, at) = match (&self.target, &reader.index) {
            (Target::Range(TokenRange { start: None, .. }), _) => (State::Head, 0),
            (Target::Range(TokenRange { start: Some(start), .. }), Index::Bti(index)) => {
                state_at(in_component(index.ceiling(&self.index_blocks, start), Component::Partitions)?)
            }
            (Target::Range(TokenRange { start: Some(start), .. }), Index::Big(summary)) => {
                let walk = self.index_walk.get_or_insert(IndexWalk { at: summary.start(before(start)) });
                let len = reader.file_len(Component::Index);
                let found = walk.find(&mut self.index_blocks, len, reader.partitioner, before(start));
                let found = in_component(found, Component::Index)?;
                found.map_or((State::Done, 0), |entry| (State::Head, entry.position))
            }
            (Target::Key(key), Index::Bti(index)) => {
                let hash = KeyHash::of(&key.key).low_byte();
                state_at(in_component(index.find(&self.index_blocks, key, hash), Component::Partitions)?)
            }
            (Target::Key(key), Index::Big(summary)) => {
                let start = summary.start(|found| found <= key);
                let walk = self.index_walk.get_or_insert(IndexWalk { at: start });
                let len = reader.file_len(Component::Index);
                let found = walk.find(&mut self.index_blocks, len, reader.partitioner, |found| found < key);
                match in_component(found, Component::Index)? {
                    Some(IndexEntry { key: found, position, row_index: (at, len) }) if found == *key => {
                        if index::is_used(len) {
                            self.row_index = RowIndex::Big { at, len, parsed: None };
                        }
                        (State::Head, position)
                    }
                    _ => (State::Done, 0),
                }
            }
        };
        self.at = at;
        self.state = state;
        Ok(())
    }

    /// Asks the index for the first partition after the key in `after`.
    pub(super) fn find_after(&mut self, undecided: UndecidedLeaf) -> Result<(), Stop> {
        let Some(after) = &self.after else { return Ok(()) };
        let reader = self.reader.clone();
        let (state, at) = match &reader.index {
            Index::Bti(index) => {
                state_at(in_component(index.find_after(&self.index_blocks, after, undecided), Component::Partitions)?)
            }
            Index::Big(summary) => {
                let below = |found: &DecoratedKey| found <= after;
                let walk = self.index_walk.get_or_insert(IndexWalk { at: summary.start(below) });
                let len = reader.file_len(Component::Index);
                let found = walk.find(&mut self.index_blocks, len, reader.partitioner, below);
                let found = in_component(found, Component::Index)?;
                found.map_or((State::Done, 0), |entry| (State::Head, entry.position))
            }
        };
        self.at = at;
        self.state = state;
        Ok(())
    }

    /// Leaves out the rest of the current partition, its end included.
    pub fn skip_partition(&mut self) {
        if matches!(self.target, Target::Key(_)) {
            self.state = State::Done;
        } else if matches!(self.state, State::StaticRow | State::Seek | State::Rows | State::SkipRows) {
            let partitioner = self.reader.partitioner;
            self.after = Some(DecoratedKey { token: self.token, partitioner, key: self.key[..].into() });
            self.index_walk = None;
            self.index_blocks.clear();
            self.pending_bounds.clear();
            self.row_index = RowIndex::None;
            self.state = State::FindNext;
        }
    }

    /// Reads a partition's entry in Rows.db.
    pub(super) fn read_rows_entry(&mut self, at: u64) -> Result<(), Stop> {
        let version = self.reader.descriptor.version;
        let len = self.reader.file_len(Component::Rows);
        let (entry, _) = self.index_blocks.read(Component::Rows, at, len, |input| RowsEntry::parse(input, version))?;
        if let Target::Key(key) = &self.target
            && entry.key[..] != key.key[..]
        {
            self.state = State::Done;
            return Ok(());
        }
        self.at = entry.position;
        self.row_index = RowIndex::Bti(entry);
        self.state = State::Head;
        Ok(())
    }
}

/// Returns the state, and the offset in Data.db, in which a cursor goes on at a position of a partition index.
fn state_at(found: Option<Position>) -> (State, u64) {
    match found {
        Some(Position::Data(at)) => (State::Head, at),
        Some(Position::Rows(at)) => (State::RowsEntry(at), 0),
        None => (State::Done, 0),
    }
}
