//! Writes a trie of sorted keys into pages, laid out byte by byte as Cassandra does.
//!
//! 1. The nodes on the path of the last key are a stack. A key that leaves a node completes it. That fixes the node's
//!    size and, as long as none of its children has been written, its position relative to them.
//! 2. If a completed node and the branches below it do not fit into one page together, the branches are written: first
//!    the largest that fits into the rest of the page, among equal ones that of the largest byte; into a new page if
//!    none fits. From then on the node's children are in other pages.
//! 3. At the end the remaining nodes are written, into a new page if they fit there but not into the rest of this one.
//!
//! Invariants: keys come in ascending order; a child is written before its parent; a page that is left early is filled
//! up with zeros.

use super::{PAGE_BYTES, distance_bits};
use crate::output::Output;

/// Most bytes of a payload: a position and a deletion.
const PAYLOAD_BYTES_MAX: usize = 24;

/// The payload of a node: its flags and bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Payload {
    pub(crate) flags: u8,
    len: u8,
    bytes: [u8; PAYLOAD_BYTES_MAX],
}

impl Payload {
    /// Makes a payload of the bytes of all `parts`. Panics if they are more than [`PAYLOAD_BYTES_MAX`].
    pub(crate) fn new(flags: u8, parts: &[&[u8]]) -> Payload {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        assert!(len <= PAYLOAD_BYTES_MAX, "a payload of {len} bytes");
        let mut payload = Payload { flags, len: len as u8, bytes: [0; PAYLOAD_BYTES_MAX] };
        let bytes = parts.iter().copied().flatten();
        payload.bytes.iter_mut().zip(bytes).for_each(|(room, byte)| *room = *byte);
        payload
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&self.bytes)
    }
}

#[derive(Default, Debug)]
struct Node {
    byte: u8,
    children: Vec<Node>,
    payload: Option<Payload>,
    /// The offset at which it was written.
    at: Option<u64>,
    /// Bytes of the unwritten nodes below it.
    branch_len: usize,
    /// Bytes of the node itself.
    len: usize,
    /// Whether a child has been written before it.
    far_children: bool,
    /// Whether a node further below has been written before its parent.
    far_branch: bool,
}

/// Builds one trie at the end of a file.
#[derive(Debug)]
pub(crate) struct TrieWriter {
    /// The nodes on the path of the last key, the root first.
    stack: Vec<Node>,
    last: Vec<u8>,
    /// How many keys have been added.
    pub(crate) count: u64,
}

impl Default for TrieWriter {
    fn default() -> TrieWriter {
        TrieWriter { stack: vec![Node::default()], last: Vec::new(), count: 0 }
    }
}

/// The kinds of nodes whose distances to children fit into a number of bits.
struct Kinds {
    bits: u32,
    /// For one child.
    single: u8,
    /// For several children: their bytes are listed.
    sparse: u8,
    /// For several children: a range of bytes.
    dense: u8,
}

const WIDEST: Kinds = Kinds { bits: 64, single: 15, sparse: 15, dense: 15 };
const KINDS: [Kinds; 8] = [
    Kinds { bits: 4, single: 1, sparse: 5, dense: 10 },
    Kinds { bits: 8, single: 2, sparse: 5, dense: 10 },
    Kinds { bits: 12, single: 3, sparse: 6, dense: 10 },
    Kinds { bits: 16, single: 4, sparse: 7, dense: 11 },
    Kinds { bits: 24, single: 12, sparse: 8, dense: 12 },
    Kinds { bits: 32, single: 13, sparse: 9, dense: 13 },
    Kinds { bits: 40, single: 14, sparse: 9, dense: 14 },
    WIDEST,
];

impl Node {
    fn new(byte: u8) -> Node {
        Node { byte, ..Node::default() }
    }

    /// Returns the largest distance to a child if the node is written at `at`.
    fn distance_max(&self, at: u64) -> u64 {
        if !self.far_children {
            return self.children.first().map_or(0, |first| self.branch_len.saturating_sub(first.branch_len)) as u64;
        }
        let placed = self.children.iter().filter_map(|child| child.at).map(|child| at.saturating_sub(child)).max();
        let unplaced = self.children.iter().find(|child| child.at.is_none());
        let unplaced = unplaced.map(|child| self.branch_len.saturating_sub(child.branch_len) as u64);
        placed.unwrap_or(0).max(unplaced.unwrap_or(0))
    }

    /// Returns how many bytes lie from the first child's to the last child's, both included.
    fn span(&self) -> usize {
        match (self.children.first(), self.children.last()) {
            (Some(first), Some(last)) => usize::from(last.byte) - usize::from(first.byte) + 1,
            _ => 0,
        }
    }

