//! Partitions.db and Rows.db: the indexes of the `bti` format, tries over byte-comparable keys.
//!
//! ```text
//! node            kind u4, payload flags u4 (kinds 1 and 3 have no payload: high bits of the distance), then by kind:
//!   0             nothing: a leaf
//!   1             byte; distance in the 4 low bits of the first byte
//!   2, 4          byte, distance of 1 or 2 bytes
//!   3             low byte of a 12 bit distance, byte
//!   5-9           sparse: count u8, bytes, distances of 8, 12, 16, 24, 40 bits
//!   10-15         dense: first byte, count - 1, distances of 12, 16, 24, 32, 40, 64 bits, 0 for no child
//!   then the payload
//! Partitions.db   payload [hash u8 if flags >= 8], position of flags & 7 (+ 1 with a hash) bytes: in Rows.db, or in
//!                 Data.db with all bits inverted; at the end first and last key (u16 length), the offset of the first
//!                 key u64, count of partitions u64, root u64
//! Rows.db         payload offset in the partition of flags & 7 bytes, deletion if flags & 8; after a trie the entry of
//!                 its partition: key (u16 length), position in Data.db vint, root minus the offset of the position
//!                 signed vint, blocks vint, deletion
//! ```
//! A child lies before its parent, by the distance. Nodes do not cross pages of 4096 bytes. A leaf of Partitions.db
//! holds the shortest prefix of its key that tells it from its neighbours, so that the key has to be compared in
//! Data.db. A key of a row index is a separator: at most the clusterings of its block, and above those of the block
//! before.
//!
//! Invariants: every step goes to a smaller offset, so that walks end on any bytes.

pub(crate) mod writer;

pub use crate::block::PAGE_BYTES;

use crate::block::{IndexBlocks, Stop};
use crate::descriptor::Component;
use crate::error::{Fault, Problem};
use crate::input::Input;
use crate::row_codec::read_deletion;
use crate::version::Version;
use model::comparable;
use model::row::Deletion;
use model::token::RingPosition;
use model::{CqlType, DecoratedKey, Partitioner, RingToken, Token};

/// Bytes after the keys at the end of Partitions.db.
const FOOTER_BYTES: usize = 24;
/// Most bytes that keys and footer take at the end of Partitions.db.
pub const TAIL_BYTES_MAX: usize = FOOTER_BYTES + 2 * (2 + model::key::KEY_BYTES_MAX);

/// The byte before the token and before the key in the byte-comparable form of a decorated key.
const NEXT_COMPONENT: u8 = 0x40;
/// The byte in its place in the form of a position after all keys of a token.
const GT_NEXT_COMPONENT: u8 = 0x60;
/// The byte at the end of the byte-comparable form of a decorated key.
const TERMINATOR: u8 = 0x38;

/// Payload flag of Partitions.db: the low byte of the key's hash precedes the position.
pub(crate) const HAS_HASH: u8 = 8;
/// Payload flag of Rows.db: the range tombstone that is open at the block's start follows its offset.
pub(crate) const HAS_OPEN_DELETION: u8 = 8;

/// Returns how many bits a node of a kind stores each distance in.
fn distance_bits(kind: u8) -> usize {
    match kind {
        0 => 0,
        1 => 4,
        2 | 5 => 8,
        3 | 6 | 10 => 12,
        4 | 7 | 11 => 16,
        8 | 12 => 24,
        13 => 32,
        9 | 14 => 40,
        _ => 64,
    }
}

