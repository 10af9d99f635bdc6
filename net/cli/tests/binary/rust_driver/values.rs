//! Every type both ways, null, unset and empty values, large ones.

use super::{Served, builder, rows, run, typed};
use scylla::client::Compression;
use scylla::value::{
    CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, CqlValue, CqlVarint, MaybeUnset,
};
use std::net::IpAddr;
use std::str::FromStr;

fn decimal(unscaled: &[u8], scale: i32) -> CqlValue {
    CqlValue::Decimal(CqlDecimal::from_signed_be_bytes_and_exponent(unscaled.to_vec(), scale))
}

fn duration(months: i32, days: i32, nanoseconds: i64) -> CqlValue {
    CqlValue::Duration(CqlDuration { months, days, nanoseconds })
}

fn inet(text: &str) -> CqlValue {
    CqlValue::Inet(IpAddr::from_str(text).expect("an address"))
}

fn text(text: &str) -> CqlValue {
    CqlValue::Text(text.to_owned())
}

fn timeuuid(text: &str) -> CqlValue {
    CqlValue::Timeuuid(CqlTimeuuid::from_str(text).expect("a timeuuid"))
}

fn uuid(text: &str) -> CqlValue {
    CqlValue::Uuid(text.parse().expect("a uuid"))
}

fn varint(bytes: &[u8]) -> CqlValue {
    CqlValue::Varint(CqlVarint::from_signed_bytes_be(bytes.to_vec()))
}

/// Every scalar type with values at its edges.
fn scalars() -> Vec<(&'static str, Vec<CqlValue>)> {
    use CqlValue::*;
    let two_to_1000: Vec<u8> = std::iter::once(1).chain([0; 125]).collect();
    vec![
        ("ascii", vec![Ascii(String::new()), Ascii((0..128u8).map(char::from).collect())]),
        ("bigint", [0, -1, i64::MAX, i64::MIN].map(BigInt).into()),
        ("blob", vec![Blob(vec![]), Blob(vec![0]), Blob((0..=255).collect()), Blob(vec![255; 70_000])]),
        ("boolean", vec![Boolean(true), Boolean(false)]),
        ("date", [0, 1 << 31, u32::MAX].map(|days| Date(CqlDate(days))).into()),
        ("decimal", vec![decimal(&[0], 0), decimal(&[0x80], 2), decimal(&[1], 40), decimal(&[0x0F, 0xFF, 0xFF], -10)]),
        ("double", [0.0, 1.5, 5e-324, f64::MAX, f64::INFINITY, f64::NEG_INFINITY].map(Double).into()),
        (
            "duration",
            vec![
                duration(0, 0, 0),
                duration(1, 2, 3),
                duration(-1, -2, -3),
                duration(i32::MAX, i32::MAX, i64::MAX),
                duration(i32::MIN, i32::MIN, i64::MIN),
            ],
        ),
        ("float", [0.0, -1.5, 1e-45, f32::MAX, f32::INFINITY, f32::NEG_INFINITY].map(Float).into()),
        ("inet", ["0.0.0.0", "127.0.0.1", "255.255.255.255", "::", "2001:db8::1"].map(inet).into()),
        ("int", [0, -1, i32::MAX, i32::MIN].map(Int).into()),
        ("smallint", [0, -1, i16::MAX, i16::MIN].map(SmallInt).into()),
        ("text", vec![text(""), text("grün"), text("日本語 🦀"), text("it's \0 \n"), text(&"x".repeat(70_000))]),
        ("time", [0, 1, 86_399_999_999_999].map(|nanoseconds| Time(CqlTime(nanoseconds))).into()),
        ("timestamp", [0, -1, i64::MAX, i64::MIN].map(|millis| Timestamp(CqlTimestamp(millis))).into()),
        (
            "timeuuid",
            vec![
                timeuuid("50554d6e-29bb-11e5-b345-feff819cdc9f"),
                timeuuid("00000000-0000-1000-8080-808080808080"),
                timeuuid("ffffffff-ffff-1fff-bf7f-7f7f7f7f7f7f"),
            ],
        ),
        ("tinyint", [0, -1, i8::MAX, i8::MIN].map(TinyInt).into()),
        ("uuid", vec![uuid("00000000-0000-0000-0000-000000000000"), uuid("550e8400-e29b-41d4-a716-446655440000")]),
        (
            "varint",
            vec![varint(&[0]), varint(&[0x80]), varint(&[0, 0x80]), varint(&[0xFF, 0x7F]), varint(&two_to_1000)],
        ),
    ]
}

