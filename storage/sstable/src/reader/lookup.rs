//! Where a partition, or the first of a range, is: what the indexes say.

use super::cursor::{Cursor, RowIndex, State, Target, in_file};
use super::{Index, Stop, next_token};
use crate::descriptor::Component;
use crate::filter::KeyHash;
use crate::index::{self, IndexEntry, IndexWalk, token_below};
use crate::trie::{self, Position};
use model::key::TokenRange;
use model::{DecoratedKey, Token};

impl Cursor {
    /// Asks the index for the partition, or the first of the range.
    pub(super) fn find(&mut self) -> Result<(), Stop> {
        if self.after.is_some() {
            return self.behind(false);
        }
        let reader = self.reader.clone();
        let (state, at) = match (&self.target, &reader.index) {
            (Target::Range(TokenRange { after: Token::MIN, .. }), _) => (State::Head, 0),
            (Target::Range(range), index) => match (next_token(range.after), index) {
                (None, _) => (State::Done, 0),
                (Some(token), Index::Bti(index)) => {
                    bti(in_file(index.ceiling(&self.blocks, token), Component::Partitions)?)
                }
                (Some(token), Index::Big(summary)) => {
                    let start = summary.start(token_below(token));
                    let walk = self.walk.get_or_insert(IndexWalk { at: start });
                    let len = reader.file_len(Component::Index);
                    let found = in_file(walk.find(&mut self.blocks, len, token_below(token)), Component::Index)?;
                    found.map_or((State::Done, 0), |entry| (State::Head, entry.position))
                }
            },
            (Target::Key(key), Index::Bti(index)) => {
                let hash = KeyHash::of(&key.key).low_byte();
                bti(in_file(index.find(&self.blocks, key, hash), Component::Partitions)?)
            }
            (Target::Key(key), Index::Big(summary)) => {
                let start = summary.start(|found| found <= key);
                let walk = self.walk.get_or_insert(IndexWalk { at: start });
                let len = reader.file_len(Component::Index);
                let found = in_file(walk.find(&mut self.blocks, len, |found| found < key), Component::Index)?;
                match found {
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

    /// Asks the index for the first partition behind `after`: for one that is, if `certain`, else perhaps for one
    /// before it.
    pub(super) fn behind(&mut self, certain: bool) -> Result<(), Stop> {
        let Some(after) = &self.after else { return Ok(()) };
        let reader = self.reader.clone();
        let (state, at) = match &reader.index {
            Index::Bti(index) => bti(in_file(index.behind(&self.blocks, after, certain), Component::Partitions)?),
            Index::Big(summary) => {
                let below = |found: &DecoratedKey| found <= after;
                let walk = self.walk.get_or_insert(IndexWalk { at: summary.start(below) });
                let len = reader.file_len(Component::Index);
                let found = in_file(walk.find(&mut self.blocks, len, below), Component::Index)?;
                found.map_or((State::Done, 0), |entry| (State::Head, entry.position))
            }
        };
        self.at = at;
        self.state = state;
        Ok(())
    }

    /// Leaves the rest of the partition of a scan out, its end included.
    pub fn skip_partition(&mut self) {
        if matches!(self.target, Target::Key(_)) {
            self.state = State::Done;
        } else if matches!(self.state, State::First | State::Seek | State::Rows | State::Skip) {
            self.after = Some(DecoratedKey { token: self.token, key: self.key[..].into() });
            self.walk = None;
            self.blocks.clear();
            self.bounds.clear();
            self.row_index = RowIndex::None;
            self.state = State::Behind;
        }
    }

    /// Reads a partition's entry in Rows.db.
    pub(super) fn entry(&mut self, at: u64) -> Result<(), Stop> {
        let version = self.reader.descriptor.version;
        let len = self.reader.file_len(Component::Rows);
        let (entry, _) = self.blocks.read(Component::Rows, at, len, |input| trie::RowIndex::parse(input, version))?;
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

/// What a position in a partition index means to a cursor.
fn bti(found: Option<Position>) -> (State, u64) {
    match found {
        Some(Position::Data(at)) => (State::Head, at),
        Some(Position::Rows(at)) => (State::Entry(at), 0),
        None => (State::Done, 0),
    }
}
