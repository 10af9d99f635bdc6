//! Partition slots in token order in a B+tree: the default, and the fastest structure while a memtable has a single
//! writer.
//!
//! The layout is made for the CPU's caches: inner nodes are few enough to stay in the caches near the core; the
//! prefixes of a leaf take two cache lines, which memory delivers together; its slots are prefetched while the
//! prefixes are searched. So a look-up waits for memory once.
//!
//! Invariants: all leaves are at the same depth; no leaf is empty, unless it is the only one; the prefix that leads
//! to a child is at most the first one below it and greater than every one below the previous child; unused prefixes
//! are `u64::MAX`.

use super::partitions::{Slot, Slots};
use std::iter::successors;
use std::ops::Bound;

/// Slots of a leaf: the count and the prefixes together take 128 bytes.
const SLOTS: usize = 15;
/// Children of an inner node: the count and the prefixes together take 256 bytes.
const CHILDREN: usize = 31;

/// Slots by prefix in a B+tree.
#[derive(Default, Debug)]
pub struct TreeSlots {
    /// `None` until the first slot is inserted.
    root: Option<Node>,
}

#[derive(Debug)]
enum Node {
    /// Slots with their prefixes.
    Leaf(Box<Block<Slot, SLOTS>>),
    /// Children, each with the least prefix that leads to it; the first child's prefix is never compared.
    Inner(Box<Block<Node, CHILDREN>>),
}

/// Up to `N` values, sorted by prefix.
#[derive(Debug)]
#[repr(C, align(64))]
struct Block<T, const N: usize> {
    len: usize,
    prefixes: [u64; N],
    values: [Option<T>; N],
}

impl<T, const N: usize> Block<T, N> {
    fn new() -> Box<Block<T, N>> {
        Box::new(Block { len: 0, prefixes: [u64::MAX; N], values: [const { None }; N] })
    }

    fn is_full(&self) -> bool {
        self.len == N
    }

    /// Inserts a value at index `at`. The block must not be full.
    fn insert(&mut self, at: usize, prefix: u64, value: T) {
        self.prefixes.copy_within(at..self.len, at + 1);
        self.values[at..=self.len].rotate_right(1);
        self.prefixes[at] = prefix;
        self.values[at] = Some(value);
        self.len += 1;
    }

    /// Moves the upper half into a new block.
    fn split(&mut self) -> Box<Block<T, N>> {
        let mut right = Block::new();
        let middle = self.len / 2;
        right.len = self.len - middle;
        right.prefixes[..right.len].copy_from_slice(&self.prefixes[middle..self.len]);
        right.values[..right.len].swap_with_slice(&mut self.values[middle..self.len]);
        self.prefixes[middle..].fill(u64::MAX);
        self.len = middle;
        right
    }

    fn entries(&self) -> impl Iterator<Item = (u64, &T)> {
        self.prefixes.iter().copied().zip(self.values.iter().flatten())
    }

    fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        self.prefixes[self.len] = u64::MAX;
        self.values[self.len].take()
    }
}

impl Block<Slot, SLOTS> {
    /// The index of a prefix: `Ok` if it is there, `Err` with the index where it belongs if not.
    fn find(&self, prefix: u64) -> Result<usize, usize> {
        // Counting the smaller prefixes needs no branch that the CPU could mispredict.
        let at = self.prefixes.iter().map(|other| usize::from(*other < prefix)).sum();
        // `at < len`, because unused entries look like the largest prefix.
        if at < self.len && self.prefixes[at] == prefix { Ok(at) } else { Err(at) }
    }
}

impl Block<Node, CHILDREN> {
    /// The index of the child below which a prefix lies or belongs.
    fn child_of(&self, prefix: u64) -> usize {
        self.prefixes[..self.len].partition_point(|first| *first <= prefix).saturating_sub(1)
    }

    /// Splits a child if it is full. This node must have room for the new half.
    fn split_child(&mut self, at: usize) {
        if let Some((first, right)) = self.values[at].as_mut().and_then(Node::split) {
            self.insert(at + 1, first, right);
        }
    }
}

