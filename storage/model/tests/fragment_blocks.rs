//! Blocks of fragments: their bytes, and what is refused.

use model::fragment::{Cursor, Fragment, FragmentSink, FragmentStep};
use model::fragment_block::{FragmentBlock, FragmentBlockCursor, FragmentBlockWriter};
use model::mutation::{Clustering, push_clustering};
use model::query::{Position, ReadEnd, Resume};
use model::row::{Cell, CellContent, Deletion, Liveness, RowBuilder, RowView};
use model::{ColumnId, DecoratedKey, Partitioner, Token};

const DELETED: Deletion = Deletion { timestamp: 5, local_deletion_time: 6 };

fn blob(timestamp: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut row = RowBuilder::new(&mut out, Some(Liveness { timestamp, expiry: None }), Deletion::LIVE);
    row.cell(&Cell { column: ColumnId(3), timestamp, content: CellContent::Live(b"v"), path: None });
    out
}

fn statics() -> Vec<u8> {
    let mut out = Vec::new();
    let content = CellContent::Deleted { local_deletion_time: 9 };
    RowBuilder::new(&mut out, None, Deletion::LIVE).cell(&Cell {
        column: ColumnId(2),
        timestamp: 8,
        content,
        path: None,
    });
    out
}

/// Puts a partition of a static row, two rows and a range between them into a sink.
fn partition(sink: &mut dyn FragmentSink, key: &[u8]) {
    let mut value = Vec::new();
    push_clustering(&mut value, b"c");
    let (clustering, none, live) = (Clustering(&value), Clustering(&[]), Deletion::LIVE);
    sink.fragment(Fragment::PartitionStart { token: Partitioner::Murmur3.token(key), key, deletion: DELETED }, live);
    sink.fragment(Fragment::StaticRow { row: RowView::trusted(&statics()) }, live);
    sink.fragment(Fragment::Row { clustering, comparable: b"b", row: RowView::trusted(&blob(7)) }, live);
    sink.fragment(Fragment::RangeMarker { clustering: none, comparable: b"c", deletion: DELETED }, live);
    sink.fragment(Fragment::RangeMarker { clustering: none, comparable: b"d", deletion: DELETED }, live);
    // The second row is older than the range.
    sink.fragment(Fragment::Row { clustering, comparable: b"e", row: RowView::trusted(&blob(4)) }, DELETED);
    sink.fragment(Fragment::RangeMarker { clustering, comparable: b"f", deletion: live }, live);
}

fn keys() -> [&'static [u8]; 2] {
    let mut keys: [&[u8]; 2] = [b"k", b"l"];
    keys.sort_by_key(|key| Partitioner::Murmur3.token(key));
    keys
}

fn block(end: &ReadEnd) -> FragmentBlock {
    let mut writer = FragmentBlockWriter::new(Partitioner::Murmur3, usize::MAX);
    let [first, second] = keys();
    partition(&mut writer, first);
    writer.fragment(Fragment::PartitionEnd, Deletion::LIVE);
    partition(&mut writer, second);
    writer.finish(end)
}

/// The fragments of a block as text.
fn fragments(block: &FragmentBlock) -> Vec<String> {
    let mut cursor = FragmentBlockCursor::new(block);
    let mut out = Vec::new();
    while let Ok(FragmentStep::Fragment) = cursor.advance() {
        out.push(format!("{:?}", cursor.fragment().expect("a fragment")));
    }
    out
}

#[test]
fn a_block_gives_its_fragments_without_what_is_shadowed_or_repeated() {
    let block = block(&ReadEnd::Exhausted);
    let found = fragments(&block);
    let kinds: Vec<&str> = found.iter().filter_map(|text| text.split([' ', '(']).next()).collect();
    let partition = ["PartitionStart", "StaticRow", "Row", "RangeMarker", "RangeMarker", "PartitionEnd"];
    assert_eq!(kinds, [partition, partition].concat());
    assert_eq!(FragmentBlock::decode(Partitioner::Murmur3, block.clone().into_bytes(), false), Ok(block.clone()));
    assert_eq!(block.stopped_at(), None);
    // Rows in ascending order are not those of a reversed read.
    assert!(FragmentBlock::decode(Partitioner::Murmur3, block.into_bytes(), true).is_err());
}

