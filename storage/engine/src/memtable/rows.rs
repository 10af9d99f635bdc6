//! The rows of one partition, ordered by comparable clustering: none, one, or a copy-on-write B+tree.
//!
//! 1. An entry points to the clustering and the row blob in the arena and carries the first eight bytes of the
//!    comparable form, so that most comparisons touch no other memory.
//! 2. Nodes are shared by `Rc`: a writer goes through `Rc::make_mut`, which copies a node only while a snapshot
//!    shares it.
//! 3. Inner nodes count the rows below each child, so that the size of a slice is known before it is read.
//!
//! Invariants: leaves and inner nodes hold at least one entry and at most [`FANOUT_MAX`]; all leaves are at the same
//! depth; an inner entry's key is at most the first key below it and greater than every key below the previous entry.

use super::arena::{Arena, Span};
use std::cmp::Ordering;
use std::rc::Rc;

/// Most entries of a node.
pub const FANOUT_MAX: usize = 32;
/// Most levels of a tree: enough for any number of rows that fits in memory.
pub const DEPTH_MAX: usize = 12;

/// The key of a row: its comparable form and its clustering values, side by side in the arena.
#[derive(Clone, Copy, Debug)]
pub struct RowKey {
    prefix: u64,
    pair: Span,
    comparable_len: u32,
}

impl RowKey {
    /// Copies a clustering into the arena.
    pub fn put(arena: &mut Arena, comparable: &[u8], clustering: &[u8]) -> RowKey {
        let pair = arena.put(&[comparable, clustering]);
        RowKey { prefix: prefix(comparable), pair, comparable_len: comparable.len() as u32 }
    }

    /// The comparable form.
    pub fn comparable<'a>(&self, arena: &'a Arena) -> &'a [u8] {
        arena.get_pair(self.pair, self.comparable_len).0
    }

    /// The clustering values as [`model::mutation::Clustering`] reads them.
    pub fn clustering<'a>(&self, arena: &'a Arena) -> &'a [u8] {
        arena.get_pair(self.pair, self.comparable_len).1
    }

    fn cmp(&self, arena: &Arena, probe: &Probe<'_>) -> Ordering {
        self.prefix.cmp(&probe.prefix).then_with(|| self.comparable(arena).cmp(probe.comparable))
    }
}

/// A row of a partition.
#[derive(Clone, Copy, Debug)]
pub struct RowEntry {
    /// The row's clustering.
    pub key: RowKey,
    /// The row's blob in the arena.
    pub blob: Span,
}

impl RowEntry {
    /// Begins to bring the clustering and the beginning of the blob into the CPU's caches.
    #[inline]
    pub fn prefetch(&self, arena: &Arena) {
        arena.prefetch_within(self.key.pair);
        arena.prefetch_within(self.blob);
    }
}

/// A comparable form to search for, with its prefix.
#[derive(Clone, Copy)]
struct Probe<'a> {
    prefix: u64,
    comparable: &'a [u8],
}

impl<'a> Probe<'a> {
    fn new(comparable: &'a [u8]) -> Probe<'a> {
        Probe { prefix: prefix(comparable), comparable }
    }
}

/// The first eight bytes, padded with zeros. If the prefixes of two forms differ, they order as the forms do.
fn prefix(comparable: &[u8]) -> u64 {
    match comparable.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..comparable.len()].copy_from_slice(comparable);
            u64::from_be_bytes(bytes)
        }
    }
}

#[derive(Debug)]
enum Node {
    Leaf(Vec<RowEntry>),
    Inner(Vec<Child>),
}

impl Clone for Node {
    /// Keeps the capacity, so that the accounted memory stays right.
    fn clone(&self) -> Node {
        fn copy<T: Clone>(entries: &Vec<T>) -> Vec<T> {
            let mut copy = Vec::with_capacity(entries.capacity());
            copy.extend_from_slice(entries);
            copy
        }
        match self {
            Node::Leaf(entries) => Node::Leaf(copy(entries)),
            Node::Inner(children) => Node::Inner(copy(children)),
        }
    }
}

#[derive(Clone, Debug)]
struct Child {
    first: RowKey,
    rows: u64,
    node: Rc<Node>,
}

