//! Writing a trie of sorted keys into pages, byte by byte as Cassandra lays it out.
//!
//! 1. The nodes of the last key are a stack. A key that leaves a node completes it, which fixes its size and, as long
//!    as none of its children is elsewhere, its place relative to them.
//! 2. A completed node that does not fit into a page together with the branches below it has them written: the largest
//!    that fits into what is left of the page first, of equal ones that of the largest byte, into a new page if none
//!    fits. From then on it is a node with children elsewhere.
//! 3. At the end what is left is written, into a new page if it fits there and not into what is left of this one.
//!
//! Invariants: keys come in ascending order; a child is written before its parent; a page that is begun is filled with
//! zeros.

use super::PAGE_BYTES;
use crate::writer::Out;

/// Most bytes of a payload: a place and a deletion.
const PAYLOAD_BYTES_MAX: usize = 24;

/// What a node carries: its flags and bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Payload {
    pub(crate) flags: u8,
    len: u8,
    bytes: [u8; PAYLOAD_BYTES_MAX],
}

impl Payload {
    /// Panics if the bytes are more than [`PAYLOAD_BYTES_MAX`].
    pub(crate) fn new(flags: u8, parts: &[&[u8]]) -> Payload {
        let mut payload = Payload { flags, len: 0, bytes: [0; PAYLOAD_BYTES_MAX] };
        for part in parts {
            let start = usize::from(payload.len);
            payload.bytes[start..start + part.len()].copy_from_slice(part);
            payload.len += part.len() as u8;
        }
        payload
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

#[derive(Default, Debug)]
struct Node {
    byte: u8,
    children: Vec<Node>,
    payload: Option<Payload>,
    /// Where it was written.
    at: Option<u64>,
    /// Bytes of what is below it and not written, and of itself.
    branch_len: usize,
    len: usize,
    /// A child was written, or something below a child that was not.
    far_children: bool,
    far_branch: bool,
}

/// Builds one trie at the end of a file.
#[derive(Debug)]
pub(crate) struct TrieWriter {
    stack: Vec<Node>,
    last: Vec<u8>,
    /// Keys.
    pub(crate) count: u64,
}

impl Default for TrieWriter {
    fn default() -> TrieWriter {
        TrieWriter { stack: vec![Node::default()], last: Vec::new(), count: 0 }
    }
}

/// The kinds of nodes by how far away children may be: bits, and the kinds for one child, few and many.
const KINDS: [(u32, u8, u8, u8); 8] = [
    (4, 1, 5, 10),
    (8, 2, 5, 10),
    (12, 3, 6, 10),
    (16, 4, 7, 11),
    (24, 12, 8, 12),
    (32, 13, 9, 13),
    (40, 14, 9, 14),
    (64, 15, 15, 15),
];

/// Bits of the distances of a kind.
fn bits(kind: u8) -> usize {
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

impl Node {
    fn new(byte: u8) -> Node {
        Node { byte, ..Node::default() }
    }

    /// The largest distance to a child, if the node is at `at`.
    fn distance_max(&self, at: u64) -> u64 {
        if !self.far_children {
            return self.children.first().map_or(0, |first| self.branch_len.saturating_sub(first.branch_len)) as u64;
        }
        let placed = self.children.iter().filter_map(|child| child.at).map(|child| at.saturating_sub(child)).max();
        let unplaced = self.children.iter().find(|child| child.at.is_none());
        let unplaced = unplaced.map(|child| self.branch_len.saturating_sub(child.branch_len) as u64);
        placed.unwrap_or(0).max(unplaced.unwrap_or(0))
    }

    /// The bytes from the first child's to the last one's.
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
        let mut index = KINDS.iter().position(|(bits, ..)| *bits == 64 || distance >> bits == 0).unwrap_or(7);
        if self.children.len() == 1 {
            // The kinds of 4 and 12 bits carry no payload.
            index += usize::from(self.payload.is_some() && matches!(index, 0 | 2));
            return KINDS[index].1;
        }
        let (_, _, sparse, dense) = KINDS[index];
        if self.kind_len(sparse) < self.kind_len(dense) { sparse } else { dense }
    }

    fn kind_len(&self, kind: u8) -> usize {
        let count = self.children.len();
        match kind {
            0 => 1,
            1 => 2,
            3 => 3,
            2 | 4 => 2 + bits(kind) / 8,
            5..=9 => 2 + count + (count * bits(kind)).div_ceil(8),
            _ => 3 + (self.span() * bits(kind)).div_ceil(8),
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

    /// Calculates sizes again, for a branch that begins at `at`.
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

    /// Writes the node behind what is below it.
    fn write(&mut self, out: &mut Out) -> u64 {
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
                push_packed(bits(kind), &[first], out);
            }
            5..=9 => {
                out.push(self.children.len() as u8);
                out.extend(self.children.iter().map(|child| child.byte));
                let distances: Vec<u64> = self.children.iter().map(distance).collect();
                push_packed(bits(kind), &distances, out);
            }
            _ => {
                out.push(byte);
                out.push((self.span() - 1) as u8);
                let mut distances = vec![0; self.span()];
                for child in &self.children {
                    distances[usize::from(child.byte - byte)] = distance(child);
                }
                push_packed(bits(kind), &distances, out);
            }
        }
        out.extend_from_slice(self.payload.as_ref().map_or(&[], |payload| payload.bytes()));
    }
}

fn push_packed(bits: usize, numbers: &[u64], out: &mut Vec<u8>) {
    if bits != 12 {
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()[8 - bits / 8..]));
        return;
    }
    for pair in numbers.chunks(2) {
        let second = pair.get(1).copied();
        out.push((pair[0] >> 4) as u8);
        out.push((pair[0] << 4) as u8 | second.map_or(0, |second| (second >> 8) as u8));
        out.extend(second.map(|second| second as u8));
    }
}