/// A node in its page.
struct Node<'a> {
    /// The bytes from the node's first to the end of its page.
    bytes: &'a [u8],
    /// The offset of the node in its file.
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

    /// Returns how many children the node has room for; some of a dense node's may not exist.
    fn slots(&self) -> Result<usize, Fault> {
        Ok(match self.kind()? {
            0 => 0,
            1..=4 => 1,
            5..=9 => self.byte(1)?.into(),
            _ => usize::from(self.byte(2)?) + 1,
        })
    }

    /// Returns the byte that leads to the child in a slot.
    fn transition(&self, slot: usize) -> Result<u8, Fault> {
        Ok(match self.kind()? {
            3 => self.byte(2)?,
            1 | 2 | 4 => self.byte(1)?,
            5..=9 => self.byte(2 + slot)?,
            _ => {
                let byte = u8::try_from(usize::from(self.byte(1)?) + slot);
                byte.map_err(|_| Fault::invalid(self.at, "the bytes of a trie node"))?
            }
        })
    }

    /// Returns the number at `index` in a list of numbers of `bits` each that begins at `base`.
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

    /// Returns the offset of the child in a slot; `None` if a dense node has no child there.
    fn child(&self, index: usize) -> Result<Option<u64>, Fault> {
        let kind = self.kind()?;
        let distance = match kind {
            1 => u64::from(self.byte(0)? & 0xf),
            2 => self.packed(2, 8, 0)?,
            3 => u64::from(self.byte(0)? & 0xf) << 8 | u64::from(self.byte(1)?),
            4 => self.packed(2, 16, 0)?,
            5..=9 => self.packed(2 + self.slots()?, distance_bits(kind), index)?,
            _ => match self.packed(3, distance_bits(kind), index)? {
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
        let count = self.slots()?;
        let kind = self.kind()?;
        let start = match kind {
            0 => 1,
            1 => 2,
            3 => 3,
            2 | 4 => 2 + distance_bits(kind) / 8,
            5..=9 => 2 + count + (count * distance_bits(kind)).div_ceil(8),
            _ => 3 + (count * distance_bits(kind)).div_ceil(8),
        };
        let bytes = self.bytes.get(start..).ok_or(self.truncated())?;
        Ok(Input::new(bytes, self.at + start as u64))
    }

    /// Returns the slot of the child that a byte leads to, or as an error the first slot above it.
    fn search(&self, byte: u8) -> Result<Result<usize, usize>, Fault> {
        let count = self.slots()?;
        if self.kind()? >= 10 {
            let first = self.transition(0)?;
            return Ok(match byte.checked_sub(first).map(usize::from) {
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

    /// Returns the first child in or after a slot.
    fn first_child_from(&self, slot: usize) -> Result<Option<u64>, Fault> {
        for index in slot..self.slots()? {
            if let Some(child) = self.child(index)? {
                return Ok(Some(child));
            }
        }
        Ok(None)
    }

    /// Returns the last child before a slot.
    fn last_child_before(&self, slot: usize) -> Result<Option<u64>, Fault> {
        self.last_slot_before(slot).map(|found| found.map(|(_, child)| child))
    }

    /// Returns the last child before a slot, and its slot.
    fn last_slot_before(&self, slot: usize) -> Result<Option<(usize, u64)>, Fault> {
        for index in (0..slot).rev() {
            if let Some(child) = self.child(index)? {
                return Ok(Some((index, child)));
            }
        }
        Ok(None)
    }
}

/// A walk over the tries of a component, on the blocks that have been supplied.
struct Walk<'a> {
    blocks: &'a IndexBlocks,
    component: Component,
}

impl<'a> Walk<'a> {
    fn node(&self, at: u64) -> Result<Node<'a>, Stop> {
        Ok(Node { bytes: self.blocks.rest_of_block(self.component, at)?, at })
    }

    /// Returns the node of the smallest key in the branch of a node.
    fn first_in_branch(&self, mut at: u64) -> Result<Node<'a>, Stop> {
        loop {
            let node = self.node(at)?;
            if node.payload_flags()? != 0 {
                return Ok(node);
            }
            match node.first_child_from(0)? {
                Some(child) => at = child,
                None => return Err(Fault::invalid(at, "a trie node with a payload").into()),
            }
        }
    }

    /// Returns the node of the largest key in the branch of a node.
    fn last_in_branch(&self, mut at: u64) -> Result<Node<'a>, Stop> {
        loop {
            let node = self.node(at)?;
            match node.last_child_before(node.slots()?)? {
                Some(child) => at = child,
                None => return Ok(node),
            }
        }
    }
}

/// The position of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Position {
    /// An offset in Data.db.
    Data(u64),
    /// The offset of the partition's entry in Rows.db.
    Rows(u64),
}