/// Memory of a node apart from its entries: reference counts and the vector.
const NODE_BYTES: usize = 48;

impl Node {
    fn bytes(&self) -> usize {
        NODE_BYTES
            + match self {
                Node::Leaf(entries) => entries.capacity() * size_of::<RowEntry>(),
                Node::Inner(children) => children.capacity() * size_of::<Child>(),
            }
    }

    fn first(&self) -> RowKey {
        match self {
            Node::Leaf(entries) => entries[0].key,
            Node::Inner(children) => children[0].first,
        }
    }

    fn rows(&self) -> u64 {
        match self {
            Node::Leaf(entries) => entries.len() as u64,
            Node::Inner(children) => children.iter().map(|child| child.rows).sum(),
        }
    }
}

/// The rows of one partition.
#[derive(Clone, Default, Debug)]
pub enum Rows {
    /// No row.
    #[default]
    Empty,
    /// One row, stored inline.
    One(RowEntry),
    /// Two rows or more.
    Tree(Tree),
}

/// The B+tree of [`Rows::Tree`].
#[derive(Clone, Debug)]
pub struct Tree {
    root: Rc<Node>,
    rows: u64,
}

/// What [`Rows::upsert`] found.
pub enum Upsert<'t> {
    /// The row exists; its blob may be replaced through this reference.
    Found(&'t mut Span),
    /// The row was added. Holds the bytes of memory added outside the arena.
    Added(usize),
}

impl Rows {
    /// Finds the row of `comparable`, or adds the entry that `make` returns.
    pub fn upsert<'t>(
        &'t mut self,
        arena: &mut Arena,
        comparable: &[u8],
        make: impl FnOnce(&mut Arena) -> RowEntry,
    ) -> Upsert<'t> {
        let probe = Probe::new(comparable);
        if let Rows::Empty = self {
            *self = Rows::One(make(arena));
            return Upsert::Added(0);
        }
        if let Rows::One(entry) = *self {
            let order = entry.key.cmp(arena, &probe);
            if order != Ordering::Equal {
                let added = make(arena);
                let entries = if order == Ordering::Less { vec![entry, added] } else { vec![added, entry] };
                let root = Node::Leaf(entries);
                let bytes = root.bytes();
                *self = Rows::Tree(Tree { root: Rc::new(root), rows: 2 });
                return Upsert::Added(bytes);
            }
        }
        match self {
            Rows::One(entry) => Upsert::Found(&mut entry.blob),
            Rows::Tree(tree) => {
                if tree.root.contains(arena, &probe) {
                    match Rc::make_mut(&mut tree.root).blob_mut(arena, &probe) {
                        Some(blob) => Upsert::Found(blob),
                        None => unreachable!("contains() found the row"),
                    }
                } else {
                    Upsert::Added(tree.insert(make(arena), arena))
                }
            }
            Rows::Empty => unreachable!("handled above"),
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> u64 {
        match self {
            Rows::Empty => 0,
            Rows::One(_) => 1,
            Rows::Tree(tree) => tree.rows,
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of rows whose comparable form is less than `comparable`.
    pub fn rank(&self, arena: &Arena, comparable: &[u8]) -> u64 {
        let probe = Probe::new(comparable);
        match self {
            Rows::Empty => 0,
            Rows::One(entry) => u64::from(entry.key.cmp(arena, &probe) == Ordering::Less),
            Rows::Tree(tree) => {
                let mut node = &*tree.root;
                let mut rank = 0;
                loop {
                    match node {
                        Node::Leaf(entries) => {
                            return rank + lower_bound(entries, |entry| entry.key.cmp(arena, &probe)) as u64;
                        }
                        Node::Inner(children) => {
                            let index = child_of(children, arena, &probe);
                            rank += children[..index].iter().map(|child| child.rows).sum::<u64>();
                            node = &children[index].node;
                        }
                    }
                }
            }
        }
    }

    /// Iterates forwards from the first row at or after `start`; with `exclusive` only from after `start`.
    pub fn ascend<'a>(&'a self, arena: &Arena, start: &[u8], exclusive: bool) -> RowIter<'a> {
        self.seek(arena, Some(start), exclusive, false)
    }

    /// Iterates backwards from the last row before `end`, or from the last row of all if `end` is `None`.
    pub fn descend<'a>(&'a self, arena: &Arena, end: Option<&[u8]>) -> RowIter<'a> {
        self.seek(arena, end, false, true)
    }

    fn seek<'a>(&'a self, arena: &Arena, bound: Option<&[u8]>, exclusive: bool, backwards: bool) -> RowIter<'a> {
        let mut iter = RowIter { stack: [const { None }; DEPTH_MAX], depth: 0, leaf: &[], at: 0, backwards };
        let probe = bound.map(Probe::new);
        // The number of entries before the position: those less than the bound, or equal to it if `exclusive`.
        let place = |entries: &[RowEntry]| match &probe {
            None => entries.len(),
            Some(probe) => lower_bound(entries, |entry| match entry.key.cmp(arena, probe) {
                Ordering::Equal if exclusive => Ordering::Less,
                order => order,
            }),
        };
        match self {
            Rows::Empty => {}
            Rows::One(entry) => {
                iter.leaf = std::slice::from_ref(entry);
                iter.at = place(iter.leaf);
            }
            Rows::Tree(tree) => {
                let mut node = &*tree.root;
                loop {
                    match node {
                        Node::Leaf(entries) => {
                            iter.leaf = entries;
                            iter.at = place(entries);
                            break;
                        }
                        Node::Inner(children) => {
                            let index = match &probe {
                                None => children.len() - 1,
                                Some(probe) => child_of(children, arena, probe),
                            };
                            iter.stack[iter.depth] = Some((children, index));
                            iter.depth += 1;
                            node = &children[index].node;
                        }
                    }
                }
            }
        }
        iter
    }
}

