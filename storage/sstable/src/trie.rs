//! Partitions.db and Rows.db of bti: tries over byte-comparable keys.
//!
//! ```text
//! node            type u4, payload flags u4 (of the two kinds without a payload: high bits of the distance), by type:
//!   0             nothing
//!   1             byte; distance in the 4 low bits of the first byte
//!   2, 4          byte, distance of 1 or 2 bytes
//!   3             low byte of a 12 bit distance, byte
//!   5-9           count u8, bytes, distances of 8, 12, 16, 24, 40 bits
//!   10-15         first byte, count - 1, distances of 12, 16, 24, 32, 40, 64 bits, 0 for none
//!   then the payload
//! Partitions.db   payload [hash u8 if flags >= 8], position of flags & 7 (+ 1 with a hash) bytes: of Rows.db, or of Data.db
//!                 with all bits inverted; at the end first and last key (u16 length), their place u64, count u64, root u64
//! Rows.db         payload offset in the partition of flags & 7 bytes, deletion if flags & 8; after a trie the entry of its
//!                 partition: key (u16 length), position vint, root signed vint - place, blocks vint, deletion
//! ```
//! A child lies before its parent, by the distance. Nodes do not cross pages of 4096 bytes.
//!
//! Invariants: every step goes to a smaller offset, so that walks end on any bytes.

pub(crate) mod writer;

use crate::descriptor::{Component, Version};
use crate::input::{Fault, Input, Problem};
use crate::reader::{Blocks, Stop};
use crate::row_codec::read_deletion;
use model::row::Deletion;
use model::{DecoratedKey, Token};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes after the keys at the end of Partitions.db.
const FOOTER_BYTES: usize = 24;
/// The longest end of Partitions.db, with two of the longest keys.
pub const TAIL_BYTES_MAX: usize = FOOTER_BYTES + 2 * (2 + model::key::KEY_BYTES_MAX);

pub(crate) const HAS_HASH: u8 = 8;
pub(crate) const HAS_OPEN_DELETION: u8 = 8;

/// How the distances of a node type are stored.
const SINGLE_BYTES: [(u8, usize); 2] = [(2, 1), (4, 2)];
const SPARSE_BITS: [usize; 5] = [8, 12, 16, 24, 40];
const DENSE_BITS: [usize; 6] = [12, 16, 24, 32, 40, 64];

/// A node in its page.
struct Node<'a> {
    /// From its first byte to the end of the page.
    bytes: &'a [u8],
    at: u64,
}

impl<'a> Node<'a> {
    fn byte(&self, index: usize) -> Result<u8, Fault> {
        self.bytes.get(index).copied().ok_or(self.truncated())
    }

    fn truncated(&self) -> Fault {
        Fault { offset: self.at, problem: Problem::Invalid("a trie node inside of its page") }
    }

    fn kind(&self) -> Result<u8, Fault> {
        Ok(self.byte(0)? >> 4)
    }

    /// Children that may be, those of a dense node that are not included.
    fn range(&self) -> Result<usize, Fault> {
        Ok(match self.kind()? {
            0 => 0,
            1..=4 => 1,
            5..=9 => self.byte(1)?.into(),
            _ => usize::from(self.byte(2)?) + 1,
        })
    }

    /// The byte of a child.
    fn transition(&self, index: usize) -> Result<usize, Fault> {
        Ok(match self.kind()? {
            3 => self.byte(2)?.into(),
            1 | 2 | 4 => self.byte(1)?.into(),
            5..=9 => self.byte(2 + index)?.into(),
            _ => usize::from(self.byte(1)?) + index,
        })
    }

