//! Partitions in ring order: an ordered tree on token prefixes.
//!
//! A prefix is the whole Murmur3 token, so nearly every prefix has one partition. Those that collide are ordered by key
//! in a tree of their own: keys made to collide cost a logarithm, not a scan.

use super::arena::Arena;
use super::partition::Partition;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

/// See the module.
#[derive(Default, Debug)]
pub struct PartitionTree {
    slots: BTreeMap<u64, Slot>,
    len: usize,
}

#[derive(Debug)]
enum Slot {
    One(Rc<Partition>),
    Many(BTreeMap<Box<[u8]>, Rc<Partition>>),
}

/// A place in the tree: before the first partition of a prefix, or after one.
#[derive(Clone, Copy, Debug)]
pub enum From<'a> {
    /// Before everything.
    Start,
    /// After every partition of the prefix.
    AfterPrefix(u64),
    /// At this partition, or where it would be.
    At(u64, &'a [u8]),
    /// After this partition.
    After(u64, &'a [u8]),
}

impl PartitionTree {
    /// The partition of a key.
    pub fn get(&self, arena: &Arena, prefix: u64, key: &[u8]) -> Option<&Rc<Partition>> {
        match self.slots.get(&prefix)? {
            Slot::One(partition) => (partition.key(arena) == key).then_some(partition),
            Slot::Many(partitions) => partitions.get(key),
        }
    }

    /// The partition of a key, made by `make` if there is none; whether it was made.
    pub fn get_or_insert(
        &mut self,
        arena: &mut Arena,
        prefix: u64,
        key: &[u8],
        make: impl FnOnce(&mut Arena) -> Partition,
    ) -> (&mut Rc<Partition>, bool) {
        use std::collections::btree_map::Entry;
        let slot = match self.slots.entry(prefix) {
            Entry::Vacant(vacant) => {
                self.len += 1;
                let slot = vacant.insert(Slot::One(Rc::new(make(arena))));
                let Slot::One(partition) = slot else { unreachable!("just made") };
                return (partition, true);
            }
            Entry::Occupied(occupied) => occupied.into_mut(),
        };
        if let Slot::One(partition) = slot
            && partition.key(arena) != key
        {
            *slot = Slot::Many(BTreeMap::from([(partition.key(arena).into(), partition.clone())]));
        }
        match slot {
            Slot::One(partition) => (partition, false),
            Slot::Many(partitions) => match partitions.entry(key.into()) {
                Entry::Occupied(occupied) => (occupied.into_mut(), false),
                Entry::Vacant(vacant) => {
                    self.len += 1;
                    (vacant.insert(Rc::new(make(arena))), true)
                }
            },
        }
    }

    /// The partitions from a place on, up to and including the prefix `until`.
    pub fn range<'a>(
        &'a self,
        arena: &Arena,
        from: From<'_>,
        until: u64,
    ) -> impl Iterator<Item = &'a Rc<Partition>> + use<'a> {
        let (prefix, bound) = match from {
            From::Start => (None, Bound::Unbounded),
            From::AfterPrefix(prefix) => (None, Bound::Excluded(prefix)),
            From::At(prefix, key) => (Some((prefix, Bound::Included(key))), Bound::Excluded(prefix)),
            From::After(prefix, key) => (Some((prefix, Bound::Excluded(key))), Bound::Excluded(prefix)),
        };
        // The slot of the place itself may hold partitions before the place.
        let mut first_one = None;
        let mut first_many = None;
        if let Some((prefix, key)) = prefix.filter(|(prefix, _)| *prefix <= until) {
            match self.slots.get(&prefix) {
                Some(Slot::One(partition)) => {
                    first_one = Some(partition).filter(|partition| match key {
                        Bound::Included(key) => partition.key(arena) >= key,
                        Bound::Excluded(key) => partition.key(arena) > key,
                        Bound::Unbounded => true,
                    });
                }
                Some(Slot::Many(partitions)) => first_many = Some(partitions.range::<[u8], _>((key, Bound::Unbounded))),
                None => {}
            }
        }
        // A range whose start lies at or beyond its end is empty, not a panic of the map.
        let rest = match bound {
            Bound::Included(prefix) | Bound::Excluded(prefix) if prefix >= until => None,
            _ => Some(self.slots.range((bound, Bound::Included(until)))),
        };
        let rest = rest.into_iter().flatten().flat_map(|(_, slot)| {
            let (one, many) = match slot {
                Slot::One(partition) => (Some(partition), None),
                Slot::Many(partitions) => (None, Some(partitions.values())),
            };
            one.into_iter().chain(many.into_iter().flatten())
        });
        let first_many = first_many.into_iter().flatten().map(|(_, partition)| partition);
        first_one.into_iter().chain(first_many).chain(rest)
    }

    /// Frees the partitions of up to `slots` prefixes; false when none is left.
    pub fn pop(&mut self, slots: usize) -> bool {
        for _ in 0..slots {
            match self.slots.pop_first() {
                None => return false,
                Some((_, Slot::One(_))) => self.len -= 1,
                Some((_, Slot::Many(partitions))) => self.len -= partitions.len(),
            }
        }
        true
    }

    /// How many partitions there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Token;

    #[test]
    fn keys_of_one_token_stay_apart_and_ordered() {
        let mut arena = Arena::new();
        let mut tree = PartitionTree::default();
        let mut expected = Vec::new();
        for prefix in [5u64, 3, 9] {
            for key in [&b"b"[..], b"a", b"c"] {
                if prefix == 3 && key != b"b" {
                    continue;
                }
                let token = Token((prefix ^ (1 << 63)) as i64);
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
            assert_eq!(list(From::AfterPrefix(prefix), u64::MAX), from);
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
    }
}
