//! Reads as bytes: the bytes of version 1, random reads there and back, and damage.

use super::*;
use model::arbitrary::{generator, pick};
use model::query::Position;
use model::schema::{Layout, TableOptions};
use model::{Column, ColumnKind, CqlType, DecoratedKey};

fn table() -> Arc<Table> {
    let column = |id: u16, name: &str, kind, position| Column {
        id: ColumnId(id),
        name: name.into(),
        kind,
        position,
        cql_type: CqlType::Int,
        descending: false,
    };
    Arc::new(Table {
        id: TableId([3; 16]),
        keyspace: "k".into(),
        name: "t".into(),
        columns: vec![
            column(0, "a", ColumnKind::PartitionKey, 0),
            column(1, "b", ColumnKind::Regular, 0),
            column(7, "c", ColumnKind::Regular, 0),
        ],
        partition_key_len: 1,
        clustering_len: 0,
        static_len: 0,
        layout: Layout::Plain,
        dropped: Vec::new(),
        indexes: Vec::new(),
        masks: Default::default(),
        options: TableOptions::default(),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn of_key(partitioner: Partitioner) -> ReadRequest {
    let key = DecoratedKey::new(partitioner, b"key");
    ReadRequest {
        command: ReadCommand::all(TableId([3; 16]), 5, Partitions::Key(key)),
        selection: [Selector::Column(ColumnId(7)), Selector::CountRows].into(),
        filter: None,
        index: None,
        bytes_max: 0x1000,
        places: false,
    }
}

#[test]
fn golden_bytes() {
    let core = AskedCore { core: 2, cores: 4 };
    let mut bytes = Vec::new();
    push(&mut bytes, &of_key(Partitioner::Murmur3), core);
    let max = "ff".repeat(8);
    let head = format!("{}0500000000000000", "03".repeat(16));
    let slices = "01000000".to_owned() + "00000000" + "00000000";
    let selection = "02000000".to_owned() + "000700" + "03";
    let expected = format!("{head}00{max}{max}{max}0010000000000000")
        + "0003006b6579"
        + "00"
        + &slices
        + "00"
        + &selection
        + "0000";
    assert_eq!(hex(&bytes), expected);

    let position = |token, is_after| Some(RingPosition { token: model::RingToken::Murmur3(token), is_after });
    let range = TokenRange { start: position(-2, true), end: position(3, false) };
    let key = DecoratedKey::new(Partitioner::Murmur3, b"k");
    let table = table();
    let condition = |column, test| Condition { column, test };
    let conditions = vec![
        condition(1, Test::Compare(Comparison::GreaterEqual, [9].into())),
        condition(2, Test::In(vec![[1].into(), [].into()])),
        condition(2, Test::Entry([1].into(), [2].into())),
    ];
    let full = ReadRequest {
        command: ReadCommand {
            partitions: Partitions::Range(range),
            reversed: true,
            static_only: true,
            wants_static: true,
            rows_max: 1,
            per_partition_max: 2,
            visits_max: 3,
            resume: Some(Position { key, comparable: Some([8, 8].into()) }),
            resume_partition_rows: 4,
            row_columns: Some([ColumnId(1)].into()),
            ..ReadCommand::all(TableId([3; 16]), 5, Partitions::Range(TokenRange::FULL))
        },
        selection: [Selector::WriteTime(ColumnId(1)), Selector::Token(Partitioner::Murmur3)].into(),
        filter: Some(Arc::new(RowFilter::new(table.clone(), conditions))),
        index: Some(IndexLookup { index: "i".into(), value: [6].into() }),
        bytes_max: usize::MAX,
        places: true,
    };
    bytes.clear();
    push(&mut bytes, &full, core);
    let number = |number: u64| hex(&number.to_le_bytes());
    let expected = format!("{head}0f{}{}{}{max}", number(1), number(2), number(3))
        + "0102000400"
        + "0208000000fffffffffffffffe"
        + "01080000000000000000000003"
        + "0101006b01020000000808"
        + &number(4)
        + &slices
        + "01010000000100"
        + "02000000"
        + "010100"
        + "05"
        + "0103000000"
        + "0100"
        + "0004"
        + "0100000009"
        + "0700"
        + "01"
        + "02000000"
        + "0100000001"
        + "00000000"
        + "0700"
        + "04"
        + "0100000001"
        + "0100000002"
        + "01010069"
        + "0100000006";
    assert_eq!(hex(&bytes), expected);
    let (read, asked) = decode(Partitioner::Murmur3, &table, &bytes).expect("a read");
    assert_eq!(asked, core);
    let mut again = Vec::new();
    push(&mut again, &read, asked);
    assert_eq!(again, bytes);
    for len in 0..bytes.len() {
        assert_eq!(decode(Partitioner::Murmur3, &table, &bytes[..len]).err(), Some(ReadError::Malformed), "{len}");
    }
}

#[test]
fn a_column_that_is_unknown_is_told() {
    let table = table();
    let mut request = of_key(Partitioner::Murmur3);
    request.selection = [Selector::Column(ColumnId(9))].into();
    let mut bytes = Vec::new();
    push(&mut bytes, &request, AskedCore { core: 0, cores: 1 });
    assert_eq!(decode(Partitioner::Murmur3, &table, &bytes).err(), Some(ReadError::UnknownColumn));
}

#[test]
fn counts_that_cannot_be_met_are_refused_without_memory() {
    let mut bytes = Vec::new();
    push(&mut bytes, &of_key(Partitioner::Murmur3), AskedCore { core: 0, cores: 1 });
    // The count of the slices is after the head, the key and the absent resume.
    let at = 16 + 8 + 1 + 32 + 1 + 5 + 1;
    assert_eq!(bytes[at..at + 4], [1, 0, 0, 0]);
    bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(decode(Partitioner::Murmur3, &table(), &bytes).err(), Some(ReadError::Malformed));
}

#[test]
fn reads_of_every_partitioner_come_back_and_damage_never_panics() {
    let table = table();
    for seed in 0..2_000 {
        let mut below = generator(seed);
        let partitioner = *pick(&Partitioner::ALL, &mut below);
        let mut request = of_key(partitioner);
        request.selection = [Selector::Column(ColumnId(1)), Selector::Token(partitioner)].into();
        if below(2) == 0 {
            let mut position = |is_after| {
                let key: Vec<u8> = (0..1 + below(9)).map(|_| b'a' + below(26) as u8).collect();
                Some(RingPosition { token: partitioner.ring_token(&key), is_after })
            };
            request.command.partitions = Partitions::Range(TokenRange { start: position(false), end: position(true) });
        }
        let mut bytes = Vec::new();
        push(&mut bytes, &request, AskedCore { core: 0, cores: 1 });
        let (read, _) = decode(partitioner, &table, &bytes).expect("a read");
        assert_eq!((read.command, read.selection), (request.command.clone(), request.selection.clone()), "seed {seed}");
        for _ in 0..1 + below(3) {
            let at = below(bytes.len() as u64) as usize;
            bytes[at] = below(256) as u8;
        }
        let _ = decode(partitioner, &table, &bytes);
        let _ = decode_fragments(partitioner, &bytes);
    }
}