fn address(street: Option<&str>, number: Option<i32>) -> CqlValue {
    let fields = vec![("street".to_owned(), street.map(text)), ("number".to_owned(), number.map(CqlValue::Int))];
    CqlValue::UserDefinedType { keyspace: "d".into(), name: "address".into(), fields }
}

/// Collections, tuples, user types and vectors, within each other too. What has an order of its own stands in that
/// order.
fn composites() -> Vec<(&'static str, Vec<CqlValue>)> {
    use CqlValue::*;
    let ints = |values: &[i32]| values.iter().copied().map(Int).collect::<Vec<_>>();
    let pair = |number, name| Tuple(vec![number, name]);
    vec![
        ("list<int>", vec![List(ints(&[3, i32::MIN, 3]))]),
        ("set<text>", vec![Set(vec![text("")]), Set(vec![text("a"), text("b"), text("ü")])]),
        ("map<text, int>", vec![Map(vec![(text(""), Int(0)), (text("k"), Int(i32::MAX))])]),
        ("frozen<list<text>>", vec![List(vec![]), List(vec![text("a"), text(&"b".repeat(70_000))])]),
        ("frozen<set<int>>", vec![Set(vec![]), Set(ints(&[-1, 2, 3]))]),
        ("frozen<map<int, text>>", vec![Map(vec![]), Map(vec![(Int(-1), text("x")), (Int(1), text(""))])]),
        (
            "list<frozen<map<int, frozen<set<text>>>>>",
            vec![List(vec![Map(vec![(Int(1), Set(vec![text("a"), text("b")]))]), Map(vec![])])],
        ),
        (
            "tuple<int, text>",
            vec![
                pair(Some(Int(1)), Some(text("a"))),
                pair(None, Some(text("a"))),
                pair(Some(Int(1)), None),
                pair(None, None),
            ],
        ),
        ("address", vec![address(Some("Rue Émile 1"), Some(7)), address(Some("only"), None)]),
        ("frozen<address>", vec![address(None, None), address(Some(""), Some(0))]),
        (
            "map<frozen<address>, frozen<tuple<int, text>>>",
            vec![Map(vec![(address(Some("key"), None), pair(Some(Int(1)), None))])],
        ),
        ("vector<float, 3>", vec![Vector(vec![Float(0.5), Float(-1.5), Float(f32::INFINITY)])]),
        ("vector<text, 2>", vec![Vector(vec![text(""), text(&"ü".repeat(300))])]),
    ]
}