    fn kind(&self, at: u64) -> u8 {
        if self.children.is_empty() {
            return 0;
        }
        let distance = self.distance_max(at);
        let mut fitting = KINDS.iter().filter(|kinds| distance.checked_shr(kinds.bits).is_none_or(|rest| rest == 0));
        if self.children.len() == 1 {
            // The kinds of 4 and 12 bits have no payload.
            let fits = |kinds: &&Kinds| self.payload.is_none() || !matches!(kinds.single, 1 | 3);
            return fitting.find(fits).unwrap_or(&WIDEST).single;
        }
        let Kinds { sparse, dense, .. } = *fitting.next().unwrap_or(&WIDEST);
        if self.kind_len(sparse) < self.kind_len(dense) { sparse } else { dense }
    }

    fn kind_len(&self, kind: u8) -> usize {
        let count = self.children.len();
        match kind {
            0 => 1,
            1 => 2,
            3 => 3,
            2 | 4 => 2 + distance_bits(kind) / 8,
            5..=9 => 2 + count + (count * distance_bits(kind)).div_ceil(8),
            _ => 3 + (self.span() * distance_bits(kind)).div_ceil(8),
        }
    }

    fn len_at(&self, at: u64) -> usize {
        self.kind_len(self.kind(at)) + self.payload.as_ref().map_or(0, |payload| payload.len.into())
    }

    fn total(&self) -> usize {
        self.branch_len + self.len
    }

    fn placed(&mut self, at: u64) {
        *self = Node { byte: self.byte, at: Some(at), ..Node::default() };
    }

    /// Recalculates the sizes of a branch whose first byte is written at `at`. Returns its length.
    fn resize(&mut self, at: u64) -> usize {
        if self.far_branch {
            let mut sum = 0;
            for child in &mut self.children {
                sum += child.resize(at + sum as u64);
            }
            self.branch_len = sum;
        }
        if self.far_children || self.far_branch {
            self.len = self.len_at(at + self.branch_len as u64);
        }
        self.total()
    }

    /// Writes the unwritten nodes below the node, then the node. Returns its offset.
    fn write(&mut self, out: &mut Output) -> u64 {
        let start = out.len();
        for child in &mut self.children {
            if child.at.is_none() {
                child.at = Some(child.write(out));
            }
        }
        let at = out.len();
        debug_assert_eq!(at, start + self.branch_len as u64);
        self.push(at, out.tail());
        at
    }

    fn push(&self, at: u64, out: &mut Vec<u8>) {
        let kind = self.kind(at);
        let flags = self.payload.as_ref().map_or(0, |payload| payload.flags);
        let distance = |child: &Node| at - child.at.unwrap_or(at);
        let first = self.children.first().map_or(0, distance);
        let byte = self.children.first().map_or(0, |child| child.byte);
        match kind {
            0 => out.push(flags),
            1 => out.extend_from_slice(&[0x10 | first as u8, byte]),
            3 => out.extend_from_slice(&[0x30 | (first >> 8) as u8, first as u8, byte]),
            _ => out.push(kind << 4 | flags),
        }
        match kind {
            0 | 1 | 3 => {}
            2 | 4 => {
                out.push(byte);
                push_packed(distance_bits(kind), std::iter::once(first), out);
            }
            5..=9 => {
                out.push(self.children.len() as u8);
                out.extend(self.children.iter().map(|child| child.byte));
                push_packed(distance_bits(kind), self.children.iter().map(distance), out);
            }
            _ => {
                out.push(byte);
                out.push((self.span() - 1) as u8);
                let mut children = self.children.iter().peekable();
                let distances = (0..self.span()).map(|slot| {
                    let child = children.next_if(|child| usize::from(child.byte - byte) == slot);
                    child.map_or(0, distance)
                });
                push_packed(distance_bits(kind), distances, out);
            }
        }
        out.extend_from_slice(self.payload.as_ref().map_or(&[], |payload| payload.bytes()));
    }
}

/// Appends numbers of `bits` each.
fn push_packed(bits: usize, mut numbers: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
    if bits != 12 {
        numbers.for_each(|number| out.extend_from_slice(last_bytes(&number.to_be_bytes(), bits / 8)));
        return;
    }
    while let Some(first) = numbers.next() {
        let second = numbers.next();
        out.push((first >> 4) as u8);
        out.push((first << 4) as u8 | second.map_or(0, |second| (second >> 8) as u8));
        out.extend(second.map(|second| second as u8));
    }
}

