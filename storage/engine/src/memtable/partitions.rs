//! The partitions of a memtable in ring order, by token prefix and key.
//!
//! A prefix is the first 64 bits of a token as an unsigned number. Under the hashing partitioners nearly every prefix
//! has one partition. Partitions that share a prefix, as neighbouring keys do under the ordering partitioners, are
//! ordered by key in a tree of their own: one among many costs a logarithm, not a scan. Prefixes are found in a `tree`
//! or, for tables that ask for it, in a `skiplist`.

use super::arena::{Arena, Span};
use super::partition::{PARTITION_BYTES, Partition};
use super::skiplist::SkiplistSlots;
use super::tree::TreeSlots;
use model::token::RingPosition;
use model::{DecoratedKey, MemtableKind, Partitioner, Token};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

/// The partitions of one memtable.
#[expect(clippy::large_enum_variant, reason = "there is one per memtable, and a box would cost every access a load")]
pub enum Partitions {
    /// In a B+tree.
    Tree(Ordered<TreeSlots>),
    /// In a skip list.
    Skiplist(Ordered<SkiplistSlots>),
}

/// A map from prefixes to slots, in order of the prefixes.
pub trait Slots: Default {
    /// Bytes of memory that an entry takes, estimated.
    const BYTES_EACH: usize;

    /// The slot of a prefix, if there is one.
    fn get(&self, prefix: u64) -> Option<&Slot>;

    /// The slot of a prefix, which `make` creates if there is none, and whether it was created.
    fn get_or_insert(&mut self, prefix: u64, make: impl FnOnce() -> Slot) -> (&mut Slot, bool);

    /// The slots from `from` to `until`, in order. `until` is included and must not lie before `from`.
    fn range(&self, from: Bound<u64>, until: u64) -> impl Iterator<Item = &Slot>;

    /// Removes any one slot, to free the map in pieces; `None` when it is empty.
    fn pop(&mut self) -> Option<Slot>;
}

/// The partitions of one prefix.
#[derive(Debug)]
pub enum Slot {
    /// The only partition, and where its key lies in the arena, so that both can be prefetched at once.
    One(Rc<Partition>, Span),
    /// Several partitions by key; boxed, because most tables have none.
    Many(Box<BTreeMap<DecoratedKey, Rc<Partition>>>),
}

impl Default for Slot {
    /// An empty slot, left behind where a slot was taken.
    fn default() -> Slot {
        Slot::Many(Box::default())
    }
}

