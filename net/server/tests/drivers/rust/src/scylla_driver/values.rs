//! Every type both ways, null and unset, large values.

use super::{World, typed};
use scylla::value::{
    CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, CqlValue, CqlVarint, MaybeUnset,
};

fn decimal(unscaled: &[u8], scale: i32) -> CqlValue {
    CqlValue::Decimal(CqlDecimal::from_signed_be_bytes_and_exponent(unscaled.to_vec(), scale))
}

fn duration(months: i32, days: i32, nanoseconds: i64) -> CqlValue {
    CqlValue::Duration(CqlDuration { months, days, nanoseconds })
}

fn inet(text: &str) -> CqlValue {
    CqlValue::Inet(text.parse().expect("an address"))
}

fn text(text: &str) -> CqlValue {
    CqlValue::Text(text.to_owned())
}

fn timeuuid(text: &str) -> CqlValue {
    CqlValue::Timeuuid(text.parse::<CqlTimeuuid>().expect("a timeuuid"))
}

fn uuid(text: &str) -> CqlValue {
    CqlValue::Uuid(text.parse().expect("a uuid"))
}

fn varint(bytes: &[u8]) -> CqlValue {
    CqlValue::Varint(CqlVarint::from_signed_bytes_be(bytes.to_vec()))
}

/// Every scalar type with values at its edges.
fn scalar_values() -> Vec<(&'static str, Vec<CqlValue>)> {
    use CqlValue::*;
    let two_to_1000: Vec<u8> = std::iter::once(1).chain([0; 125]).collect();
    vec![
        ("ascii", vec![Ascii(String::new()), Ascii((0..128u8).map(char::from).collect())]),
        ("bigint", [0, -1, i64::MAX, i64::MIN].map(BigInt).into()),
        ("blob", vec![Blob(vec![]), Blob(vec![0]), Blob((0..=255).collect())]),
        ("boolean", vec![Boolean(true), Boolean(false)]),
        ("date", [0, 1 << 31, u32::MAX].map(|days| Date(CqlDate(days))).into()),
        ("decimal", vec![decimal(&[0], 0), decimal(&[0x80], 2), decimal(&[1], 40), decimal(&[0x0F, 0xFF], -10)]),
        ("double", [0.0, 1.5, 5e-324, f64::MAX, f64::INFINITY, f64::NEG_INFINITY].map(Double).into()),
        ("duration", vec![duration(0, 0, 0), duration(1, 2, 3), duration(i32::MIN, i32::MIN, i64::MIN)]),
        ("float", [0.0, -1.5, 1e-45, f32::MAX, f32::INFINITY, f32::NEG_INFINITY].map(Float).into()),
        ("inet", ["0.0.0.0", "255.255.255.255", "::", "2001:db8::1"].map(inet).into()),
        ("int", [0, -1, i32::MAX, i32::MIN].map(Int).into()),
        ("smallint", [0, -1, i16::MAX, i16::MIN].map(SmallInt).into()),
        ("text", vec![text(""), text("grün"), text("日本語 🦀"), text("it's \0 \n")]),
        ("time", [0, 1, 86_399_999_999_999].map(|nanoseconds| Time(CqlTime(nanoseconds))).into()),
        ("timestamp", [0, -1, i64::MAX, i64::MIN].map(|millis| Timestamp(CqlTimestamp(millis))).into()),
        ("timeuuid", vec![timeuuid("50554d6e-29bb-11e5-b345-feff819cdc9f")]),
        ("tinyint", [0, -1, i8::MAX, i8::MIN].map(TinyInt).into()),
        ("uuid", vec![uuid("00000000-0000-0000-0000-000000000000"), uuid("550e8400-e29b-41d4-a716-446655440000")]),
        ("varint", vec![varint(&[0]), varint(&[0x80]), varint(&[0xFF, 0x7F]), varint(&two_to_1000)]),
    ]
}