impl Node {
    fn is_full(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.is_full(),
            Node::Inner(inner) => inner.is_full(),
        }
    }

    /// Splits off the upper half of a full node, with the least prefix that leads to it; `None` if the node is not
    /// full.
    fn split(&mut self) -> Option<(u64, Node)> {
        if !self.is_full() {
            return None;
        }
        Some(match self {
            Node::Leaf(leaf) => {
                let right = leaf.split();
                (right.prefixes[0], Node::Leaf(right))
            }
            Node::Inner(inner) => {
                let right = inner.split();
                (right.prefixes[0], Node::Inner(right))
            }
        })
    }

    fn pop(&mut self) -> Option<Slot> {
        match self {
            Node::Leaf(leaf) => leaf.pop(),
            Node::Inner(inner) => loop {
                let last = inner.len.checked_sub(1)?;
                if let Some(slot) = inner.values[last].as_mut().and_then(Node::pop) {
                    return Some(slot);
                }
                inner.pop();
            },
        }
    }
}

impl TreeSlots {
    /// The leaf where a prefix is or belongs, and the least prefix that leads to the next leaf.
    fn leaf_of(&self, prefix: u64) -> Option<(&Block<Slot, SLOTS>, Option<u64>)> {
        let (mut node, mut after) = (self.root.as_ref()?, None);
        loop {
            match node {
                Node::Leaf(leaf) => return Some((leaf, after)),
                Node::Inner(inner) => {
                    let at = inner.child_of(prefix);
                    after = inner.prefixes[..inner.len].get(at + 1).copied().or(after);
                    node = inner.values[at].as_ref()?;
                }
            }
        }
    }

    /// Prefetches the leaf that a look-up of a prefix will search.
    pub(super) fn prefetch(&self, prefix: u64) {
        if let Some((leaf, _)) = self.leaf_of(prefix) {
            runtime::prefetch(std::slice::from_ref(leaf));
        }
    }
}

impl Slots for TreeSlots {
    // Leaves are two thirds full on average; each also has a prefix and a child pointer in the node above.
    const BYTES_EACH: usize = (size_of::<Block<Slot, SLOTS>>() + 24) * 3 / (2 * SLOTS);

    fn get(&self, prefix: u64) -> Option<&Slot> {
        let (leaf, _) = self.leaf_of(prefix)?;
        runtime::prefetch(&leaf.values);
        leaf.values[leaf.find(prefix).ok()?].as_ref()
    }

    fn get_or_insert(&mut self, prefix: u64, make: impl FnOnce() -> Slot) -> (&mut Slot, bool) {
        let mut node = self.root.get_or_insert_with(|| Node::Leaf(Block::new()));
        // Full nodes are split on the way down, so the leaf that is reached has room.
        if node.is_full() {
            let mut above = Block::new();
            above.insert(0, 0, std::mem::replace(node, Node::Leaf(Block::new())));
            *node = Node::Inner(above);
        }
        loop {
            match node {
                Node::Inner(inner) => {
                    inner.split_child(inner.child_of(prefix));
                    node = inner.values[inner.child_of(prefix)].as_mut().expect("a child up to the count");
                }
                Node::Leaf(leaf) => {
                    let found = leaf.find(prefix);
                    let at = found.unwrap_or_else(|at| {
                        leaf.insert(at, prefix, make());
                        at
                    });
                    return (leaf.values[at].as_mut().expect("a slot up to the count"), found.is_err());
                }
            }
        }
    }

    fn range(&self, from: Bound<u64>, until: u64) -> impl Iterator<Item = &Slot> {
        let from = match from {
            Bound::Unbounded => Some(0),
            Bound::Included(prefix) => Some(prefix),
            Bound::Excluded(prefix) => prefix.checked_add(1),
        };
        let leaves = |from| successors(self.leaf_of(from), |(_, after)| self.leaf_of((*after)?));
        let entries = from.map(|from| {
            let entries = leaves(from).flat_map(|(leaf, _)| leaf.entries());
            entries.skip_while(move |(prefix, _)| *prefix < from)
        });
        entries.into_iter().flatten().take_while(move |(prefix, _)| *prefix <= until).map(|(_, slot)| slot)
    }