/// Writes every value bound to a prepared statement, and reads it by prepared and by simple statements; then null.
async fn both_ways(served: &Served, types: Vec<(&'static str, Vec<CqlValue>)>) {
    let session = &served.session;
    let columns: Vec<String> = types.iter().enumerate().map(|(at, (kind, _))| format!("c{at} {kind}")).collect();
    run(session, &format!("CREATE TABLE t (pk int PRIMARY KEY, {})", columns.join(", "))).await;
    let mut pk = 0;
    for (at, (kind, values)) in types.into_iter().enumerate() {
        let insert = session.prepare(format!("INSERT INTO t (pk, c{at}) VALUES (?, ?)")).await.expect("prepared");
        let select = session.prepare(format!("SELECT c{at} FROM t WHERE pk = ?")).await.expect("prepared");
        for value in values.into_iter().map(Some).chain([None]) {
            pk += 1;
            session.execute_unpaged(&insert, (pk, &value)).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
            let by_prepared = session.execute_unpaged(&select, (pk,)).await.expect("read");
            assert_eq!(typed::<(Option<CqlValue>,)>(by_prepared), [(value.clone(),)], "{kind}");
            let by_simple = rows::<(Option<CqlValue>,)>(session, &format!("SELECT c{at} FROM t WHERE pk = {pk}")).await;
            assert_eq!(by_simple, [(value,)], "{kind}");
        }
    }
}

#[tokio::test]
async fn scalars_come_back_as_they_were() {
    let served = Served::start("127.0.14.1", &[]).await;
    both_ways(&served, scalars()).await;
    served.stop();
}

#[tokio::test]
async fn composites_come_back_as_they_were() {
    let served = Served::start("127.0.14.2", &["CREATE TYPE address (street text, number int)"]).await;
    both_ways(&served, composites()).await;
    served.stop();
}

#[tokio::test]
async fn null_deletes_unset_leaves_and_empty_is_neither() {
    let table = "CREATE TABLE t (pk int PRIMARY KEY, a int, b text, l list<int>)";
    let served = Served::start("127.0.14.3", &[table]).await;
    let session = &served.session;
    let insert = session.prepare("INSERT INTO t (pk, a, b, l) VALUES (1, ?, ?, ?)").await.expect("prepared");
    type Values = (Option<i32>, Option<String>, Option<Vec<i32>>);
    let read = || rows::<Values>(session, "SELECT a, b, l FROM t WHERE pk = 1");
    session.execute_unpaged(&insert, (1, "b", vec![1])).await.expect("written");
    let unset: MaybeUnset<Vec<i32>> = MaybeUnset::Unset;
    session.execute_unpaged(&insert, (None::<i32>, MaybeUnset::<&str>::Unset, unset)).await.expect("written");
    assert_eq!(read().await, [(None, Some("b".into()), Some(vec![1]))]);
    // An empty collection that is not frozen is no collection.
    session.execute_unpaged(&insert, (2, None::<&str>, Vec::<i32>::new())).await.expect("written");
    assert_eq!(read().await, [(Some(2), None, None)]);
    session.execute_unpaged(&insert, (CqlValue::Empty, "", None::<Vec<i32>>)).await.expect("written");
    let empty = rows::<(Vec<u8>, String)>(session, "SELECT int_as_blob(a), b FROM t WHERE pk = 1").await;
    assert_eq!(empty, [(Vec::new(), String::new())]);
    served.stop();
}

/// Frames of many packets, plain and in both compressions, of bytes that compress and of bytes that do not.
#[tokio::test]
async fn large_values_come_back_in_every_compression() {
    let served = Served::start("127.0.14.4", &["CREATE TABLE t (pk int PRIMARY KEY, v blob)"]).await;
    let mut state = 88_172_645_463_325_252_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    })
    .take(4_000_000)
    .collect();
    for compression in [None, Some(Compression::Lz4), Some(Compression::Snappy)] {
        let session = builder(&served.node).compression(compression).use_keyspace("d", false).build().await;
        let session = session.expect("a session");
        let insert = session.prepare("INSERT INTO t (pk, v) VALUES (?, ?)").await.expect("prepared");
        let select = session.prepare("SELECT v FROM t WHERE pk = ?").await.expect("prepared");
        for (pk, len) in [131_071, 131_072, 1_000_000, 4_000_000].into_iter().enumerate() {
            for value in [&noise[..len], &vec![7; len]] {
                session.execute_unpaged(&insert, (pk as i32, value)).await.expect("written");
                let found = session.execute_unpaged(&select, (pk as i32,)).await.expect("read");
                assert!(typed::<(Vec<u8>,)>(found)[0].0 == value, "{compression:?}: {len} bytes came back otherwise");
            }
        }
    }
    served.stop();
}
