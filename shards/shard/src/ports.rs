//! What this layer needs from above.

/// Told of schema changes on every shard, after the shard serves the new schema.
pub trait Notifier {
    /// Called once per effective DDL and shard, in order.
    fn schema_changed(&self, change: &SchemaChange);
}

/// An effective DDL statement, as events and results report it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchemaChange {
    /// Created, updated or dropped.
    pub change: ChangeKind,
    /// What kind of thing.
    pub target: ChangeTarget,
    /// Its keyspace.
    pub keyspace: String,
    /// Its name; empty for a keyspace.
    pub name: String,
}

/// See [`SchemaChange`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the protocol's words")]
pub enum ChangeKind {
    Created,
    Updated,
    Dropped,
}

/// See [`SchemaChange`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the protocol's words")]
pub enum ChangeTarget {
    Keyspace,
    Table,
}
