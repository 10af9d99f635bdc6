//! Secondary indexes: which column of a table they index, and which part of its values.

use crate::identifier::quoted;

/// A secondary index of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Index {
    /// Its name, unique within the keyspace.
    pub name: String,
    /// The name of the indexed column.
    pub column: String,
    /// Which part of the column's values is indexed.
    pub part: IndexedPart,
}

/// The part of a column's values that an index holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexedPart {
    /// The whole value of a column that is not a collection.
    Simple,
    /// The elements of a list or set, the values of a map.
    Values,
    /// The keys of a map.
    Keys,
    /// The entries of a map: keys together with their values.
    Entries,
    /// The whole value of a frozen collection.
    Full,
}

impl IndexedPart {
    /// The word for it in `CREATE INDEX` and in Cassandra's errors; [`IndexedPart::Simple`] is `values`.
    pub fn word(self) -> &'static str {
        match self {
            IndexedPart::Simple | IndexedPart::Values => "values",
            IndexedPart::Keys => "keys",
            IndexedPart::Entries => "entries",
            IndexedPart::Full => "full",
        }
    }
}

impl Index {
    /// The target as `system_schema.indexes` and `CREATE INDEX` write it: `c`, `"C"`, `keys(c)`.
    pub fn target(&self) -> String {
        let column = quoted(&self.column);
        match self.part {
            IndexedPart::Simple => column.into_owned(),
            part => format!("{}({column})", part.word()),
        }
    }

    /// The index with this name and a target as written by [`Index::target`]; `None` if `target` is malformed.
    pub fn parse(name: &str, target: &str) -> Option<Index> {
        let parts = [IndexedPart::Values, IndexedPart::Keys, IndexedPart::Entries, IndexedPart::Full];
        let inner = |part: &IndexedPart| target.strip_prefix(part.word())?.strip_prefix('(')?.strip_suffix(')');
        let found = parts.iter().find_map(|part| Some((*part, inner(part)?)));
        let (part, column) = found.unwrap_or((IndexedPart::Simple, target));
        let column = match column.strip_prefix('"') {
            Some(rest) => rest.strip_suffix('"')?.replace("\"\"", "\""),
            None => column.to_owned(),
        };
        (!column.is_empty()).then(|| Index { name: name.to_owned(), column, part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_read_back() {
        for (column, part, target) in [
            ("v", IndexedPart::Simple, "v"),
            ("Q w\"", IndexedPart::Simple, "\"Q w\"\"\""),
            ("m", IndexedPart::Keys, "keys(m)"),
            ("M", IndexedPart::Entries, "entries(\"M\")"),
            ("keys", IndexedPart::Values, "values(keys)"),
            ("l", IndexedPart::Full, "full(l)"),
        ] {
            let index = Index { name: "i".into(), column: column.into(), part };
            assert_eq!(index.target(), target);
            assert_eq!(Index::parse("i", target), Some(index));
        }
        assert_eq!(Index::parse("i", ""), None);
        assert_eq!(Index::parse("i", "\"x"), None);
    }
}
