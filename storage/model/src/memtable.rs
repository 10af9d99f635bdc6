//! Which memtable a table has: its option `memtable` names a configuration, which stands for a kind.
//!
//! Configurations come from `memtable: configurations:` of the node's yaml. `default`, `skiplist` and `trie` are there
//! without it, as in the yaml that Cassandra ships for new clusters; a configuration of the same name takes their place.
//!
//! Invariants: `default` is always configured.

use crate::schema::TableOptions;
use std::collections::BTreeMap;

/// How a memtable keeps its partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MemtableKind {
    /// An ordered tree: what a shard, which has one writer, is fastest with.
    #[default]
    Tree,
    /// A skip list.
    Skiplist,
}

/// The configuration of tables that name none.
pub const DEFAULT_MEMTABLE: &str = "default";

/// The configurations of a node, by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemtableConfigurations {
    named: BTreeMap<String, MemtableKind>,
}

impl Default for MemtableConfigurations {
    fn default() -> MemtableConfigurations {
        MemtableConfigurations::new(BTreeMap::new())
    }
}

impl MemtableConfigurations {
    /// `configured`, and the names that need no configuration.
    pub fn new(configured: BTreeMap<String, MemtableKind>) -> MemtableConfigurations {
        let mut named = BTreeMap::from([
            (DEFAULT_MEMTABLE.to_owned(), MemtableKind::Tree),
            ("skiplist".to_owned(), MemtableKind::Skiplist),
            ("trie".to_owned(), MemtableKind::Tree),
        ]);
        named.extend(configured);
        MemtableConfigurations { named }
    }

    /// What a name stands for; `None` if nothing of that name is configured.
    pub fn get(&self, name: &str) -> Option<MemtableKind> {
        self.named.get(name).copied()
    }

    /// The kind of a table's memtables; the default one if what the table names is no longer configured.
    pub fn kind_of(&self, options: &TableOptions) -> MemtableKind {
        let named = options.memtable.as_deref().and_then(|name| self.get(name));
        named.or_else(|| self.get(DEFAULT_MEMTABLE)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_what_it_names_or_the_default() {
        let of = |memtables: &MemtableConfigurations, name: Option<&str>| {
            memtables.kind_of(&TableOptions { memtable: name.map(Into::into), ..TableOptions::default() })
        };
        let plain = MemtableConfigurations::default();
        assert_eq!(of(&plain, None), MemtableKind::Tree);
        assert_eq!(of(&plain, Some("skiplist")), MemtableKind::Skiplist);
        assert_eq!(of(&plain, Some("trie")), MemtableKind::Tree);
        assert_eq!(of(&plain, Some("gone")), MemtableKind::Tree);
        assert_eq!(plain.get("gone"), None);
        let configured = MemtableConfigurations::new(
            [("default".into(), MemtableKind::Skiplist), ("a".into(), MemtableKind::Tree)].into(),
        );
        assert_eq!(of(&configured, None), MemtableKind::Skiplist);
        assert_eq!(of(&configured, Some("gone")), MemtableKind::Skiplist);
        assert_eq!(of(&configured, Some("a")), MemtableKind::Tree);
        assert_eq!(of(&configured, Some("trie")), MemtableKind::Tree);
    }
}