    /// A number of `bits` at an index of a packed list.
    fn packed(&self, base: usize, bits: usize, index: usize) -> Result<u64, Fault> {
        if bits == 12 {
            let at = base + 3 * index / 2;
            let word = u64::from(self.byte(at)?) << 8 | u64::from(self.byte(at + 1)?);
            return Ok(if index.is_multiple_of(2) { word >> 4 } else { word & 0xfff });
        }
        let len = bits / 8;
        let bytes = self.bytes.get(base + index * len..base + (index + 1) * len).ok_or(self.truncated())?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Where a child is; `None` for one that a dense node does not have.
    fn child(&self, index: usize) -> Result<Option<u64>, Fault> {
        let kind = self.kind()?;
        let distance = match kind {
            1 => u64::from(self.byte(0)? & 0xf),
            2 => self.packed(2, 8, 0)?,
            3 => u64::from(self.byte(0)? & 0xf) << 8 | u64::from(self.byte(1)?),
            4 => self.packed(2, 16, 0)?,
            5..=9 => self.packed(2 + self.range()?, SPARSE_BITS[usize::from(kind) - 5], index)?,
            _ => match self.packed(3, DENSE_BITS[(usize::from(kind) - 10).min(5)], index)? {
                0 => return Ok(None),
                distance => distance,
            },
        };
        match self.at.checked_sub(distance) {
            Some(child) if distance > 0 => Ok(Some(child)),
            _ => Err(Fault { offset: self.at, problem: Problem::Invalid("the distance of a trie node") }),
        }
    }

    fn payload_flags(&self) -> Result<u8, Fault> {
        Ok(match self.kind()? {
            1 | 3 => 0,
            _ => self.byte(0)? & 0xf,
        })
    }

    fn payload(&self) -> Result<Input<'a>, Fault> {
        let count = self.range()?;
        let kind = self.kind()?;
        let start = match kind {
            0 => 1,
            1 => 2,
            3 => 3,
            2 | 4 => 2 + SINGLE_BYTES[usize::from(kind == 4)].1,
            5..=9 => 2 + count + (count * SPARSE_BITS[usize::from(kind) - 5]).div_ceil(8),
            _ => 3 + (count * DENSE_BITS[(usize::from(kind) - 10).min(5)]).div_ceil(8),
        };
        let bytes = self.bytes.get(start..).ok_or(self.truncated())?;
        Ok(Input::new(bytes, self.at + start as u64))
    }

    /// The index of the child of a byte, or of the first one above it.
    fn search(&self, byte: u8) -> Result<Result<usize, usize>, Fault> {
        let (count, byte) = (self.range()?, usize::from(byte));
        if self.kind()? >= 10 {
            let first = self.transition(0)?;
            return Ok(match byte.checked_sub(first) {
                None => Err(0),
                Some(index) if index >= count => Err(count),
                Some(index) if self.child(index)?.is_none() => Err(index),
                Some(index) => Ok(index),
            });
        }
        for index in 0..count {
            let found = self.transition(index)?;
            if found >= byte {
                return Ok(if found == byte { Ok(index) } else { Err(index) });
            }
        }
        Ok(Err(count))
    }

    /// The first child from an index on.
    fn child_from(&self, index: usize) -> Result<Option<u64>, Fault> {
        for index in index..self.range()? {
            if let Some(child) = self.child(index)? {
                return Ok(Some(child));
            }
        }
        Ok(None)
    }

    /// The last child below an index.
    fn child_below(&self, index: usize) -> Result<Option<u64>, Fault> {
        self.last_below(index).map(|found| found.map(|(_, child)| child))
    }

    /// The same, with its own index.
    fn last_below(&self, index: usize) -> Result<Option<(usize, u64)>, Fault> {
        for index in (0..index).rev() {
            if let Some(child) = self.child(index)? {
                return Ok(Some((index, child)));
            }
        }
        Ok(None)
    }
}

/// A trie's file and root, with the blocks that were brought.
pub(crate) struct Walk<'a> {
    pub(crate) blocks: &'a Blocks,
    pub(crate) component: Component,
}