/// A position among the partitions, from which a range begins.
#[derive(Clone, Copy, Debug)]
pub enum From<'a> {
    /// Before all partitions.
    Start,
    /// At the first partition after a position on the ring.
    Position(&'a RingPosition),
    /// At this partition, or where it would be.
    At(u64, &'a [u8]),
    /// After this partition.
    After(u64, &'a [u8]),
}

impl Default for Partitions {
    fn default() -> Partitions {
        Partitions::new(Partitioner::default(), MemtableKind::default())
    }
}

impl Partitions {
    /// An empty collection of partitions, which lie on the ring as `partitioner` says.
    pub fn new(partitioner: Partitioner, kind: MemtableKind) -> Partitions {
        match kind {
            MemtableKind::Tree => Partitions::Tree(Ordered::new(partitioner)),
            MemtableKind::Skiplist => Partitions::Skiplist(Ordered::new(partitioner)),
        }
    }

    /// The data structure that holds the partitions.
    pub fn kind(&self) -> MemtableKind {
        match self {
            Partitions::Tree(_) => MemtableKind::Tree,
            Partitions::Skiplist(_) => MemtableKind::Skiplist,
        }
    }

    /// The partitioner whose order the partitions are in.
    pub fn partitioner(&self) -> Partitioner {
        match self {
            Partitions::Tree(ordered) => ordered.partitioner,
            Partitions::Skiplist(ordered) => ordered.partitioner,
        }
    }

    /// The partition of a key, if there is one.
    pub fn get(&self, arena: &Arena, prefix: u64, key: &[u8]) -> Option<&Rc<Partition>> {
        match self {
            Partitions::Tree(ordered) => ordered.get(arena, prefix, key),
            Partitions::Skiplist(ordered) => ordered.get(arena, prefix, key),
        }
    }

    /// Prefetches memory that [`Partitions::get`] will touch. Does nothing for a skip list, where finding the
    /// addresses is the look-up itself.
    pub fn prefetch(&self, arena: &Arena, prefix: u64, step: PrefetchStage) {
        if let Partitions::Tree(ordered) = self {
            match step {
                PrefetchStage::Way => ordered.slots.prefetch(prefix),
                PrefetchStage::Partition => {
                    if let Some(Slot::One(partition, place)) = ordered.slots.get(prefix) {
                        prefetch_one(arena, partition, *place);
                    }
                }
            }
        }
    }

    /// The partition of a key, which `make` creates if there is none, and whether it was created.
    pub fn get_or_insert(
        &mut self,
        arena: &mut Arena,
        prefix: u64,
        key: &[u8],
        make: impl FnOnce(&mut Arena) -> Partition,
    ) -> (&mut Rc<Partition>, bool) {
        match self {
            Partitions::Tree(ordered) => ordered.get_or_insert(arena, prefix, key, make),
            Partitions::Skiplist(ordered) => ordered.get_or_insert(arena, prefix, key, make),
        }
    }

    /// The partitions from `from` on, up to and including those of the prefix `until`.
    pub fn range<'a>(
        &'a self,
        arena: &Arena,
        from: From<'_>,
        until: u64,
    ) -> impl Iterator<Item = &'a Rc<Partition>> + use<'a> {
        let (tree, skiplist) = match self {
            Partitions::Tree(ordered) => (Some(ordered.range(arena, from, until)), None),
            Partitions::Skiplist(ordered) => (None, Some(ordered.range(arena, from, until))),
        };
        tree.into_iter().flatten().chain(skiplist.into_iter().flatten())
    }

    /// Frees the partitions of up to `slots` prefixes; false once none are left.
    pub fn pop(&mut self, slots: usize) -> bool {
        match self {
            Partitions::Tree(ordered) => ordered.pop(slots),
            Partitions::Skiplist(ordered) => ordered.pop(slots),
        }
    }

    /// How many partitions there are.
    pub fn len(&self) -> usize {
        match self {
            Partitions::Tree(ordered) => ordered.len,
            Partitions::Skiplist(ordered) => ordered.len,
        }
    }

    /// Whether there are no partitions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of one partition outside the arena, estimated.
    pub fn bytes_each(&self) -> usize {
        PARTITION_BYTES
            + match self {
                Partitions::Tree(_) => TreeSlots::BYTES_EACH,
                Partitions::Skiplist(_) => SkiplistSlots::BYTES_EACH,
            }
    }
}

/// The stages of prefetching for a look-up. Each needs the memory that the stage before has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrefetchStage {
    /// The nodes of the tree that lead to the partition.
    Way,
    /// The partition, its key and the beginning of its first row.
    Partition,
}

/// Prefetches a partition, and its key at `place` with what follows it in the arena: usually its first row.
fn prefetch_one(arena: &Arena, partition: &Rc<Partition>, place: Span) {
    runtime::prefetch(std::slice::from_ref(&**partition));
    arena.prefetch(place);
}

/// Partitions by prefix in `S`, and by key where prefixes collide.
#[derive(Debug)]
pub struct Ordered<S> {
    partitioner: Partitioner,
    slots: S,
    len: usize,
}

impl<S: Slots> Ordered<S> {
    fn new(partitioner: Partitioner) -> Ordered<S> {
        Ordered { partitioner, slots: S::default(), len: 0 }
    }

    fn decorated(&self, prefix: u64, key: &[u8]) -> DecoratedKey {
        DecoratedKey { token: Token::from_prefix(prefix), partitioner: self.partitioner, key: key.into() }
    }

    fn get(&self, arena: &Arena, prefix: u64, key: &[u8]) -> Option<&Rc<Partition>> {
        match self.slots.get(prefix)? {
            Slot::One(partition, place) => {
                prefetch_one(arena, partition, *place);
                (arena.get(*place) == key).then_some(partition)
            }
            Slot::Many(partitions) => partitions.get(&self.decorated(prefix, key)),
        }
    }

