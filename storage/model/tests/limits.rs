//! Every limit of the crate, at it and one past it; the layouts byte by byte.

use model::Partitioner;
use model::json::{JSON_DEPTH_MAX, JSON_NAME_MAX, JSON_NUMBER_MAX, Json};
use model::key::KEY_BYTES_MAX;
use model::mutation::{CLUSTERING_BYTES_MAX, Clustering, ClusteringBound, MUTATION_BYTES_MAX, push_clustering};
use model::row::{Cell, CellContent, Deletion, Liveness, NO_TIMESTAMP, RowBuilder, RowView};
use model::text::{NUMBER_DIGITS_MAX, from_bare};
use model::types::{Component, DIMENSION_MAX, FIELDS_MAX, NAMED_CLASS_DEPTH_MAX, TYPE_DEPTH_MAX, UserType};
use model::{ColumnId, CqlType, Mutation, MutationBuilder, TableId, comparable, value};

const TABLE: TableId = TableId([7; 16]);

/// A mutation of `len` bytes, with one value as long as needed for that.
fn mutation_of(len: usize) -> Vec<u8> {
    let mut value_len = 0;
    loop {
        let mut builder = MutationBuilder::new(Partitioner::Murmur3, b"k");
        let value = vec![0; value_len];
        builder.table(TABLE).row(Clustering::default(), |out| {
            let content = CellContent::Live(&value);
            RowBuilder::new(out, None, Deletion::LIVE).cell(&Cell {
                column: ColumnId(1),
                timestamp: 1,
                content,
                path: None,
            });
        });
        if builder.len() == len {
            return builder.finish().into_bytes();
        }
        value_len = len - builder.len();
    }
}

#[test]
fn mutation_bytes() {
    assert!(Mutation::decode(Partitioner::Murmur3, mutation_of(MUTATION_BYTES_MAX)).is_ok());
    let error = Mutation::decode(Partitioner::Murmur3, mutation_of(MUTATION_BYTES_MAX + 1)).expect_err("too long");
    assert_eq!(error.to_string(), "malformed mutation: length at byte 16777216");
}

#[test]
fn key_bytes() {
    let mutation = MutationBuilder::new(Partitioner::Murmur3, &[1; KEY_BYTES_MAX]).finish();
    assert_eq!(mutation.key().len(), KEY_BYTES_MAX);
    assert_eq!(mutation.token(), Partitioner::Murmur3.token(&[1; KEY_BYTES_MAX]));
    assert!(Mutation::decode(Partitioner::Murmur3, mutation.into_bytes()).is_ok());
}

#[test]
#[should_panic(expected = "a partition key of 65536 bytes")]
fn key_bytes_beyond() {
    MutationBuilder::new(Partitioner::Murmur3, &[1; KEY_BYTES_MAX + 1]);
}

#[test]
fn clustering_bytes() {
    let mut out = Vec::new();
    push_clustering(&mut out, &[1; CLUSTERING_BYTES_MAX]);
    push_clustering(&mut out, b"");
    let lens: Vec<_> = Clustering(&out).components().map(<[u8]>::len).collect();
    assert_eq!(lens, [CLUSTERING_BYTES_MAX, 0]);
}

#[test]
#[should_panic(expected = "a clustering value of 65536 bytes")]
fn clustering_bytes_beyond() {
    push_clustering(&mut Vec::new(), &[1; CLUSTERING_BYTES_MAX + 1]);
}

#[test]
fn type_depth() {
    let nested = |depth: usize| format!("{}int{}", "frozen<list<".repeat(depth), ">>".repeat(depth));
    assert_eq!(CqlType::parse(&nested(TYPE_DEPTH_MAX)).map(|found| found.to_string()), Some(nested(TYPE_DEPTH_MAX)));
    assert_eq!(CqlType::parse(&nested(TYPE_DEPTH_MAX + 1)), None);
    assert_eq!(CqlType::parse(&"frozen<".repeat(100_000)), None);
}