impl<'a> Walk<'a> {
    fn node(&self, at: u64) -> Result<Node<'a>, Stop> {
        Ok(Node { bytes: self.blocks.rest_of_block(self.component, at)?, at })
    }

    /// The node of the smallest key below a node.
    fn first_below(&self, mut at: u64) -> Result<Node<'a>, Stop> {
        loop {
            let node = self.node(at)?;
            if node.payload_flags()? != 0 {
                return Ok(node);
            }
            match node.child_from(0)? {
                Some(child) => at = child,
                None => return Err(Fault::invalid(at, "a trie node with a payload").into()),
            }
        }
    }

    /// The node of the largest key below a node.
    fn last_below(&self, mut at: u64) -> Result<Node<'a>, Stop> {
        loop {
            let node = self.node(at)?;
            match node.child_below(node.range()?)? {
                Some(child) => at = child,
                None => return Ok(node),
            }
        }
    }
}

/// Where a partition is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Position {
    /// At an offset of Data.db.
    Data(u64),
    /// At the partition's entry in Rows.db.
    Rows(u64),
}

/// What the end of Partitions.db says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PartitionIndex {
    pub(crate) root: u64,
    pub(crate) first: Vec<u8>,
    pub(crate) last: Vec<u8>,
    /// Partitions.
    pub(crate) count: u64,
}

impl PartitionIndex {
    /// From the last bytes of a file of `len` bytes, all of it or [`TAIL_BYTES_MAX`].
    pub(crate) fn parse(tail: &[u8], len: u64) -> Result<PartitionIndex, Fault> {
        let short = Fault { offset: len, problem: Problem::Truncated };
        let start = len.checked_sub(tail.len() as u64).ok_or(short)?;
        let (before, footer) = tail.split_last_chunk::<FOOTER_BYTES>().ok_or(short)?;
        let footer_at = len - FOOTER_BYTES as u64;
        let mut input = Input::new(footer, footer_at);
        let (keys_at, count, root) = (input.u64()?, input.u64()?, input.u64()?);
        let keys = keys_at.checked_sub(start).and_then(|at| before.get(usize::try_from(at).ok()?..));
        let Some(keys) = keys.filter(|_| root < keys_at) else {
            return Err(Fault::invalid(footer_at, "the footer of a partition index"));
        };
        let mut input = Input::new(keys, keys_at);
        let (first, last) = (input.short_bytes()?.to_vec(), input.short_bytes()?.to_vec());
        Ok(PartitionIndex { root, first, last, count })
    }

    fn walk<'a>(&self, blocks: &'a Blocks) -> Walk<'a> {
        Walk { blocks, component: Component::Partitions }
    }

    /// Where the partition of a key is, if it is: who reads there compares the key.
    pub(crate) fn find(&self, blocks: &Blocks, key: &DecoratedKey, hash: u8) -> Result<Option<Position>, Stop> {
        let walk = self.walk(blocks);
        let mut at = self.root;
        let mut bytes = key_bytes(key);
        loop {
            let node = walk.node(at)?;
            let Some(byte) = bytes.next() else { return Ok(position(&node, Some(hash))?) };
            if node.range()? == 0 {
                return Ok(position(&node, Some(hash))?);
            }
            match node.search(byte)? {
                Ok(index) => match node.child(index)? {
                    Some(child) => at = child,
                    None => return Ok(None),
                },
                Err(_) => return Ok(None),
            }
        }
    }

    /// A partition from which on to look for the first one whose token is `token` or above: at most one comes before
    /// it.
    pub(crate) fn ceiling(&self, blocks: &Blocks, token: Token) -> Result<Option<Position>, Stop> {
        let bytes = [&[0x40][..], &token.prefix().to_be_bytes()].concat();
        self.seek(blocks, bytes.into_iter(), true)
    }

    /// The first partition behind a key. Without `certain`, if the key is not known to be in the index, a partition
    /// from which on to look for it: at most one comes before it.
    pub(crate) fn behind(&self, blocks: &Blocks, key: &DecoratedKey, certain: bool) -> Result<Option<Position>, Stop> {
        self.seek(blocks, key_bytes(key), !certain)
    }

    /// The first partition above a place; with `or_before` the last one whose prefix does not tell it from the place.
    fn seek(
        &self,
        blocks: &Blocks,
        mut bytes: impl Iterator<Item = u8>,
        or_before: bool,
    ) -> Result<Option<Position>, Stop> {
        let walk = self.walk(blocks);
        let mut at = self.root;
        let mut greater = None;
        loop {
            let node = walk.node(at)?;
            if node.range()? == 0 {
                if or_before {
                    return Ok(position(&node, None)?);
                }
                break;
            }
            let Some(byte) = bytes.next() else { return Ok(position(&walk.first_below(at)?, None)?) };
            let found = node.search(byte)?;
            let (Ok(index) | Err(index)) = found;
            if let Some(child) = node.child_from(index + usize::from(found.is_ok()))? {
                greater = Some(child);
            }
            match found {
                Ok(index) => match node.child(index)? {
                    Some(child) => at = child,
                    None => break,
                },
                Err(_) => break,
            }
        }
        match greater {
            Some(at) => Ok(position(&walk.first_below(at)?, None)?),
            None => Ok(None),
        }
    }
}