/// What a search after a key returns if it ends in a leaf whose prefix does not tell its key from the wanted one: the
/// leaf may belong to the key, or to one just before or after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UndecidedLeaf {
    /// The leaf; the caller compares its key in Data.db.
    Return,
    /// The leaf after it.
    Skip,
}

/// The end of Partitions.db: where its trie is, and what it says about the whole SSTable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PartitionIndex {
    pub(crate) root: u64,
    pub(crate) first: Vec<u8>,
    pub(crate) last: Vec<u8>,
    /// How many partitions there are.
    pub(crate) count: u64,
}

impl PartitionIndex {
    /// Parses the last bytes of a file of `len` bytes: all of them, or at least [`TAIL_BYTES_MAX`].
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

    fn walk<'a>(&self, blocks: &'a IndexBlocks) -> Walk<'a> {
        Walk { blocks, component: Component::Partitions }
    }

    /// Returns the position at which the partition of a key is, if it exists. The caller compares the key found there.
    pub(crate) fn find(&self, blocks: &IndexBlocks, key: &DecoratedKey, hash: u8) -> Result<Option<Position>, Stop> {
        let walk = self.walk(blocks);
        let mut at = self.root;
        let mut bytes = key_bytes(key);
        loop {
            let node = walk.node(at)?;
            let Some(byte) = bytes.next() else { return Ok(position(&node, Some(hash))?) };
            if node.slots()? == 0 {
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

    /// Returns the position of the first partition after a position on the ring, or of the one before it.
    pub(crate) fn ceiling(&self, blocks: &IndexBlocks, start: &RingPosition) -> Result<Option<Position>, Stop> {
        let mut bytes = vec![NEXT_COMPONENT];
        push_token_bytes(&start.token, &mut bytes);
        if start.is_after {
            bytes.push(GT_NEXT_COMPONENT);
        }
        self.first_after(blocks, bytes.into_iter(), UndecidedLeaf::Return)
    }

    /// Returns the position of the first partition after a key.
    pub(crate) fn find_after(
        &self,
        blocks: &IndexBlocks,
        key: &DecoratedKey,
        undecided: UndecidedLeaf,
    ) -> Result<Option<Position>, Stop> {
        self.first_after(blocks, key_bytes(key), undecided)
    }

    /// Returns the position of the first partition whose byte-comparable form is above `bytes`.
    fn first_after(
        &self,
        blocks: &IndexBlocks,
        mut bytes: impl Iterator<Item = u8>,
        undecided: UndecidedLeaf,
    ) -> Result<Option<Position>, Stop> {
        let walk = self.walk(blocks);
        let mut at = self.root;
        let mut greater = None;
        loop {
            let node = walk.node(at)?;
            if node.slots()? == 0 {
                if undecided == UndecidedLeaf::Return {
                    return Ok(position(&node, None)?);
                }
                break;
            }
            let Some(byte) = bytes.next() else { return Ok(position(&walk.first_in_branch(at)?, None)?) };
            let found = node.search(byte)?;
            let (Ok(index) | Err(index)) = found;
            if let Some(child) = node.first_child_from(index + usize::from(found.is_ok()))? {
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
            Some(at) => Ok(position(&walk.first_in_branch(at)?, None)?),
            None => Ok(None),
        }
    }
}

/// Returns the byte-comparable form of a decorated key: token and key.
pub(crate) fn key_bytes(key: &DecoratedKey) -> impl Iterator<Item = u8> {
    let mut form = Vec::with_capacity(12 + key.key.len());
    push_key_bytes(key.partitioner, key.token, &key.key, &mut form);
    form.into_iter()
}

/// Appends the byte-comparable form of a token and a key.
pub(crate) fn push_key_bytes(partitioner: Partitioner, token: Token, key: &[u8], form: &mut Vec<u8>) {
    form.push(NEXT_COMPONENT);
    match partitioner {
        Partitioner::Murmur3 => form.extend_from_slice(&token.prefix().to_be_bytes()),
        _ => push_token_bytes(&partitioner.ring_token(key), form),
    }
    form.push(NEXT_COMPONENT);
    comparable::encode(&CqlType::Blob, key, false, form);
    form.push(TERMINATOR);
}

/// Appends the byte-comparable form of a token, without separators.
fn push_token_bytes(token: &RingToken, form: &mut Vec<u8>) {
    let cql_type = match token {
        RingToken::Murmur3(_) => return form.extend_from_slice(&token.token().prefix().to_be_bytes()),
        RingToken::Random(_) => CqlType::Varint,
        RingToken::ByteOrdered(_) => CqlType::Blob,
        RingToken::OrderPreserving(_) => CqlType::Text,
    };
    comparable::encode(&cql_type, &token.to_value(), false, form);
}

/// Returns the position in the payload of a node of a partition index; `None` if it has none, or is of a key with
/// another hash than `hash`.
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

/// Returns the signed number that all of `bytes` encode.
fn signed(bytes: &[u8]) -> i64 {
    let sign = if bytes.first().is_some_and(|first| first >> 7 == 1) { -1 } else { 0 };
    bytes.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte))
}

/// The entry of a partition in Rows.db, which a trie over its row blocks precedes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RowsEntry {
    pub(crate) key: Vec<u8>,
    /// The offset of the partition in Data.db.
    pub(crate) position: u64,
    /// The offset of the trie's root.
    pub(crate) root: u64,
    pub(crate) blocks: u64,
    pub(crate) deletion: Deletion,
}

