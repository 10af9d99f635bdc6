//! Lists of partitions with their digests, and the partitions in which such lists differ.

use model::DecoratedKey;

/// A partition that a replica has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionDigest {
    /// Its key.
    pub key: DecoratedKey,
    /// The digest of its content, never 0: a partition without content is left out.
    pub digest: u64,
    /// How many bytes of rows it has, roughly.
    pub bytes: u64,
}

/// The partitions of some leaves of a segment, by token and key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartitionList {
    /// The partitions.
    pub partitions: Vec<PartitionDigest>,
    /// Whether the list ended at a limit: there may be more behind its last partition.
    pub is_cut: bool,
}

impl PartitionList {
    /// One list of what several cores have, up to where each of them knows everything.
    pub fn merged(lists: Vec<PartitionList>) -> PartitionList {
        let end = frontier(&lists);
        let mut partitions: Vec<PartitionDigest> = lists.into_iter().flat_map(|list| list.partitions).collect();
        partitions.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        partitions.retain(|partition| end.as_ref().is_none_or(|end| partition.key <= *end));
        PartitionList { partitions, is_cut: end.is_some() }
    }
}

/// The last partition up to which all lists are whole; `None` if all are to their ends.
pub fn frontier(lists: &[PartitionList]) -> Option<DecoratedKey> {
    let ends = lists.iter().filter(|list| list.is_cut).filter_map(|list| list.partitions.last());
    ends.map(|last| &last.key).min().cloned()
}

/// A partition in which replicas differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Its key.
    pub key: DecoratedKey,
    /// The digest of what each replica has; 0 for nothing.
    pub digests: Vec<u64>,
    /// The most bytes that a replica has of it.
    pub bytes: u64,
}

/// The partitions in which the lists of replicas differ, by token and key, up to the [`frontier`].
pub fn differences(lists: &[PartitionList]) -> Vec<Difference> {
    let end = frontier(lists);
    let mut rest: Vec<&[PartitionDigest]> = lists.iter().map(|list| &*list.partitions).collect();
    let mut found = Vec::new();
    loop {
        let next = rest.iter().filter_map(|list| list.first()).map(|partition| &partition.key).min();
        let Some(key) = next.filter(|key| end.as_ref().is_none_or(|end| *key <= end)).cloned() else { return found };
        let mut difference = Difference { key, digests: vec![0; lists.len()], bytes: 0 };
        for (list, digest) in rest.iter_mut().zip(&mut difference.digests) {
            let Some((first, behind)) = list.split_first() else { continue };
            if first.key == difference.key {
                (*digest, *list) = (first.digest, behind);
                difference.bytes = difference.bytes.max(first.bytes);
            }
        }
        let first = difference.digests.first().copied();
        if difference.digests.iter().any(|digest| Some(*digest) != first) {
            found.push(difference);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Partitioner;
    use model::arbitrary::generator;
    use std::collections::BTreeMap;

    fn partition(key: u8, digest: u64) -> PartitionDigest {
        PartitionDigest { key: DecoratedKey::new(Partitioner::Murmur3, &[key]), digest, bytes: digest }
    }

    fn list(contents: &BTreeMap<u8, u64>) -> PartitionList {
        let mut partitions: Vec<_> = contents.iter().map(|(key, digest)| partition(*key, *digest)).collect();
        partitions.sort_by(|a, b| a.key.cmp(&b.key));
        PartitionList { partitions, is_cut: false }
    }

    #[test]
    fn a_list_that_was_cut_ends_the_comparison() {
        let whole = list(&(0..9).map(|key| (key, 1)).collect());
        let mut cut = whole.clone();
        cut.partitions.truncate(4);
        cut.partitions[1].digest = 2;
        cut.is_cut = true;
        let found = differences(&[whole.clone(), cut.clone()]);
        assert_eq!(found.len(), 1, "what lies behind the end of the second list is unknown");
        assert_eq!((&found[0].key, &*found[0].digests), (&cut.partitions[1].key, &[1, 2][..]));
        assert_eq!(frontier(&[whole.clone(), cut.clone()]), Some(cut.partitions[3].key.clone()));
        let merged = PartitionList::merged(vec![whole.clone(), cut]);
        assert_eq!((merged.partitions.len(), merged.is_cut), (8, true));
        assert_eq!(frontier(&[whole.clone(), whole]), None);
    }

    #[test]
    fn exactly_the_partitions_that_differ_are_found() {
        for seed in 0..300 {
            let mut below = generator(seed);
            let mut contents =
                || (0..below(40)).map(|_| (below(64) as u8, 1 + below(3))).collect::<BTreeMap<u8, u64>>();
            let replicas: Vec<BTreeMap<u8, u64>> = (0..1 + seed % 3).map(|_| contents()).collect();
            let lists: Vec<PartitionList> = replicas.iter().map(list).collect();
            let found: BTreeMap<Vec<u8>, Vec<u64>> =
                differences(&lists).into_iter().map(|found| (found.key.key.to_vec(), found.digests)).collect();
            let mut expected = BTreeMap::new();
            for key in 0..=u8::MAX {
                let digests: Vec<u64> = replicas.iter().map(|has| has.get(&key).copied().unwrap_or(0)).collect();
                if digests.iter().any(|digest| *digest != digests[0]) {
                    expected.insert(vec![key], digests);
                }
            }
            assert_eq!(found, expected, "seed {seed}");
        }
    }
}