impl Tree {
    fn insert(&mut self, entry: RowEntry, arena: &Arena) -> usize {
        let comparable = entry.key.comparable(arena);
        let probe = Probe { prefix: entry.key.prefix, comparable };
        let (mut bytes, split) = Rc::make_mut(&mut self.root).insert(entry, arena, &probe);
        if let Some(right) = split {
            let left = self.root.clone();
            let mut children = Vec::with_capacity(FANOUT_MAX);
            children.push(Child { first: left.first(), rows: left.rows(), node: left });
            children.push(Child { first: right.first(), rows: right.rows(), node: Rc::new(right) });
            let root = Node::Inner(children);
            bytes += root.bytes();
            self.root = Rc::new(root);
        }
        self.rows += 1;
        bytes
    }
}

impl Node {
    fn contains(&self, arena: &Arena, probe: &Probe<'_>) -> bool {
        let mut node = self;
        loop {
            match node {
                Node::Leaf(entries) => {
                    let at = lower_bound(entries, |entry| entry.key.cmp(arena, probe));
                    return entries.get(at).is_some_and(|entry| entry.key.cmp(arena, probe) == Ordering::Equal);
                }
                Node::Inner(children) => node = &children[child_of(children, arena, probe)].node,
            }
        }
    }

    fn blob_mut(&mut self, arena: &Arena, probe: &Probe<'_>) -> Option<&mut Span> {
        match self {
            Node::Leaf(entries) => {
                let at = lower_bound(entries, |entry| entry.key.cmp(arena, probe));
                entries.get_mut(at).map(|entry| &mut entry.blob)
            }
            Node::Inner(children) => {
                let index = child_of(children, arena, probe);
                Rc::make_mut(&mut children[index].node).blob_mut(arena, probe)
            }
        }
    }

