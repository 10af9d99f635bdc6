//! Metadata together with the schema that they name, for a node that is too far behind for the log.

use crate::schema::rows;
use cluster::metadata::{Metadata, SchemaUpdate, UpdatedKind, UpdatedTarget};
use model::schema::SYSTEM_KEYSPACES;
use model::{Keyspace, Mutation, Schema};

/// The longest keyspaces of a first member, before compression.
const KEYSPACES_BYTES_MAX: usize = 256 << 20;

/// Metadata, and the rows of `system_schema` of each keyspace that the cluster agrees on.
///
/// ```text
/// length u32 (little-endian) · metadata · per keyspace: length u32 · encoded mutation
/// ```
pub(super) struct Snapshot {
    pub(super) metadata: Metadata,
    pub(super) keyspaces: Vec<Mutation>,
}

impl Snapshot {
    pub(super) fn encode(metadata: &Metadata, schema: &Schema) -> Vec<u8> {
        let mut out = Vec::new();
        push(&mut out, &metadata.encode());
        for keyspace in schema.keyspaces.values().filter(|keyspace| is_agreed(keyspace)) {
            push(&mut out, rows::keyspace_created(schema, keyspace, metadata.schema_timestamp).bytes());
        }
        out
    }

    /// Decodes what [`Snapshot::encode`] gave; the error says what is wrong.
    pub(super) fn decode(schema: &Schema, bytes: &[u8]) -> Result<Snapshot, String> {
        let mut rest = bytes;
        let metadata = Metadata::decode(take(&mut rest)?).map_err(|error| error.to_string())?;
        let mut keyspaces = Vec::new();
        while !rest.is_empty() {
            let rows = Mutation::decode(schema.partitioner, take(&mut rest)?.to_vec());
            keyspaces.push(rows.map_err(|error| format!("the rows of a keyspace: {error:?}"))?);
        }
        Ok(Snapshot { metadata, keyspaces })
    }

    /// The changes that make the keyspaces of `schema` those of the snapshot, one keyspace at a time.
    pub(super) fn changes_of(&self, schema: &Schema) -> Result<Vec<SchemaUpdate>, crate::schema::Error> {
        let timestamp = self.metadata.schema_timestamp;
        let now_in_seconds = timestamp.div_euclid(1_000_000);
        let mut changes = Vec::new();
        let mut names = Vec::new();
        for rows in &self.keyspaces {
            let name = String::from_utf8_lossy(rows.key()).into_owned();
            let after = rows::keyspace_after(&without(schema, &name), &name, rows)?;
            let before = schema.keyspace(&name);
            names.push(name);
            let Some(after) = after else { continue };
            match before {
                Some(before) if **before == after => {}
                Some(before) => {
                    let rows = rows::keyspace_changed(schema, before, &after, timestamp, now_in_seconds);
                    changes.push(self.change(UpdatedKind::Updated, &after.name, rows));
                }
                None => changes.push(self.change(UpdatedKind::Created, &after.name, rows.clone())),
            }
        }
        for keyspace in schema.keyspaces.values().filter(|keyspace| is_agreed(keyspace)) {
            if !names.contains(&keyspace.name) {
                let rows = rows::keyspace_dropped(schema, &keyspace.name, timestamp, now_in_seconds);
                changes.push(self.change(UpdatedKind::Dropped, &keyspace.name, rows));
            }
        }
        Ok(changes)
    }

    fn change(&self, kind: UpdatedKind, keyspace: &str, rows: Mutation) -> SchemaUpdate {
        SchemaUpdate {
            before: self.metadata.schema_version,
            after: self.metadata.schema_version,
            timestamp: self.metadata.schema_timestamp,
            kind,
            target: UpdatedTarget::Keyspace,
            keyspace: keyspace.to_owned(),
            name: String::new(),
            given_id: None,
            rows: rows.into_bytes(),
        }
    }
}

/// The keyspaces of a schema that the cluster agrees on, for the first entry of its log: a [`Snapshot`] of nothing
/// else, compressed with LZ4, its length before it.
pub(super) fn compressed_keyspaces(schema: &Schema, schema_timestamp: i64) -> Vec<u8> {
    let metadata = Metadata { schema_timestamp, ..Metadata::default() };
    lz4_flex::compress_prepend_size(&Snapshot::encode(&metadata, schema))
}

/// What [`compressed_keyspaces`] gave, as a snapshot with `metadata`.
pub(super) fn with_keyspaces(schema: &Schema, keyspaces: &[u8], metadata: Metadata) -> Result<Snapshot, String> {
    let length = keyspaces.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
    if length.is_none_or(|length| length > KEYSPACES_BYTES_MAX) {
        return Err(format!("keyspaces of {length:?} bytes"));
    }
    let bytes = lz4_flex::decompress_size_prepended(keyspaces).map_err(|error| error.to_string())?;
    Ok(Snapshot { metadata, ..Snapshot::decode(schema, &bytes)? })
}

/// Whether a keyspace is part of what the cluster agrees on: those that are local to a node are not.
fn is_agreed(keyspace: &Keyspace) -> bool {
    !keyspace.is_virtual() && !keyspace.is_local()
}

/// The schema without what the cluster agrees on about a keyspace.
fn without(schema: &Schema, name: &str) -> Schema {
    let mut schema = schema.clone();
    if !SYSTEM_KEYSPACES.contains(&name) {
        schema.drop_keyspace(name);
    }
    schema
}

fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn take<'b>(rest: &mut &'b [u8]) -> Result<&'b [u8], String> {
    let cut = || "a snapshot of the metadata ends early".to_owned();
    let (length, tail) = rest.split_first_chunk().ok_or_else(cut)?;
    let (bytes, tail) = tail.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(cut)?;
    *rest = tail;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{system_schema, tests::sample};
    use model::Partitioner;
    use std::sync::Arc;
    use uuid::Uuid;

    fn schema(keyspaces: &[Keyspace]) -> Schema {
        let mut schema = system_schema(Partitioner::Murmur3);
        keyspaces.iter().for_each(|keyspace| schema.put_keyspace(Arc::new(keyspace.clone())));
        schema
    }

    fn metadata() -> Metadata {
        Metadata { schema_version: Uuid::from_u128(7), schema_timestamp: 5_000_000, ..Metadata::default() }
    }

    /// `behind` after the changes that a snapshot of `ahead` makes.
    fn caught_up(behind: Schema, ahead: &Schema) -> Schema {
        let bytes = Snapshot::encode(&metadata(), ahead);
        let snapshot = Snapshot::decode(&behind, &bytes).expect("well-formed");
        assert_eq!(snapshot.metadata, metadata());
        let compressed = compressed_keyspaces(ahead, metadata().schema_timestamp);
        let same = with_keyspaces(&behind, &compressed, metadata()).expect("well-formed");
        assert!((same.metadata, &same.keyspaces) == (metadata(), &snapshot.keyspaces));
        assert!(with_keyspaces(&behind, &compressed[..compressed.len() - 1], metadata()).is_err());
        assert!(with_keyspaces(&behind, &u32::MAX.to_le_bytes(), metadata()).is_err());
        for cut in [1, bytes.len() / 2, bytes.len() - 1] {
            assert!(Snapshot::decode(&behind, &bytes[..cut]).is_err(), "cut at {cut}");
        }
        let mut schema = behind;
        for change in snapshot.changes_of(&schema).expect("well-formed") {
            let rows = Mutation::decode(schema.partitioner, change.rows).expect("well-formed");
            match rows::keyspace_after(&schema, &change.keyspace, &rows).expect("well-formed") {
                Some(keyspace) => schema.put_keyspace(Arc::new(keyspace)),
                None => schema.drop_keyspace(&change.keyspace),
            }
        }
        schema
    }

    /// A node that is too far behind for the log, while another one joins, must send it every write.
    #[test]
    fn d8_a_snapshot_has_the_pending_replicas_of_a_join() {
        use crate::operations::ring_changes::changes_of;
        use cluster::metadata::{Command, Member, MemberState, OperationKind};
        let id = Uuid::from_u128;
        let member = |number: u8| Member {
            state: MemberState::Normal,
            address: ([127, 0, 0, number], 7000).into(),
            native_address: ([127, 0, 0, number], 9042).into(),
            data_center: "dc".into(),
            rack: "r".into(),
            tokens: vec![number.to_string()],
            shards: 1,
            ignore_msb: 12,
            release_version: "5.0.9".into(),
            messages: (1, 1),
            features: 0,
        };
        let mut metadata = metadata();
        (metadata.cluster_id, metadata.partitioner) = (id(9), "Murmur3Partitioner".into());
        metadata.members.insert(id(1), Arc::new(member(1)));
        let commands = [
            Command::Join { host_id: id(2), member: Box::new(member(2)) },
            Command::Begin {
                kind: OperationKind::Join { host_id: id(2) },
                receivers: [id(2)].into(),
                members_epoch: 1,
                schema_version: metadata.schema_version,
            },
        ];
        for (epoch, command) in (1..).zip(&commands) {
            metadata.apply(epoch, command).expect("taken");
        }
        let schema = schema(&[sample()]);
        let restored = Snapshot::decode(&schema, &Snapshot::encode(&metadata, &schema)).expect("well-formed").metadata;
        assert_eq!(restored, metadata);
        let changes = changes_of(&restored, Partitioner::Murmur3);
        let tokens: Vec<usize> = changes.next_tokens.iter().map(Vec::len).collect();
        assert_eq!(tokens, [1, 1], "the joining one gets writes");
        assert_eq!(restored.nodes().iter().map(|node| node.tokens.len()).collect::<Vec<_>>(), [1, 0], "and no reads");
    }

    #[test]
    fn a_schema_that_is_behind_catches_up() {
        let (full, mut other, mut bare) = (sample(), sample(), sample());
        bare.tables.clear();
        other.name = "other".into();
        other.tables.clear();
        let system_auth = |schema: &mut Schema| {
            let mut keyspace = Keyspace::clone(schema.keyspace("system_auth").expect("there"));
            keyspace.replication.options.insert("replication_factor".into(), "3".into());
            schema.put_keyspace(Arc::new(keyspace));
        };
        let mut ahead = schema(std::slice::from_ref(&full));
        system_auth(&mut ahead);
        for behind in [schema(&[]), schema(&[bare]), schema(&[other.clone()]), schema(&[full, other])] {
            let after = caught_up(behind, &ahead);
            assert_eq!(after.keyspaces, ahead.keyspaces);
        }
        assert_eq!(caught_up(ahead.clone(), &ahead).keyspaces, ahead.keyspaces);
    }
}
