//! Changes of the schema in the form in which results and events report them.

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