impl TrieWriter {
    /// Adds a key. Panics unless it is above the last one.
    pub(crate) fn add(&mut self, key: &[u8], payload: Payload, out: &mut Output) {
        let shared = key.iter().zip(&self.last).take_while(|(a, b)| a == b).count();
        assert!(self.count == 0 || key > &self.last[..], "keys of a trie ascend");
        while self.stack.len() > shared + 1 {
            self.complete_last(out);
        }
        self.stack.extend(key.iter().skip(shared).map(|byte| Node::new(*byte)));
        if let Some(node) = self.stack.last_mut() {
            node.payload = Some(payload);
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.count += 1;
    }

    /// Writes the nodes that are left. Returns the offset of the root.
    pub(crate) fn finish(mut self, out: &mut Output) -> u64 {
        while self.stack.len() > 1 {
            self.complete_last(out);
        }
        let mut root = self.stack.pop().unwrap_or_default();
        complete(&mut root, out);
        let mut len = root.resize(out.len());
        if len > page_left(out) {
            if len <= PAGE_BYTES {
                pad(out);
                len = root.resize(out.len());
            }
            if len > page_left(out) {
                lay_out_children(&mut root, out);
                if root.len > page_left(out) {
                    pad(out);
                    root.resize(out.len());
                }
            }
        }
        root.write(out)
    }

    fn complete_last(&mut self, out: &mut Output) {
        if let Some(mut node) = self.stack.pop() {
            complete(&mut node, out);
            if let Some(parent) = self.stack.last_mut() {
                parent.children.push(node);
            }
        }
    }
}

/// Calculates the size of a node whose children are all known. Writes the branches below it if they do not fit into a
/// page with it.
fn complete(node: &mut Node, out: &mut Output) {
    node.branch_len = node.children.iter().map(Node::total).sum();
    // The size is estimated from above first: as if any child could be far away.
    node.far_children = true;
    let len = node.len_at(out.len());
    if len + node.branch_len < PAGE_BYTES {
        node.len = len;
        node.far_children = node.children.iter().any(|child| child.at.is_some());
        let far = |child: &Node| child.at.is_none() && (child.far_children || child.far_branch);
        node.far_branch = node.children.iter().any(far);
        return;
    }
    lay_out_children(node, out);
}

/// Writes the unwritten branches below a node.
fn lay_out_children(node: &mut Node, out: &mut Output) {
    let mut left = page_left(out);
    // Unwritten branches in ascending order of length, then byte: the last fitting one is written first.
    let unplaced = node.children.iter().enumerate().filter(|(_, child)| child.at.is_none());
    let mut open: Vec<(usize, usize)> = unplaced.map(|(index, child)| (child.total(), index)).collect();
    open.sort_unstable();
    while !open.is_empty() {
        let mut fitting = open.partition_point(|(len, _)| *len <= left);
        if fitting == 0 {
            pad(out);
            left = PAGE_BYTES;
            fitting = open.len();
        }
        let (_, index) = open.remove(fitting - 1);
        let Some(child) = node.children.get_mut(index) else { continue };
        if child.far_children || child.far_branch {
            let len = child.resize(out.len());
            if len > left {
                if left == PAGE_BYTES {
                    lay_out_children(child, out);
                    left = page_left(out);
                }
                let resized = (child.total(), index);
                open.insert(open.partition_point(|other| *other < resized), resized);
                continue;
            }
        }
        let at = child.write(out);
        child.placed(at);
        left = page_left(out);
    }
    node.branch_len = 0;
    node.far_children = true;
    node.far_branch = false;
    node.len = node.len_at(out.len());
}

/// Returns how many bytes are left in the page at the end of a trie's file: the whole page if it is empty.
fn page_left(out: &Output) -> usize {
    PAGE_BYTES - (out.len() % PAGE_BYTES as u64) as usize
}

/// Fills up the page at the end of a trie's file with zeros, unless it is empty.
fn pad(out: &mut Output) {
    let left = page_left(out) % PAGE_BYTES;
    let tail = out.tail();
    tail.resize(tail.len() + left, 0);
}

/// Returns the last `len` bytes of a big-endian number.
pub(crate) fn last_bytes(number: &[u8; 8], len: usize) -> &[u8] {
    number.get(8usize.saturating_sub(len)..).unwrap_or(number)
}

/// Returns how many bytes at the end of a signed number determine it, 1 to 8.
pub(crate) fn signed_len(number: i64) -> usize {
    let magnitude = if number < 0 { !number } else { number };
    (65 - magnitude.leading_zeros() as usize).div_ceil(8).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_tries_are_filled() {
        let mut out = Output::new();
        pad(&mut out);
        assert_eq!(out.len(), 0);
        out.extend(&[1]);
        out.drain(|_| {});
        assert_eq!(page_left(&out), PAGE_BYTES - 1);
        pad(&mut out);
        assert_eq!(out.len(), PAGE_BYTES as u64);
        assert_eq!(page_left(&out), PAGE_BYTES);
    }
}
