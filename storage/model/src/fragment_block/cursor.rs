//! Reading blocks.

use super::{Entry, FragmentBlock, HEAD_BYTES, next_entry};
use crate::codec::ByteReader;
use crate::fragment::{Cursor, Fragment, FragmentStep};
use crate::token::Token;
use std::convert::Infallible;

/// A cursor over a block.
pub struct FragmentBlockCursor<'a> {
    bytes: &'a [u8],
    rest: ByteReader<'a>,
    fragment: Option<Fragment<'a>>,
    /// The partition under way, or the last one.
    key: (Token, &'a [u8]),
    /// Where it ends.
    end: usize,
}

impl<'a> FragmentBlockCursor<'a> {
    /// A cursor at the start of `block`.
    pub fn new(block: &'a FragmentBlock) -> FragmentBlockCursor<'a> {
        let bytes = block.bytes();
        let rest = ByteReader { rest: bytes.get(HEAD_BYTES..).unwrap_or_default() };
        FragmentBlockCursor { bytes, rest, fragment: None, key: (Token::MIN, &[]), end: 0 }
    }

    /// The token and the key of the partition under way, or of the last one.
    pub fn key(&self) -> (Token, &'a [u8]) {
        self.key
    }

    /// The place up to which the partition under way is known; `None` if all of it is here.
    pub fn cut(&self) -> Option<&'a [u8]> {
        match next_entry(&mut ByteReader { rest: self.bytes.get(self.end..)? })? {
            Entry::Cut(place) => Some(place),
            _ => None,
        }
    }

    /// Moves to the next fragment; false if there is none.
    #[inline]
    pub fn step(&mut self) -> bool {
        self.fragment = match next_entry(&mut self.rest) {
            Some(Entry::Start(fragment, end)) => {
                if let Fragment::PartitionStart { token, key, .. } = fragment {
                    self.key = (token, key);
                }
                self.end = end as usize;
                Some(fragment)
            }
            Some(Entry::Inside(fragment)) => Some(fragment),
            Some(Entry::End | Entry::Cut(_)) => Some(Fragment::PartitionEnd),
            Some(Entry::Exhausted | Entry::Stopped { .. }) | None => {
                self.rest.rest = &[];
                None
            }
        };
        self.fragment.is_some()
    }
}

impl Cursor for FragmentBlockCursor<'_> {
    type Error = Infallible;

    #[inline]
    fn advance(&mut self) -> Result<FragmentStep, Infallible> {
        Ok(if self.step() { FragmentStep::Fragment } else { FragmentStep::End })
    }

    #[inline]
    fn fragment(&self) -> Option<Fragment<'_>> {
        self.fragment
    }

    fn skip_partition(&mut self) {
        self.rest = ByteReader { rest: self.bytes.get(self.end..).unwrap_or_default() };
        self.step();
        self.fragment = None;
    }
}