impl TrieWriter {
    /// Adds a key above the last one.
    pub(crate) fn add(&mut self, key: &[u8], payload: Payload, out: &mut Out) {
        let shared = key.iter().zip(&self.last).take_while(|(a, b)| a == b).count();
        assert!(self.count == 0 || key > &self.last[..], "keys of a trie ascend");
        while self.stack.len() > shared + 1 {
            self.complete_last(out);
        }
        self.stack.extend(key[shared..].iter().map(|byte| Node::new(*byte)));
        if let Some(node) = self.stack.last_mut() {
            node.payload = Some(payload);
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.count += 1;
    }

    /// Writes what is left and gives the place of the root.
    pub(crate) fn finish(mut self, out: &mut Out) -> u64 {
        while self.stack.len() > 1 {
            self.complete_last(out);
        }
        let mut root = self.stack.pop().unwrap_or_default();
        complete(&mut root, out);
        let mut len = root.resize(out.len());
        if len > out.page_left() {
            if len <= PAGE_BYTES {
                out.pad();
                len = root.resize(out.len());
            }
            if len > out.page_left() {
                lay_out_children(&mut root, out);
                if root.len > out.page_left() {
                    out.pad();
                    root.resize(out.len());
                }
            }
        }
        root.write(out)
    }

    fn complete_last(&mut self, out: &mut Out) {
        if let Some(mut node) = self.stack.pop() {
            complete(&mut node, out);
            if let Some(parent) = self.stack.last_mut() {
                parent.children.push(node);
            }
        }
    }
}

fn complete(node: &mut Node, out: &mut Out) {
    node.branch_len = node.children.iter().map(Node::total).sum();
    // Until it is known better a child may be anywhere.
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

/// Writes the branches of a node.
fn lay_out_children(node: &mut Node, out: &mut Out) {
    let mut left = out.page_left();
    // The branches that are not written, the largest last; of equal ones that of the largest byte.
    let unplaced = node.children.iter().enumerate().filter(|(_, child)| child.at.is_none());
    let mut open: Vec<(usize, usize)> = unplaced.map(|(index, child)| (child.total(), index)).collect();
    open.sort_unstable();
    while !open.is_empty() {
        let mut fitting = open.partition_point(|(len, _)| *len <= left);
        if fitting == 0 {
            out.pad();
            left = PAGE_BYTES;
            fitting = open.len();
        }
        let (_, index) = open.remove(fitting - 1);
        let child = &mut node.children[index];
        if child.far_children || child.far_branch {
            let len = child.resize(out.len());
            if len > left {
                if left == PAGE_BYTES {
                    lay_out_children(child, out);
                    left = out.page_left();
                }
                let resized = (child.total(), index);
                open.insert(open.partition_point(|other| *other < resized), resized);
                continue;
            }
        }
        let at = child.write(out);
        child.placed(at);
        left = out.page_left();
    }
    node.branch_len = 0;
    node.far_children = true;
    node.far_branch = false;
    node.len = node.len_at(out.len());
}

/// How many bytes at the end of a signed number are enough, at least one.
pub(crate) fn signed_len(number: i64) -> usize {
    let magnitude = if number < 0 { !number } else { number };
    (65 - magnitude.leading_zeros() as usize).div_ceil(8).max(1)
}
