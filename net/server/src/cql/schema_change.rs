//! Changes of the schema as results and events tell them.

use shard::{ChangeKind, ChangeTarget, SchemaChange};
use wire::response;

/// A schema change in the protocol's words.
pub(crate) fn in_protocol_words(change: &SchemaChange) -> response::SchemaChange<'_> {
    response::SchemaChange {
        change: match change.change {
            ChangeKind::Created => "CREATED",
            ChangeKind::Updated => "UPDATED",
            ChangeKind::Dropped => "DROPPED",
        },
        target: match change.target {
            ChangeTarget::Keyspace => "KEYSPACE",
            ChangeTarget::Table => "TABLE",
            ChangeTarget::Type => "TYPE",
        },
        keyspace: &change.keyspace,
        name: &change.name,
    }
}