/// The byte-comparable form of a partition's place: token and key.
pub(crate) fn key_bytes(key: &DecoratedKey) -> impl Iterator<Item = u8> {
    let mut form = Vec::with_capacity(12 + key.key.len());
    push_key_bytes(key.token, &key.key, &mut form);
    form.into_iter()
}

/// Appends that form of a token and its key.
pub(crate) fn push_key_bytes(token: Token, key: &[u8], form: &mut Vec<u8>) {
    form.push(0x40);
    form.extend_from_slice(&token.prefix().to_be_bytes());
    form.push(0x40);
    model::comparable::encode(&model::CqlType::Blob, key, false, form);
    form.push(0x38);
}

/// The payload of a node of a partition index; `None` without one, or of another hash.
fn position(node: &Node<'_>, hash: Option<u8>) -> Result<Option<Position>, Fault> {
    let flags = node.payload_flags()?;
    let mut payload = node.payload()?;
    let len = if flags >= HAS_HASH {
        let found = payload.u8()?;
        if hash.is_some_and(|hash| hash != found) {
            return Ok(None);
        }
        flags - HAS_HASH + 1
    } else {
        flags
    };
    if len == 0 {
        return Ok(None);
    }
    let position = signed(payload.bytes(len.into())?);
    Ok(Some(if position < 0 { Position::Data(!position as u64) } else { Position::Rows(position as u64) }))
}

/// A signed number of the bytes that there are.
fn signed(bytes: &[u8]) -> i64 {
    let sign = if bytes.first().is_some_and(|first| first >> 7 == 1) { -1 } else { 0 };
    bytes.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte))
}

/// The entry of a partition in Rows.db.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RowIndex {
    pub(crate) key: Vec<u8>,
    /// Of the partition in Data.db.
    pub(crate) position: u64,
    pub(crate) root: u64,
    pub(crate) blocks: u64,
    pub(crate) deletion: Deletion,
}

/// A place in a partition to read rows from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowBlock {
    /// Bytes from the partition's start.
    pub(crate) offset: u64,
    /// The range tombstone that is open there.
    pub(crate) open: Deletion,
}

impl RowIndex {
    /// Reads the entry at an offset. `Truncated`: more bytes are needed.
    pub(crate) fn parse(input: &mut Input<'_>, version: Version) -> Result<RowIndex, Fault> {
        let key = input.short_bytes()?.to_vec();
        let base = input.offset();
        let position = input.vint()?;
        let distance = input.signed_vint()?;
        let Some(root) = base.checked_add_signed(distance).filter(|root| *root < base) else {
            return input.invalid("the root of a row index");
        };
        Ok(RowIndex { key, position, root, blocks: input.vint()?, deletion: read_deletion(version, input)? })
    }

