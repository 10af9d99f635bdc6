//! Logged batches, as requests to the nodes that keep them.
//!
//! ```text
//! store:   id [16], time i64 in microseconds, mutations u32, each: length u32, mutation
//!   answer: empty, once the batch is durable
//! remove:  id [16], time i64 in microseconds
//!   answer: empty
//! ```
//! The id is that of the row in `system.batches`; its token says which core of the node keeps the batch. The time is
//! that of the coordinator when it began.

use super::bytes::{Reader, push_count, push_long};
use engine::{BatchId, StoredBatch};
use model::{Mutation, Partitioner};

/// The bytes of an id and a time.
const ID_BYTES: usize = 16 + 8;
/// The bytes of a mutation with its length, at least.
const MUTATION_BYTES_MIN: usize = 4;

/// The length of an encoded batch.
pub(crate) fn encoded_bytes(batch: &StoredBatch) -> usize {
    let mutations = batch.mutations.iter().map(|mutation| MUTATION_BYTES_MIN + mutation.bytes().len());
    ID_BYTES + 4 + mutations.sum::<usize>()
}

/// Writes a batch.
pub(crate) fn push(out: &mut Vec<u8>, batch: &StoredBatch) {
    push_id(out, batch.id);
    push_count(out, batch.mutations.len());
    batch.mutations.iter().for_each(|mutation| push_long(out, mutation.bytes()));
}

/// Reads a batch; `None` if the bytes are none.
pub(crate) fn decode(partitioner: Partitioner, bytes: &[u8]) -> Option<StoredBatch> {
    let mut reader = Reader::new(bytes);
    let id = read_id(&mut reader)?;
    let mut mutations = Vec::new();
    for _ in 0..reader.count(MUTATION_BYTES_MIN)? {
        mutations.push(Mutation::decode(partitioner, reader.long_bytes()?.to_vec()).ok()?);
    }
    reader.is_empty().then_some(StoredBatch { id, mutations })
}

/// Writes the name of a batch.
pub(crate) fn push_id(out: &mut Vec<u8>, id: BatchId) {
    out.extend_from_slice(&id.uuid);
    out.extend_from_slice(&id.timestamp.to_le_bytes());
}

/// Reads the name of a batch; `None` if the bytes are none.
pub(crate) fn decode_id(bytes: &[u8]) -> Option<BatchId> {
    let mut reader = Reader::new(bytes);
    let id = read_id(&mut reader)?;
    reader.is_empty().then_some(id)
}

fn read_id(reader: &mut Reader<'_>) -> Option<BatchId> {
    Some(BatchId { uuid: reader.chunk()?, timestamp: reader.i64()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let mutation = |key: &[u8]| {
            let mut builder = model::MutationBuilder::new(Partitioner::Murmur3, key);
            builder.table(model::TableId([7; 16])).delete_partition(model::row::Deletion::LIVE);
            builder.finish()
        };
        let id = BatchId { uuid: *b"0123456789abcdef", timestamp: 0x0102_0304_0506 };
        let name = [&b"0123456789abcdef"[..], &[6, 5, 4, 3, 2, 1, 0, 0]].concat();
        let mut bytes = Vec::new();
        push_id(&mut bytes, id);
        assert_eq!(bytes, name);
        assert_eq!(decode_id(&bytes), Some(id));
        assert!((0..24).all(|len| decode_id(&bytes[..len]).is_none()));
        assert_eq!(decode_id(&[&bytes[..], &[0]].concat()), None, "a byte too many");

        let batch = StoredBatch { id, mutations: vec![mutation(b"p"), mutation(b"qq")] };
        let mut bytes = Vec::new();
        push(&mut bytes, &batch);
        let part = |mutation: &Mutation| [&(mutation.bytes().len() as u32).to_le_bytes(), mutation.bytes()].concat();
        let expected = [&name[..], &[2, 0, 0, 0], &part(&batch.mutations[0]), &part(&batch.mutations[1])].concat();
        assert_eq!(bytes, expected);
        assert_eq!(encoded_bytes(&batch), bytes.len());
        assert_eq!(decode(Partitioner::Murmur3, &bytes), Some(batch));
        assert!((0..bytes.len()).all(|len| decode(Partitioner::Murmur3, &bytes[..len]).is_none()));
        assert_eq!(decode(Partitioner::Murmur3, &[&bytes[..], &[0]].concat()), None, "a byte too many");
        let mut many = name;
        many.extend_from_slice(&[0xff; 4]);
        assert_eq!(decode(Partitioner::Murmur3, &many), None, "no room is taken for what is not there");
    }
}