    /// Adds a row. Returns the bytes of memory added and, if the node was split, its right half.
    fn insert(&mut self, entry: RowEntry, arena: &Arena, probe: &Probe<'_>) -> (usize, Option<Node>) {
        let before = self.bytes();
        match self {
            Node::Leaf(entries) => {
                let at = lower_bound(entries, |other| other.key.cmp(arena, probe));
                if entries.len() < FANOUT_MAX {
                    entries.insert(at, entry);
                    return (self.bytes() - before, None);
                }
                // Rows that arrive in order leave full leaves behind, so such a split moves nothing.
                let middle = if at == entries.len() { entries.len() } else { entries.len() / 2 };
                let mut right = Vec::with_capacity(FANOUT_MAX);
                right.extend(entries.drain(middle..));
                if at >= middle {
                    right.insert(at - middle, entry);
                } else {
                    entries.insert(at, entry);
                }
                let right = Node::Leaf(right);
                (self.bytes() - before + right.bytes(), Some(right))
            }
            Node::Inner(children) => {
                let index = child_of(children, arena, probe);
                let child = &mut children[index];
                let (mut bytes, split) = Rc::make_mut(&mut child.node).insert(entry, arena, probe);
                child.rows = match split {
                    None => child.rows + 1,
                    Some(_) => child.node.rows(),
                };
                if index == 0 {
                    child.first = child.node.first();
                }
                let Some(right) = split else { return (bytes, None) };
                let added = Child { first: right.first(), rows: right.rows(), node: Rc::new(right) };
                if children.len() < FANOUT_MAX {
                    children.insert(index + 1, added);
                    bytes += self.bytes() - before;
                    return (bytes, None);
                }
                let at = index + 1;
                let middle = if at == children.len() { children.len() } else { children.len() / 2 };
                let mut half = Vec::with_capacity(FANOUT_MAX);
                half.extend(children.drain(middle..));
                if at >= middle {
                    half.insert(at - middle, added);
                } else {
                    children.insert(at, added);
                }
                let half = Node::Inner(half);
                bytes += self.bytes() - before + half.bytes();
                (bytes, Some(half))
            }
        }
    }
}

/// The number of entries at the front that are less than what is searched for.
fn lower_bound<T>(entries: &[T], order: impl Fn(&T) -> Ordering) -> usize {
    entries.partition_point(|entry| order(entry) == Ordering::Less)
}

/// The index of the child below which a key lies or belongs.
fn child_of(children: &[Child], arena: &Arena, probe: &Probe<'_>) -> usize {
    children.partition_point(|child| child.first.cmp(arena, probe) != Ordering::Greater).saturating_sub(1)
}

/// Iterates over rows forwards or backwards.
pub struct RowIter<'a> {
    stack: [Option<(&'a [Child], usize)>; DEPTH_MAX],
    depth: usize,
    leaf: &'a [RowEntry],
    /// Forwards: the index of the next row in `leaf`. Backwards: one more than that index.
    at: usize,
    backwards: bool,
}

impl<'a> Iterator for RowIter<'a> {
    type Item = &'a RowEntry;

    fn next(&mut self) -> Option<&'a RowEntry> {
        loop {
            if self.backwards {
                if self.at > 0 {
                    self.at -= 1;
                    return self.leaf.get(self.at);
                }
            } else if let Some(entry) = self.leaf.get(self.at) {
                self.at += 1;
                return Some(entry);
            }
            if !self.next_leaf() {
                return None;
            }
        }
    }
}

