//! Bytes as versions of the program wrote them that numbered columns anew at every start.

use engine::commitlog::record::{KIND_COLUMNS, KIND_MUTATION, record_header};
use engine::commitlog::segment::{ColumnIds, GROUP_HEADER_BYTES, GroupFrame, HEADER_BYTES, Header};
use model::{ColumnKind, Mutation, Partitioner, ShardMap, TableId};
use std::path::Path;

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// A table's column list: ids, kinds and names.
pub(crate) fn column_list(table: TableId, columns: &[(u16, ColumnKind, &str)]) -> Vec<u8> {
    let mut out = table.0.to_vec();
    text(&mut out, "ks");
    text(&mut out, "t");
    out.extend_from_slice(&(columns.len() as u32).to_le_bytes());
    for (id, kind, name) in columns {
        out.extend_from_slice(&id.to_le_bytes());
        out.push(match kind {
            ColumnKind::PartitionKey => 0,
            ColumnKind::Clustering => 1,
            ColumnKind::Static => 2,
            ColumnKind::Regular => 3,
        });
        text(&mut out, name);
        text(&mut out, "text");
    }
    out
}

/// Writes the first segment of a log of one shard, with one group for each pair of a column list and a mutation.
pub(crate) async fn write_segment(directory: &Path, groups: &[(Vec<u8>, Mutation)]) {
    const SEGMENT_BYTES: u32 = 64 << 10;
    let (shard_map, column_ids) = (ShardMap::new(Partitioner::Murmur3, 1), ColumnIds::OfRun);
    let header = Header { id: 1 << 16, nonce: 9, segment_bytes: SEGMENT_BYTES, shard_map, column_ids };
    let mut bytes = vec![0; SEGMENT_BYTES as usize];
    header.encode(&mut bytes);
    let mut offset = HEADER_BYTES;
    for (list, mutation) in groups {
        let mut group = vec![0; GROUP_HEADER_BYTES];
        for (kind, body) in [(KIND_COLUMNS, &list[..]), (KIND_MUTATION, mutation.bytes())] {
            group.extend_from_slice(&record_header(kind, body.len()));
            group.extend_from_slice(body);
        }
        GroupFrame::seal(&header, offset, 2, &mut group);
        bytes[offset as usize..offset as usize + group.len()].copy_from_slice(&group);
        offset += group.len().next_multiple_of(4096) as u32;
    }
    runtime::file::create_dir_all(directory).await.expect("a directory");
    runtime::file::replace_small(&directory.join(format!("{:016x}.log", header.id)), &bytes).await.expect("a segment");
}

/// An element of the column `mutations` of a batch, or an update of Paxos.
pub(crate) fn with_lists(lists: &[Vec<u8>], mutation: &Mutation) -> Vec<u8> {
    let mut out = (lists.len() as u16).to_le_bytes().to_vec();
    for list in lists {
        out.extend_from_slice(&(list.len() as u32).to_le_bytes());
        out.extend_from_slice(list);
    }
    out.extend_from_slice(mutation.bytes());
    out
}
