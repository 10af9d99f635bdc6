//! Plans of definitions and of DESCRIBE.

use model::{Keyspace, Table, TableId};

/// CREATE and DROP, checked as far as the schema at hand allows; the shard that runs DDL checks again.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "definitions are rare and short-lived")]
pub enum Define {
    /// CREATE KEYSPACE.
    CreateKeyspace {
        /// Name, replication, durable writes; no tables.
        keyspace: Keyspace,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// DROP KEYSPACE.
    DropKeyspace {
        /// Name.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// CREATE TABLE. `table.id` is all zero unless WITH ID was given.
    CreateTable {
        /// The table.
        table: Table,
        /// WITH ID.
        id: Option<TableId>,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// DROP TABLE.
    DropTable {
        /// Keyspace.
        keyspace: String,
        /// Name.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
    },
}

/// DESCRIBE.
#[derive(Clone, PartialEq, Debug)]
pub struct Describe {
    /// What.
    pub target: DescribeTarget,
    /// WITH INTERNALS.
    pub internals: bool,
    /// The session's keyspace.
    pub session_keyspace: Option<String>,
}

/// What DESCRIBE describes. Names are checked when it runs.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "as in CQL")]
pub enum DescribeTarget {
    Cluster,
    Keyspaces,
    Tables,
    Types,
    Functions,
    Aggregates,
    Schema { full: bool },
    Keyspace { name: Option<String>, only: bool },
    Table { keyspace: Option<String>, name: String },
    Type { keyspace: Option<String>, name: String },
    Function { keyspace: Option<String>, name: String },
    Aggregate { keyspace: Option<String>, name: String },
    Index { keyspace: Option<String>, name: String },
    MaterializedView { keyspace: Option<String>, name: String },
    Any { keyspace: Option<String>, name: String },
}
