//! Memtable configurations: a table's option `memtable` names one, and each stands for a kind of memtable.
//!
//! Configurations come from `memtable: configurations:` in the node's yaml. `default`, `skiplist` and `trie` exist
//! without being configured, as in the yaml that Cassandra ships; a configuration with one of these names replaces it.
//!
//! Invariants: `default` always exists.

use crate::schema::TableOptions;
use std::collections::BTreeMap;

/// The data structure that holds a memtable's partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MemtableKind {
    /// An ordered tree: the fastest one here, because a shard has only one writer.
    #[default]
    Tree,
    /// A skip list.
    Skiplist,
}

/// The configuration for tables that name none.
pub const DEFAULT_MEMTABLE: &str = "default";

/// The memtable configurations of a node, by name.
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
    /// The configurations in `configured`, and those that need no configuration.
    pub fn new(configured: BTreeMap<String, MemtableKind>) -> MemtableConfigurations {
        let mut named = BTreeMap::from([
            (DEFAULT_MEMTABLE.to_owned(), MemtableKind::Tree),
            ("skiplist".to_owned(), MemtableKind::Skiplist),
            ("trie".to_owned(), MemtableKind::Tree),
        ]);
        named.extend(configured);
        MemtableConfigurations { named }
    }

    /// The kind that a name stands for; `None` if there is no such configuration.
    pub fn get(&self, name: &str) -> Option<MemtableKind> {
        self.named.get(name).copied()
    }

    /// The kind of a table's memtables. If the configuration that the table names does not exist, that of `default`.
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