    /// The block that the first row at or after a comparable form is in, or one before it; `None`: the first block.
    pub(crate) fn floor(&self, blocks: &Blocks, comparable: &[u8], version: Version) -> Result<Option<RowBlock>, Stop> {
        let walk = Walk { blocks, component: Component::Rows };
        let mut at = self.root;
        let mut lesser = None;
        let mut prefix = None;
        let mut bytes = comparable.iter();
        loop {
            let node = walk.node(at)?;
            if node.payload_flags()? != 0 {
                prefix = Some(node_block(&node, version)?);
                lesser = None;
            }
            let Some(byte) = bytes.next() else { break };
            let found = node.search(*byte)?;
            let (Ok(index) | Err(index)) = found;
            if let Some(child) = node.child_below(index)? {
                lesser = Some(child);
                // A smaller branch below a node with a payload is closer than that payload.
                prefix = None;
            }
            match found {
                Ok(index) => match node.child(index)? {
                    Some(child) => at = child,
                    None => break,
                },
                Err(_) => break,
            }
        }
        match (prefix, lesser) {
            (Some(block), _) => Ok(Some(block)),
            (None, Some(at)) => {
                let node = walk.last_below(at)?;
                if node.payload_flags()? == 0 {
                    return Err(Fault::invalid(at, "a trie node with a payload").into());
                }
                Ok(Some(node_block(&node, version)?))
            }
            (None, None) => Ok(None),
        }
    }
}

impl RowIndex {
    /// The last block whose separator is below a bound, or at it if `inclusive`; without a bound the place behind the
    /// last block. With its separator.
    pub(crate) fn last_until(
        &self,
        blocks: &Blocks,
        bound: Option<&[u8]>,
        inclusive: bool,
        version: Version,
    ) -> Result<Option<(Vec<u8>, RowBlock)>, Stop> {
        let walk = Walk { blocks, component: Component::Rows };
        let mut at = self.root;
        let mut path = Vec::new();
        // The last found on the way: the node of a separator that is a prefix of the bound, or behind it a branch below
        // the bound.
        let mut prefix = None;
        let mut branch = bound.is_none().then(|| (Vec::new(), at));
        let mut bytes = bound.unwrap_or_default().iter();
        while bound.is_some() {
            let node = walk.node(at)?;
            let byte = bytes.next();
            if node.payload_flags()? != 0 && (byte.is_some() || inclusive) {
                prefix = Some((path.clone(), node_block(&node, version)?));
                branch = None;
            }
            let Some(byte) = byte else { break };
            let place = node.search(*byte)?;
            let (Ok(index) | Err(index)) = place;
            if let Some((index, child)) = node.last_below(index)? {
                let mut below = path.clone();
                below.push(node.transition(index)? as u8);
                branch = Some((below, child));
            }
            let Ok(index) = place else { break };
            let Some(child) = node.child(index)? else { break };
            path.push(*byte);
            at = child;
        }
        let Some((mut path, mut at)) = branch else { return Ok(prefix) };
        loop {
            let node = walk.node(at)?;
            match node.last_below(node.range()?)? {
                Some((index, child)) => {
                    path.push(node.transition(index)? as u8);
                    at = child;
                }
                None if node.payload_flags()? == 0 => {
                    return Err(Fault::invalid(at, "a trie node with a payload").into());
                }
                None => return Ok(Some((path, node_block(&node, version)?))),
            }
        }
    }
}

fn node_block(node: &Node<'_>, version: Version) -> Result<RowBlock, Fault> {
    let flags = node.payload_flags()?;
    let mut payload = node.payload()?;
    let start = payload;
    let offset = signed(payload.bytes((flags & !HAS_OPEN_DELETION).into())?);
    if offset < 0 {
        return start.invalid("an offset in a partition");
    }
    let open = if flags & HAS_OPEN_DELETION != 0 { read_deletion(version, &mut payload)? } else { Deletion::LIVE };
    Ok(RowBlock { offset: offset as u64, open })
}