    fn get_or_insert(
        &mut self,
        arena: &mut Arena,
        prefix: u64,
        key: &[u8],
        make: impl FnOnce(&mut Arena) -> Partition,
    ) -> (&mut Rc<Partition>, bool) {
        use std::collections::btree_map::Entry;
        let partitioner = self.partitioner;
        let decorated = |key: &[u8]| DecoratedKey { token: Token::from_prefix(prefix), partitioner, key: key.into() };
        let mut make = Some(make);
        let mut partition = |arena: &mut Arena| {
            let make = make.take().expect("a partition is made once");
            Rc::new(make(arena))
        };
        let one = |partition: Rc<Partition>| {
            let place = partition.key;
            Slot::One(partition, place)
        };
        let (slot, made) = self.slots.get_or_insert(prefix, || one(partition(arena)));
        self.len += usize::from(made);
        if let Slot::One(partition, place) = slot
            && !made
            && arena.get(*place) != key
        {
            *slot = Slot::Many(Box::new(BTreeMap::from([(decorated(partition.key(arena)), partition.clone())])));
        }
        match slot {
            Slot::One(partition, _) => (partition, made),
            Slot::Many(partitions) => match partitions.entry(decorated(key)) {
                Entry::Occupied(occupied) => (occupied.into_mut(), false),
                Entry::Vacant(vacant) => {
                    self.len += 1;
                    (vacant.insert(partition(arena)), true)
                }
            },
        }
    }

