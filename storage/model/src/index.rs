//! Secondary indexes: which column of a table, and what of its values.

use crate::identifier::quoted;

/// An index of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Index {
    /// Its name, which no other index of the keyspace has.
    pub name: String,
    /// The name of the column.
    pub column: String,
    /// What of the column's values is indexed.
    pub part: IndexedPart,
}

/// What of a column's values an index holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexedPart {
    /// The value of a column that is no collection.
    Simple,
    /// The elements of a list or set, the values of a map.
    Values,
    /// The keys of a map.
    Keys,
    /// Keys of a map together with their values.
    Entries,
    /// A frozen collection whole.
    Full,
}

impl IndexedPart {
    /// The word of `CREATE INDEX` and of Cassandra's errors; simple ones are `values`.
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
    /// What `system_schema.indexes` and `CREATE INDEX` say of the column: `c`, `"C"`, `keys(c)`.
    pub fn target(&self) -> String {
        let column = quoted(&self.column);
        match self.part {
            IndexedPart::Simple => column.into_owned(),
            part => format!("{}({column})", part.word()),
        }
    }

    /// The index of a name with a target as [`Index::target`] gives it; `None` if it is none.
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