    fn pop(&mut self) -> Option<Slot> {
        self.root.as_mut()?.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::arena::Arena;
    use crate::memtable::partition::Partition;
    use model::Token;
    use runtime::rng::Rng;
    use std::collections::BTreeSet;
    use std::rc::Rc;

    fn slot(prefix: u64) -> Slot {
        let token = Token((prefix ^ (1 << 63)) as i64);
        let key = Arena::new().put(&[]);
        Slot::One(Rc::new(Partition::new(token, key)), key)
    }

    fn prefix_of(slot: &Slot) -> u64 {
        match slot {
            Slot::One(partition, _) => partition.token.prefix(),
            Slot::Many(_) => unreachable!("each prefix has one"),
        }
    }

    /// Inserts each prefix twice, then looks up all of them and ranges between some of them.
    fn check(prefixes: impl Iterator<Item = u64>) -> TreeSlots {
        let (mut tree, mut expected) = (TreeSlots::default(), BTreeSet::new());
        for prefix in prefixes {
            for _ in 0..2 {
                let (found, made) = tree.get_or_insert(prefix, || slot(prefix));
                assert_eq!(prefix_of(found), prefix);
                assert_eq!(made, expected.insert(prefix));
            }
        }
        let around = |prefix: u64| [prefix.saturating_sub(1), prefix, prefix.saturating_add(1)];
        for prefix in expected.iter().flat_map(|prefix| around(*prefix)) {
            assert_eq!(tree.get(prefix).map(prefix_of), expected.get(&prefix).copied());
        }
        let some: Vec<u64> = expected.iter().copied().step_by(expected.len() / 20 + 1).chain([0, u64::MAX]).collect();
        for (from, until) in some.iter().flat_map(|from| some.iter().map(move |until| (*from, *until))) {
            for bound in [Bound::Unbounded, Bound::Included(from), Bound::Excluded(from)] {
                let listed = tree.range(bound, until).map(prefix_of);
                let starts = |prefix: &u64| match bound {
                    Bound::Included(from) => *prefix >= from,
                    Bound::Excluded(from) => *prefix > from,
                    Bound::Unbounded => true,
                };
                assert!(
                    listed.eq(expected.iter().copied().filter(|p| starts(p) && *p <= until)),
                    "{bound:?}..={until}"
                );
            }
        }
        tree
    }

    #[test]
    fn a_tree_has_what_was_put_in() {
        check([].into_iter());
        check([7].into_iter());
        check([u64::MAX, 0, u64::MAX - 1, 1].into_iter());
        check((0..SLOTS as u64 + 1).rev());
        check(0..3000);
        check((0..3000).rev());
        check((0..3000).map(|number| u64::MAX - number));
        let mut rng = Rng::new(3);
        check(std::iter::repeat_with(|| rng.below(u64::MAX)).take(40_000));
        check(std::iter::repeat_with(|| rng.below(2_000) << 53).take(4_000));
    }

    #[test]
    fn a_tree_is_taken_apart_slot_by_slot() {
        let mut tree = check((0..2000).map(|number| number << 40));
        for left in (0..2000).rev() {
            assert!(tree.pop().is_some());
            assert_eq!(tree.range(Bound::Unbounded, u64::MAX).count(), left);
        }
        assert!(tree.pop().is_none() && tree.get(0).is_none());
    }

    #[test]
    fn prefixes_of_a_leaf_take_two_cache_lines() {
        assert_eq!(std::mem::offset_of!(Block<Slot, SLOTS>, values), 128);
        assert_eq!(size_of::<Block<Slot, SLOTS>>(), 512);
        assert_eq!(std::mem::offset_of!(Block<Node, CHILDREN>, values), 256);
    }
}