/// Values of types that nest as deep as types may: nothing that recurses over them needs more than the two megabytes of
/// stack that a thread has.
#[test]
fn values_of_the_deepest_types() {
    let user = |inner: CqlType| {
        let definition = UserType { keyspace: "k".into(), name: "u".into(), fields: vec![("a".into(), inner)] };
        CqlType::User { definition: definition.into(), frozen: true }
    };
    type Wrap<'a> = &'a dyn Fn(CqlType) -> CqlType;
    let shapes: [(Wrap, &str, &str); 6] = [
        (&|inner| CqlType::List { element: inner.into(), frozen: true }, "[", "]"),
        (&|inner| CqlType::Set { element: inner.into(), frozen: true }, "[", "]"),
        (&|inner| CqlType::Map { key: CqlType::Int.into(), value: inner.into(), frozen: true }, "{\"7\": ", "}"),
        (&|inner| CqlType::Tuple(vec![inner]), "[", "]"),
        (&|inner| CqlType::Vector { element: inner.into(), dimension: 1 }, "[", "]"),
        (&user, "{\"a\": ", "}"),
    ];
    for (wrap, open, close) in shapes {
        let cql_type = (0..TYPE_DEPTH_MAX).fold(CqlType::Int, |inner, _| wrap(inner));
        assert_eq!(cql_type.depth(), TYPE_DEPTH_MAX);
        let json = format!("{}5{}", open.repeat(TYPE_DEPTH_MAX), close.repeat(TYPE_DEPTH_MAX));
        let bytes = model::json::from_json(&cql_type, &json).expect("JSON of this type").expect("no null");
        assert_eq!(model::json::to_json(&cql_type, &bytes), json);
        assert_eq!(value::validate(&cql_type, &bytes), Ok(()));
        assert!(value::compare(&cql_type, &bytes, &bytes).is_eq());
        assert!(model::text::to_literal(&cql_type, &bytes).contains('5'));
        let mut compared = Vec::new();
        comparable::encode(&cql_type, &bytes, false, &mut compared);
        assert!(compared.len() >= bytes.len() / 4);
        let (class, _) = CqlType::parse_class(&cql_type.class_name()).expect("its own class");
        assert_eq!(class.frozen().depth(), TYPE_DEPTH_MAX);
        assert!(cql_type.frozen().to_string().contains("int") || cql_type.is_user_type());
        assert_eq!(cql_type.references().len(), cql_type.is_user_type() as usize);
    }
}

#[test]
fn nested_composite_types_are_within_the_stack() {
    let one = |cql_type: CqlType| Component { cql_type, reversed: true };
    let composite = |inner: CqlType| CqlType::Composite(vec![one(inner)]);
    let cql_type = (0..TYPE_DEPTH_MAX).fold(CqlType::Int, |inner, _| composite(inner));
    assert_eq!(cql_type.depth(), TYPE_DEPTH_MAX);
    assert_eq!(CqlType::parse(&cql_type.to_string()).as_ref(), Some(&cql_type));
    assert_eq!(CqlType::parse(&composite(cql_type.clone()).to_string()), None);
    let bytes = model::json::from_json(&cql_type, "\"5:!\"").expect("JSON of this type").expect("no null");
    assert_eq!(model::json::to_json(&cql_type, &bytes), "\"5:!\"");
    assert_eq!(value::validate(&cql_type, &bytes), Ok(()));
    assert!(value::compare(&cql_type, &bytes, &bytes).is_eq());
    assert!(model::text::to_literal(&cql_type, &bytes).starts_with("0x"));
    // Values of the innermost type name classes themselves, which counts as levels.
    let room = TYPE_DEPTH_MAX - NAMED_CLASS_DEPTH_MAX - 1;
    let cql_type = (0..room).fold(CqlType::DynamicComposite(Vec::new()), |inner, _| composite(inner));
    assert_eq!(CqlType::parse(&cql_type.to_string()).as_ref(), Some(&cql_type));
    assert_eq!(CqlType::parse(&composite(cql_type.clone()).to_string()), None);
    let named = format!("{}Int32Type{}", "CompositeType(".repeat(16), ")".repeat(16));
    let bytes = model::text::from_quoted(&cql_type, &format!("{named}@5")).expect("a value");
    assert!(value::compare(&cql_type, &bytes, &bytes).is_eq());
    assert_eq!(model::text::to_plain(&cql_type, &bytes), format!("{named}@5"));
}

#[test]
fn empty_values() {
    let all = "ascii bigint blob boolean counter decimal double float inet int text timestamp timeuuid uuid varint \
               tuple<int>";
    for name in all.split_whitespace() {
        let cql_type = CqlType::parse(name).expect("a type");
        assert_eq!(value::validate(&cql_type, &[]), Ok(()), "{name}");
        assert!(cql_type.allows_empty(), "{name}");
        let meaningful = matches!(name, "ascii" | "blob" | "text" | "tuple<int>");
        assert_eq!(cql_type.is_empty_meaningless(), !meaningful, "{name}");
    }
    for name in ["date", "duration", "smallint", "time", "tinyint", "list<int>", "map<int, int>", "vector<int, 1>"] {
        let cql_type = CqlType::parse(name).expect("a type");
        assert!(value::validate(&cql_type, &[]).is_err(), "{name}");
        assert!(!cql_type.allows_empty() && !cql_type.is_empty_meaningless(), "{name}");
    }
}