#[test]
fn a_block_tells_where_the_read_ended() {
    let last = DecoratedKey::new(Partitioner::Murmur3, keys()[1]);
    let within = Position { key: last.clone(), comparable: Some(b"f"[..].into()) };
    assert_eq!(block(&ReadEnd::Stopped).stopped_at(), Some(within.clone()));
    let paused =
        |position: &Position| ReadEnd::Paused(Box::new(Resume { position: position.clone(), partition_rows: 1 }));
    for position in [within, Position { key: last, comparable: None }] {
        let block = block(&paused(&position));
        assert_eq!(block.stopped_at(), Some(position.clone()));
        let mut cursor = FragmentBlockCursor::new(&block);
        let mut cuts = Vec::new();
        while let Ok(FragmentStep::Fragment) = cursor.advance() {
            if let Some(Fragment::PartitionStart { .. }) = cursor.fragment() {
                cuts.push(cursor.cut());
            }
        }
        assert_eq!(cuts, [None, position.comparable.as_deref()]);
        assert_eq!(FragmentBlock::decode(Partitioner::Murmur3, block.clone().into_bytes(), false), Ok(block));
    }
}

#[test]
fn the_rest_of_a_partition_is_skipped() {
    let block = block(&ReadEnd::Exhausted);
    let mut cursor = FragmentBlockCursor::new(&block);
    let mut found = Vec::new();
    while let Ok(FragmentStep::Fragment) = cursor.advance() {
        found.push(format!("{:?}", cursor.fragment().expect("a fragment")));
        cursor.skip_partition();
    }
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|text| text.starts_with("PartitionStart")));
}

#[test]
fn a_writer_is_full_at_its_limit_and_keeps_the_memory_it_is_given() {
    let mut writer = FragmentBlockWriter::with_room(Partitioner::Murmur3, 100, vec![1; 1000]);
    assert!(!writer.is_full());
    partition(&mut writer, b"k");
    assert!(writer.is_full());
    let bytes = writer.finish(&ReadEnd::Exhausted).into_bytes();
    assert!(bytes.len() > 100 && bytes.capacity() >= 1000);
}

#[test]
fn bytes_of_a_block_of_one_row() {
    let mut writer = FragmentBlockWriter::new(Partitioner::Murmur3, usize::MAX);
    let token = Token(2);
    writer.fragment(Fragment::PartitionStart { token, key: b"k", deletion: Deletion::LIVE }, Deletion::LIVE);
    let row = RowView::trusted(&[0]);
    writer.fragment(Fragment::Row { clustering: Clustering(&[]), comparable: b"8", row }, Deletion::LIVE);
    writer.cut(b"8");
    let expected = [
        &[1, 43, 0, 0, 0][..],
        &[1, 37, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, b'k', 0],
        &[3, 0, 0, 0, 0, 1, 0, 0, 0, b'8', 1, 0, 0, 0, 0],
        &[6, 1, 0, 0, 0, b'8'],
        &[7],
    ];
    assert_eq!(writer.finish(&ReadEnd::Exhausted).bytes(), expected.concat());
}

#[test]
fn damaged_blocks_are_refused_or_read_to_their_end() {
    let ends = [ReadEnd::Exhausted, ReadEnd::Stopped];
    for whole in ends.iter().map(|end| block(end).into_bytes()) {
        for len in 0..whole.len() {
            assert!(FragmentBlock::decode(Partitioner::Murmur3, whole[..len].to_vec(), false).is_err(), "{len} bytes");
        }
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(block) = FragmentBlock::decode(Partitioner::Murmur3, bytes, false) {
                fragments(&block);
                block.stopped_at();
            }
        }
    }
}