impl World<'_> {
    fn address(&self, street: Option<&str>, number: Option<i32>) -> CqlValue {
        let fields = vec![("street".to_owned(), street.map(text)), ("number".to_owned(), number.map(CqlValue::Int))];
        CqlValue::UserDefinedType { keyspace: self.keyspace.clone(), name: "address".into(), fields }
    }

    /// Collections, tuples, user types and vectors, within each other too. What has an order of its own stands in that
    /// order.
    fn composite_values(&self) -> Vec<(&'static str, Vec<CqlValue>)> {
        use CqlValue::*;
        let ints = |values: &[i32]| values.iter().copied().map(Int).collect::<Vec<_>>();
        let pair = |number, name| Tuple(vec![number, name]);
        let home = self.address(Some("Rue Émile 1"), Some(7));
        let nested = vec![Map(vec![(Int(1), Set(vec![text("a"), text("b")]))]), Map(vec![])];
        vec![
            ("list<int>", vec![List(ints(&[3, i32::MIN, 3]))]),
            ("set<text>", vec![Set(vec![text("")]), Set(vec![text("a"), text("b"), text("ü")])]),
            ("map<text, int>", vec![Map(vec![(text(""), Int(0)), (text("k"), Int(i32::MAX))])]),
            ("frozen<list<text>>", vec![List(vec![]), List(vec![text("a"), text(&"b".repeat(70_000))])]),
            ("list<frozen<map<int, frozen<set<text>>>>>", vec![List(nested)]),
            ("tuple<int, text>", vec![pair(Some(Int(1)), Some(text("a"))), pair(None, Some(text("a")))]),
            ("address", vec![home.clone(), self.address(Some("only"), None)]),
            ("frozen<address>", vec![self.address(None, None), home.clone()]),
            ("map<frozen<address>, frozen<tuple<int, text>>>", vec![Map(vec![(home, pair(Some(Int(1)), None))])]),
            ("vector<float, 3>", vec![Vector(vec![Float(0.5), Float(-1.5), Float(f32::INFINITY)])]),
            ("vector<text, 2>", vec![Vector(vec![text(""), text(&"ü".repeat(300))])]),
        ]
    }

    /// Writes every value bound to a prepared statement, and reads it by prepared and by simple statements; then null.
    async fn both_ways(&self, table: &str, types: Vec<(&'static str, Vec<CqlValue>)>) {
        let session = &self.session;
        let columns: Vec<String> = types.iter().enumerate().map(|(at, (kind, _))| format!("c{at} {kind}")).collect();
        self.run(&format!("CREATE TABLE {table} (pk int PRIMARY KEY, {})", columns.join(", "))).await;
        let mut pk = 0;
        for (at, (kind, values)) in types.into_iter().enumerate() {
            let insert = self.prepare(&format!("INSERT INTO {table} (pk, c{at}) VALUES (?, ?)")).await;
            let select = self.prepare(&format!("SELECT c{at} FROM {table} WHERE pk = ?")).await;
            for value in values.into_iter().map(Some).chain([None]) {
                pk += 1;
                session.execute_unpaged(&insert, (pk, &value)).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
                let by_prepared = session.execute_unpaged(&select, (pk,)).await.expect("read");
                assert_eq!(typed::<(Option<CqlValue>,)>(by_prepared), [(value.clone(),)], "{kind}");
                let simple = format!("SELECT c{at} FROM {table} WHERE pk = {pk}");
                assert_eq!(self.rows::<(Option<CqlValue>,)>(&simple).await, [(value,)], "{kind}");
            }
        }
    }

    pub(super) async fn scalars(&self) {
        self.both_ways("scalars", scalar_values()).await;
    }

    pub(super) async fn composites(&self) {
        self.run("CREATE TYPE address (street text, number int)").await;
        self.both_ways("composites", self.composite_values()).await;
    }

    /// Null deletes, unset leaves, empty is neither.
    pub(super) async fn nulls_and_unset(&self) {
        let session = &self.session;
        self.run("CREATE TABLE optional (pk int PRIMARY KEY, a int, b text, l list<int>)").await;
        let insert = self.prepare("INSERT INTO optional (pk, a, b, l) VALUES (1, ?, ?, ?)").await;
        type Values = (Option<i32>, Option<String>, Option<Vec<i32>>);
        let read = || self.rows::<Values>("SELECT a, b, l FROM optional WHERE pk = 1");
        session.execute_unpaged(&insert, (1, "b", vec![1])).await.expect("written");
        let unset: MaybeUnset<Vec<i32>> = MaybeUnset::Unset;
        session.execute_unpaged(&insert, (None::<i32>, MaybeUnset::<&str>::Unset, unset)).await.expect("written");
        assert_eq!(read().await, [(None, Some("b".into()), Some(vec![1]))]);
        session.execute_unpaged(&insert, (2, "", Vec::<i32>::new())).await.expect("written");
        assert_eq!(read().await, [(Some(2), Some(String::new()), None)]);
    }

    /// Answers of many packets and records of TLS, of bytes that compress and of bytes that do not.
    pub(super) async fn large_values(&self) {
        self.run("CREATE TABLE large (pk int PRIMARY KEY, v blob)").await;
        let insert = self.prepare("INSERT INTO large (pk, v) VALUES (?, ?)").await;
        let select = self.prepare("SELECT v FROM large WHERE pk = ?").await;
        let noise = crate::noise::bytes(2_000_000);
        for (pk, len) in [16_384, 131_071, 131_072, 2_000_000].into_iter().enumerate() {
            for value in [&noise[..len], &vec![7; len]] {
                self.session.execute_unpaged(&insert, (pk as i32, value)).await.expect("written");
                let found = self.session.execute_unpaged(&select, (pk as i32,)).await.expect("read");
                assert!(typed::<(Vec<u8>,)>(found)[0].0 == value, "{len} bytes came back otherwise");
            }
        }
    }
}