impl<'a> RowIter<'a> {
    /// The row that comes `count` rows after the next one, if it is in the same leaf.
    #[inline]
    pub fn later(&self, count: usize) -> Option<&'a RowEntry> {
        let at = if self.backwards { self.at.checked_sub(count + 1)? } else { self.at + count };
        self.leaf.get(at)
    }

    fn next_leaf(&mut self) -> bool {
        let mut level = self.depth;
        let mut node = loop {
            let Some(above) = level.checked_sub(1) else { return false };
            level = above;
            let Some((children, index)) = &mut self.stack[level] else { return false };
            let next = if self.backwards { index.checked_sub(1) } else { Some(*index + 1) };
            if let Some(next) = next
                && let Some(child) = children.get(next)
            {
                *index = next;
                break &*child.node;
            }
        };
        loop {
            level += 1;
            match node {
                Node::Leaf(entries) => {
                    self.leaf = entries;
                    self.at = if self.backwards { entries.len() } else { 0 };
                    return true;
                }
                Node::Inner(children) => {
                    let index = if self.backwards { children.len() - 1 } else { 0 };
                    self.stack[level] = Some((children, index));
                    node = &children[index].node;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::rng::Rng;
    use std::collections::BTreeMap;
    use std::ops::Bound;

    fn check(rows: &Rows, arena: &Arena, model: &BTreeMap<Vec<u8>, u8>, probe: &[u8]) {
        assert_eq!(rows.len(), model.len() as u64);
        assert_eq!(
            rows.rank(arena, probe),
            model.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(probe))).count() as u64
        );
        let key = |entry: &RowEntry| entry.key.comparable(arena).to_vec();
        let up: Vec<_> = rows.ascend(arena, probe, false).map(key).collect();
        let expected: Vec<_> =
            model.range::<[u8], _>((Bound::Included(probe), Bound::Unbounded)).map(|(k, _)| k.clone()).collect();
        assert_eq!(up, expected);
        let after: Vec<_> = rows.ascend(arena, probe, true).map(key).collect();
        let expected: Vec<_> = expected.into_iter().filter(|k| k != probe).collect();
        assert_eq!(after, expected);
        let down: Vec<_> = rows.descend(arena, Some(probe)).map(key).collect();
        let expected: Vec<_> =
            model.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(probe))).rev().map(|(k, _)| k.clone()).collect();
        assert_eq!(down, expected);
        for mut iter in [rows.ascend(arena, probe, false), rows.descend(arena, None)] {
            let later = iter.later(1).map(key);
            iter.next();
            let second = iter.next().map(key);
            assert!(later.is_none() || later == second, "{later:?} comes later, not {second:?}");
        }
        let down: Vec<_> = rows.descend(arena, None).map(key).collect();
        let expected: Vec<_> = model.keys().rev().cloned().collect();
        assert_eq!(down, expected);
        for entry in rows.descend(arena, None) {
            assert_eq!(arena.get(entry.blob), &[model[entry.key.comparable(arena)]]);
        }
    }

    fn put(rows: &mut Rows, arena: &mut Arena, key: &[u8], value: u8) -> usize {
        let make = |arena: &mut Arena| RowEntry { key: RowKey::put(arena, key, b"c"), blob: arena.put_blob(&[value]) };
        match rows.upsert(arena, key, make) {
            Upsert::Added(bytes) => bytes,
            Upsert::Found(blob) => {
                *blob = arena.put_blob(&[value]);
                0
            }
        }
    }

    fn bytes_of(rows: &Rows) -> usize {
        fn walk(node: &Node) -> usize {
            node.bytes()
                + match node {
                    Node::Leaf(_) => 0,
                    Node::Inner(children) => children.iter().map(|child| walk(&child.node)).sum(),
                }
        }
        match rows {
            Rows::Tree(tree) => walk(&tree.root),
            _ => 0,
        }
    }

    #[test]
    fn random_rows_match_a_model_and_snapshots_stay() {
        for seed in 0..12 {
            let mut rng = Rng::new(seed);
            let mut arena = Arena::new();
            let mut rows = Rows::default();
            let mut model = BTreeMap::new();
            let mut bytes = 0;
            let mut snapshot: Option<(Rows, BTreeMap<Vec<u8>, u8>)> = None;
            // Short keys of few letters: many share prefixes, are prefixes of others, or differ only behind byte 8.
            let key = |rng: &mut Rng| -> Vec<u8> {
                let mut key = if rng.chance(0.5) { vec![7; 8] } else { Vec::new() };
                key.extend((0..rng.below(7)).map(|_| rng.below(3) as u8));
                key
            };
            for i in 0..2500 {
                let k = if seed % 3 == 0 { (i as u32).to_be_bytes().to_vec() } else { key(&mut rng) };
                let value = rng.below(256) as u8;
                bytes += put(&mut rows, &mut arena, &k, value);
                model.insert(k, value);
                if i % 97 == 0 {
                    check(&rows, &arena, &model, &key(&mut rng));
                    if let Some((old, old_model)) = &snapshot {
                        check(old, &arena, old_model, &key(&mut rng));
                    }
                    if rng.chance(0.3) {
                        snapshot = Some((rows.clone(), model.clone()));
                    }
                }
            }
            check(&rows, &arena, &model, &[1]);
            drop(snapshot);
            assert_eq!(bytes, bytes_of(&rows));
        }
    }

    #[test]
    fn rows_in_order_fill_their_leaves() {
        let mut arena = Arena::new();
        let mut rows = Rows::default();
        let mut bytes = 0;
        for i in 0..10_000u32 {
            bytes += put(&mut rows, &mut arena, &i.to_be_bytes(), 1);
        }
        assert!(bytes < 10_000 * size_of::<RowEntry>() * 5 / 4, "{bytes} bytes");
    }
}