    fn range<'a>(
        &'a self,
        arena: &Arena,
        from: From<'_>,
        until: u64,
    ) -> impl Iterator<Item = &'a Rc<Partition>> + use<'a, S> {
        let first = match from {
            From::Start => None,
            From::Position(position) => Some(position.token.token().prefix()),
            From::At(prefix, _) | From::After(prefix, _) => Some(prefix),
        };
        // The slot of the position's own prefix may hold partitions on both sides of the position.
        let is_in = |partition: &DecoratedKey| match from {
            From::Start => true,
            From::Position(position) => position.is_before_key(partition.token, &partition.key),
            From::At(prefix, key) => *partition >= self.decorated(prefix, key),
            From::After(prefix, key) => *partition > self.decorated(prefix, key),
        };
        let mut first_one = None;
        let mut first_many = None;
        if let Some(prefix) = first.filter(|prefix| *prefix <= until) {
            match self.slots.get(prefix) {
                Some(Slot::One(partition, _)) => {
                    first_one =
                        Some(partition).filter(|partition| is_in(&self.decorated(prefix, partition.key(arena))));
                }
                Some(Slot::Many(partitions)) => {
                    let key = match from {
                        From::Start => None,
                        From::Position(position) => position.token.key_before(),
                        From::At(_, key) | From::After(_, key) => Some(key),
                    };
                    let start = key.map_or(Bound::Unbounded, |key| Bound::Included(self.decorated(prefix, key)));
                    let mut partitions = partitions.range((start, Bound::Unbounded)).peekable();
                    while partitions.next_if(|(partition, _)| !is_in(partition)).is_some() {}
                    first_many = Some(partitions);
                }
                None => {}
            }
        }
        // A map may panic when asked for a range that begins at or behind its end; here such a range is empty.
        let rest = match first {
            Some(prefix) if prefix >= until => None,
            _ => Some(self.slots.range(first.map_or(Bound::Unbounded, Bound::Excluded), until)),
        };
        let rest = rest.into_iter().flatten().flat_map(|slot| {
            let (one, many) = match slot {
                Slot::One(partition, _) => (Some(partition), None),
                Slot::Many(partitions) => (None, Some(partitions.values())),
            };
            one.into_iter().chain(many.into_iter().flatten())
        });
        let first_many = first_many.into_iter().flatten().map(|(_, partition)| partition);
        first_one.into_iter().chain(first_many).chain(rest)
    }

    fn pop(&mut self, slots: usize) -> bool {
        for _ in 0..slots {
            match self.slots.pop() {
                None => return false,
                Some(Slot::One(..)) => self.len -= 1,
                Some(Slot::Many(partitions)) => self.len -= partitions.len(),
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::RingToken;

    fn after(prefix: u64) -> RingPosition {
        RingPosition { token: RingToken::Murmur3(Token::from_prefix(prefix).0), is_after: true }
    }

    #[test]
    fn keys_of_one_token_stay_apart_and_ordered() {
        for kind in [MemtableKind::Tree, MemtableKind::Skiplist] {
            keys_of_one_token(Partitions::new(Partitioner::Murmur3, kind));
        }
    }

    fn keys_of_one_token(mut tree: Partitions) {
        let mut arena = Arena::new();
        let mut expected = Vec::new();
        for prefix in [5u64, 3, 9] {
            for key in [&b"b"[..], b"a", b"c"] {
                if prefix == 3 && key != b"b" {
                    continue;
                }
                let token = Token::from_prefix(prefix);
                let (_, made) = tree.get_or_insert(&mut arena, prefix, key, |a| Partition::new(token, a.put(&[key])));
                assert!(made);
                let (_, made) = tree.get_or_insert(&mut arena, prefix, key, |_| unreachable!("it is there"));
                assert!(!made);
                expected.push((prefix, key));
            }
        }
        expected.sort();
        assert_eq!(tree.len(), expected.len());
        let list = |from: From<'_>, until: u64| -> Vec<(u64, &[u8])> {
            tree.range(&arena, from, until).map(|p| (p.token.prefix(), p.key(&arena))).collect()
        };
        assert_eq!(list(From::Start, u64::MAX), expected);
        for prefix in 0..11 {
            let from: Vec<_> = expected.iter().copied().filter(|(p, _)| *p > prefix).collect();
            assert_eq!(list(From::Position(&after(prefix)), u64::MAX), from);
            let until: Vec<_> = expected.iter().copied().filter(|(p, _)| *p <= prefix).collect();
            assert_eq!(list(From::Start, prefix), until);
            for key in [&b""[..], b"a", b"b", b"bb", b"c", b"d"] {
                let at: Vec<_> = expected.iter().copied().filter(|e| *e >= (prefix, key) && e.0 <= 9).collect();
                assert_eq!(list(From::At(prefix, key), 9), at);
                let after: Vec<_> = expected.iter().copied().filter(|e| *e > (prefix, key) && e.0 <= 8).collect();
                assert_eq!(list(From::After(prefix, key), 8), after);
                let found = tree.get(&arena, prefix, key).is_some();
                assert_eq!(found, expected.contains(&(prefix, key)));
            }
        }
        for left in (0..3).rev() {
            assert!(tree.pop(1));
            assert_eq!(tree.is_empty(), left == 0);
        }
        assert!(!tree.pop(1));
    }

    #[test]
    fn a_skiplist_has_what_a_tree_has() {
        let mut rng = runtime::rng::Rng::new(7);
        let (mut arena, mut other) = (Arena::new(), Arena::new());
        let (mut tree, mut list) = (
            Partitions::new(Partitioner::Murmur3, MemtableKind::Tree),
            Partitions::new(Partitioner::Murmur3, MemtableKind::Skiplist),
        );
        for _ in 0..4000 {
            let prefix = rng.below(900) << 54;
            let key = [rng.below(3) as u8];
            let make = |arena: &mut Arena| Partition::new(Token::from_prefix(prefix), arena.put(&[&key]));
            let made = tree.get_or_insert(&mut arena, prefix, &key, make).1;
            assert_eq!(list.get_or_insert(&mut other, prefix, &key, make).1, made);
        }
        assert_eq!(tree.len(), list.len());
        for _ in 0..300 {
            let (prefix, until) = (rng.below(900) << 54, rng.below(900) << 54);
            let key = [rng.below(4) as u8];
            let position = after(prefix);
            for from in [From::Start, From::Position(&position), From::At(prefix, &key), From::After(prefix, &key)] {
                let shown = |partitions: &Partitions, arena: &Arena| -> Vec<(Token, Vec<u8>)> {
                    partitions.range(arena, from, until).map(|p| (p.token, p.key(arena).to_vec())).collect()
                };
                assert_eq!(shown(&tree, &arena), shown(&list, &other), "{from:?} until {until}");
            }
            assert_eq!(tree.get(&arena, prefix, &key).is_some(), list.get(&other, prefix, &key).is_some());
        }
    }
}