#[test]
fn class_depth() {
    let nested = |depth: usize| format!("{}Int32Type{}", "FrozenType(ListType(".repeat(depth), "))".repeat(depth));
    assert!(CqlType::parse_class(&nested(TYPE_DEPTH_MAX)).is_ok());
    let error = CqlType::parse_class(&nested(TYPE_DEPTH_MAX + 1)).expect_err("too deep");
    assert_eq!(error.0, "Types are nested deeper than 64 levels");
    assert!(CqlType::parse_class(&"FrozenType(".repeat(100_000)).is_err());
    assert!(CqlType::parse_class(&"UserType(a,61,61:".repeat(100_000)).is_err());
}

#[test]
fn user_type_fields() {
    let class = |count: usize| format!("UserType(k,61{})", ",62:Int32Type".repeat(count));
    assert!(CqlType::parse_class(&class(FIELDS_MAX)).is_ok());
    assert!(CqlType::parse_class(&class(FIELDS_MAX + 1)).is_err());
}

#[test]
fn vector_dimension() {
    let name = |dimension: u64| format!("vector<int, {dimension}>");
    assert!(CqlType::parse(&name(DIMENSION_MAX.into())).is_some());
    assert!(CqlType::parse(&name(u64::from(DIMENSION_MAX) + 1)).is_none());
    assert!(CqlType::parse(&name(0)).is_none());
    let largest = CqlType::parse(&name(DIMENSION_MAX.into())).expect("a type");
    // Neither time nor memory depends on the dimension.
    assert!(value::validate(&largest, &[0; 16]).is_err());
    assert!(value::compare(&largest, &[0; 16], &[0; 12]).is_gt());
}

#[test]
fn json_limits() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(Json::parse(&nested(JSON_DEPTH_MAX)).is_ok());
    let error = Json::parse(&nested(JSON_DEPTH_MAX + 1)).expect_err("too deep").0;
    assert!(error.starts_with("Document nesting depth (1001) exceeds the maximum allowed (1000, from"), "{error}");
    assert!(Json::parse(&"1".repeat(JSON_NUMBER_MAX)).is_ok());
    let error = Json::parse(&"1".repeat(JSON_NUMBER_MAX + 1)).expect_err("too long").0;
    assert!(error.starts_with("Number value length (1001) exceeds the maximum allowed (1000, from"), "{error}");
    let member = |len: usize| format!("{{\"{}\": 1}}", "a".repeat(len));
    assert!(Json::parse(&member(JSON_NAME_MAX)).is_ok());
    assert!(Json::parse(&member(JSON_NAME_MAX + 1)).is_err());
}

#[test]
fn number_digits() {
    for cql_type in [CqlType::Varint, CqlType::Decimal] {
        assert!(from_bare(&cql_type, &"9".repeat(NUMBER_DIGITS_MAX)).is_ok());
        assert!(from_bare(&cql_type, &"9".repeat(NUMBER_DIGITS_MAX + 1)).is_err());
    }
}

#[test]
fn the_longest_decimals_are_ordered() {
    let longest = [&[0; 4][..], &[0x7f; CLUSTERING_BYTES_MAX - 4]].concat();
    let less = [&[0, 0, 0, 1][..], &[0x7f; CLUSTERING_BYTES_MAX - 4]].concat();
    assert!(value::compare(&CqlType::Decimal, &less, &longest).is_lt());
    let mut form = Vec::new();
    comparable::encode(&CqlType::Decimal, &longest, false, &mut form);
    assert!(form.len() > 70_000);
    // Longer than a key can be, they sort after all others, by memcmp.
    let beyond = [&[0; 4][..], &[0x80; 70_000]].concat();
    assert!(value::compare(&CqlType::Decimal, &beyond, &longest).is_gt());
}

#[test]
fn the_layout_of_a_mutation() {
    let mut builder = MutationBuilder::new(Partitioner::Murmur3, b"k");
    assert!(builder.is_empty());
    builder.table(TABLE);
    let live = Deletion { timestamp: NO_TIMESTAMP, local_deletion_time: 5 };
    let deletion = |timestamp| Deletion { timestamp, local_deletion_time: 2 };
    let bound = ClusteringBound { prefix: Clustering(&[1, 0, b'a']), inclusive: true };
    builder.row(Clustering(&[1, 0, b'a']), |out| {
        RowBuilder::new(out, Some(Liveness { timestamp: 3, expiry: Some((4, 5)) }), deletion(6));
    });
    builder.delete_range(bound, ClusteringBound { prefix: Clustering::default(), inclusive: false }, deletion(1));
    builder.delete_range(bound, bound, live).delete_partition(live).delete_partition(deletion(9));
    builder.delete_partition(deletion(8));
    let mutation = builder.finish();
    let long = |number: i64| number.to_le_bytes().to_vec();
    let row = [vec![7], long(3), vec![4, 0, 0, 0], long(5), long(6), long(2)].concat();
    let clustering = vec![3, 0, 0, 0, 1, 0, b'a'];
    let body = [
        vec![1],
        long(9),
        long(2),
        vec![1],
        clustering.clone(),
        vec![row.len() as u8, 0, 0, 0],
        row.clone(),
        vec![2],
        long(1),
        long(2),
        vec![1],
        clustering,
        vec![0, 0, 0, 0, 0],
    ]
    .concat();
    let expected = [vec![1, 1, 0, b'k'], TABLE.0.to_vec(), vec![body.len() as u8, 0, 0, 0], body].concat();
    assert_eq!(mutation.bytes(), expected);
    assert_eq!(mutation.updates().next().map(|update| update.partition_deletion), Some(deletion(9)));
    let view = RowView::parse(&row).expect("well formed");
    assert_eq!(view.liveness(), Some(Liveness { timestamp: 3, expiry: Some((4, 5)) }));
    assert_eq!(view.deletion(), deletion(6));
}

