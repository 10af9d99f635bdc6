//! Any bytes as a commit log segment, as records of a group that validates, and as a truncation.
#![no_main]

use engine::commitlog::record::{ColumnList, Record, records};
use engine::commitlog::segment_reader::scan_bytes;
use engine::commitlog::segment::{
    ColumnIds, GROUP_HEADER_BYTES, GroupFrame, HEADER_BYTES, Header, SEGMENT_BYTES_MIN,
};
use engine::store::Truncation;
use libfuzzer_sys::fuzz_target;
use model::Partitioner;
use model::mutation::{cut_out_row, cut_out_table};
use model::{Mutation, ShardMap};

fn read(record: Record<'_>) {
    match record {
        Record::ColumnList(body, format) => {
            let _ = ColumnList::decode(body, format);
        }
        Record::Mutation(body) => {
            if let Ok(mutation) = Mutation::decode(Partitioner::Murmur3, body.to_vec()) {
                mutation.updates().for_each(|update| update.operations().for_each(drop));
            }
        }
        Record::CutMutation(number, cut) | Record::Row(number, cut) => {
            let (table, mut room) = ([7; 16], Vec::new());
            let tables = vec![table; usize::from(number) + 1];
            let Ok(Some(whole)) = record.mutation(&tables, &mut room) else { return };
            if Mutation::decode(Partitioner::Murmur3, whole.to_vec()).is_ok() {
                let (found, again) = match record {
                    Record::Row(..) => cut_out_row(whole).map(|(table, pieces)| (table, pieces.concat())),
                    _ => cut_out_table(whole).map(|(head, table, body)| (table, [head, body].concat())),
                }
                .expect("it was put in");
                assert_eq!((found.0, &again[..]), (table, cut));
            }
        }
        Record::Ends(_) | Record::Timestamp(_) | Record::Tables(_) => {}
    }
}

fuzz_target!(|data: &[u8]| {
    let _ = scan_bytes(data, 1 << 16, |_, record| read(record));
    let _ = records(data).count();
    if let Some(truncation) = Truncation::decode(data) {
        assert_eq!(truncation.encode(), data);
    }
    // The same bytes as the payload of a valid group, torn at a place that they choose.
    let (shard_map, column_ids) = (ShardMap::new(Partitioner::Murmur3, 1), ColumnIds::OfSchema);
    let header = Header { id: 1 << 16, nonce: 7, segment_bytes: SEGMENT_BYTES_MIN, shard_map, column_ids };
    let payload = &data[..data.len().min((SEGMENT_BYTES_MIN - HEADER_BYTES) as usize - GROUP_HEADER_BYTES)];
    let mut segment = vec![0; SEGMENT_BYTES_MIN as usize];
    header.encode(&mut segment);
    let end = HEADER_BYTES as usize + GROUP_HEADER_BYTES + payload.len();
    segment[HEADER_BYTES as usize + GROUP_HEADER_BYTES..end].copy_from_slice(payload);
    GroupFrame::seal(&header, HEADER_BYTES, 1, &mut segment[HEADER_BYTES as usize..end]);
    let _ = scan_bytes(&segment, header.id, |_, record| read(record));
    if let Some(byte) = payload.first() {
        segment[end - 1 - *byte as usize % payload.len()] ^= 1;
        let _ = scan_bytes(&segment, header.id, |_, _| panic!("a torn group was read"));
    }
});