/// A block of a row index: a position in a partition from which rows can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowBlock {
    /// The offset from the partition's start.
    pub(crate) offset: u64,
    /// The range tombstone that is open there.
    pub(crate) open: Deletion,
}

impl RowsEntry {
    /// Reads the entry. [`Problem::Truncated`] means that more bytes are needed.
    pub(crate) fn parse(input: &mut Input<'_>, version: Version) -> Result<RowsEntry, Fault> {
        let key = input.short_bytes()?.to_vec();
        let base = input.offset();
        let position = input.vint()?;
        let distance = input.signed_vint()?;
        let Some(root) = base.checked_add_signed(distance).filter(|root| *root < base) else {
            return input.invalid("the root of a row index");
        };
        Ok(RowsEntry { key, position, root, blocks: input.vint()?, deletion: read_deletion(version, input)? })
    }

    /// Returns a block from which the first row at or after a comparable form is found by reading forward; `None`: the
    /// first block.
    pub(crate) fn floor(
        &self,
        blocks: &IndexBlocks,
        comparable: &[u8],
        version: Version,
    ) -> Result<Option<RowBlock>, Stop> {
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
            if let Some(child) = node.last_child_before(index)? {
                lesser = Some(child);
                // A separator in a smaller branch below the prefix is above the prefix, so closer.
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
                let node = walk.last_in_branch(at)?;
                if node.payload_flags()? == 0 {
                    return Err(Fault::invalid(at, "a trie node with a payload").into());
                }
                Ok(Some(node_block(&node, version)?))
            }
            (None, None) => Ok(None),
        }
    }

    /// Returns the last block whose separator is below a bound, or at it if `inclusive`, and the separator; without a
    /// bound the last entry, which is the end of the last block.
    pub(crate) fn last_until(
        &self,
        blocks: &IndexBlocks,
        bound: Option<&[u8]>,
        inclusive: bool,
        version: Version,
    ) -> Result<Option<(Vec<u8>, RowBlock)>, Stop> {
        let walk = Walk { blocks, component: Component::Rows };
        let mut at = self.root;
        let mut path = Vec::new();
        // The largest candidate so far: a separator that is a prefix of the bound, or a branch above it but below the
        // bound.
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
            if let Some((index, child)) = node.last_slot_before(index)? {
                let mut below = path.clone();
                below.push(node.transition(index)?);
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
            match node.last_slot_before(node.slots()?)? {
                Some((index, child)) => {
                    path.push(node.transition(index)?);
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