#[test]
fn malformed_rows_are_refused() {
    let cell = |column: u8, flags: u8, rest: &[u8]| [&[column, 0, flags, 1, 0, 0, 0, 0, 0, 0, 0][..], rest].concat();
    let row = |cells: &[Vec<u8>]| [vec![0], cells.concat()].concat();
    let (plain, empty_path) = (cell(1, 0, &[0; 4]), cell(1, 4, &[0; 8]));
    let column_deletion = cell(1, 8, &[0; 8]);
    assert!(RowView::parse(&row(&[column_deletion.clone(), plain.clone(), empty_path.clone()])).is_ok());
    for wrong in [
        vec![],
        vec![8],
        vec![2],
        vec![1, 0, 0],
        vec![4, 0, 0],
        // A deletion that deletes nothing.
        [vec![4], NO_TIMESTAMP.to_le_bytes().to_vec(), vec![0; 8]].concat(),
        // Cells out of order.
        row(&[plain.clone(), plain.clone()]),
        row(&[plain.clone(), column_deletion.clone()]),
        row(&[empty_path.clone(), plain.clone()]),
        row(&[cell(2, 0, &[0; 4]), plain.clone()]),
        // Invalid flags.
        row(&[cell(1, 3, &[0; 40])]),
        row(&[cell(1, 12, &[0; 12])]),
        row(&[cell(1, 16, &[0; 8])]),
        // Invalid lengths.
        row(&[cell(1, 0, &[1, 0, 0, 0])]),
        row(&[cell(1, 0, &[0xff; 4])]),
        row(&[plain.clone(), vec![0]]),
    ] {
        assert!(RowView::parse(&wrong).is_err(), "{wrong:02x?}");
        let _ = RowView::trusted(&wrong).cells().count();
        let _ = (RowView::trusted(&wrong).liveness(), RowView::trusted(&wrong).deletion());
    }
}

#[test]
fn class_names_are_cassandras() {
    let class = |name: &str| {
        let found = CqlType::parse(name).map(|found| found.class_name()).unwrap_or_default();
        found.replace("org.apache.cassandra.db.marshal.", "")
    };
    assert_eq!(CqlType::Int.class_name(), "org.apache.cassandra.db.marshal.Int32Type");
    for (name, expected) in [
        ("list<frozen<list<int>>>", "ListType(FrozenType(ListType(Int32Type)))"),
        ("frozen<list<frozen<list<int>>>>", "FrozenType(ListType(ListType(Int32Type)))"),
        ("frozen<map<text, frozen<set<bigint>>>>", "FrozenType(MapType(UTF8Type,SetType(LongType)))"),
        ("tuple<int, list<varint>>", "TupleType(Int32Type,ListType(IntegerType))"),
        ("list<frozen<tuple<int, text>>>", "ListType(TupleType(Int32Type,UTF8Type))"),
    ] {
        assert_eq!(class(name), expected, "{name}");
    }
}

#[test]
fn type_names() {
    for (name, shown) in [
        ("VARCHAR", "text"),
        ("frozen<list<list<int>>>", "frozen<list<frozen<list<int>>>>"),
        ("tuple<int,list<text>>", "frozen<tuple<int, frozen<list<text>>>>"),
        ("map< text , frozen<map<int,varchar>> >", "map<text, frozen<map<int, text>>>"),
    ] {
        assert_eq!(CqlType::parse(name).map(|found| found.to_string()).as_deref(), Some(shown), "{name}");
    }
    for name in [
        "",
        "nope",
        "list",
        "list<>",
        "list<list<int>>",
        "frozen<int>",
        "map<int>",
        "map<int,int,int>",
        "list<int",
        "list<int>>",
        "frozen<frozen<list<int>>>",
        "tuple<>",
        "int<int>",
        "set<int>x",
    ] {
        assert_eq!(CqlType::parse(name), None, "{name}");
    }
}
