//! Every type that the driver reads, both ways; null and unset, large values.

use super::{Kind, World};
use cdrs_tokio::frame::{Serialize, TryFromRow, Version};
use cdrs_tokio::query_values;
use cdrs_tokio::types::prelude::{Blob, Bytes, Decimal, Duration, List, Row, Tuple, Value};
use cdrs_tokio::types::{AsRustType, ByIndex, ByName, IntoRustByName};
use cdrs_tokio::{IntoCdrsValue, TryFromRow, TryFromUdt};
use num_bigint::BigInt;
use std::collections::HashMap;
use std::fmt::Debug;
use std::io::Cursor;
use std::net::IpAddr;
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, IntoCdrsValue, TryFromUdt)]
struct Address {
    street: String,
    number: i32,
}

#[derive(Debug, Clone, PartialEq, TryFromRow)]
struct Composites {
    pk: i32,
    l: Vec<i32>,
    s: Vec<String>,
    m: HashMap<String, i64>,
    u: Address,
    us: HashMap<String, Address>,
}

#[derive(Debug, PartialEq)]
struct Pair(i32, String);

impl From<Pair> for Bytes {
    fn from(pair: Pair) -> Bytes {
        let mut bytes = Vec::new();
        let mut cursor = Cursor::new(&mut bytes);
        for part in [Value::from(pair.0), Value::from(pair.1)] {
            part.serialize(&mut cursor, Version::V4);
        }
        Bytes::new(bytes)
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn id(text: &str) -> Uuid {
    text.parse().expect("an id")
}

fn decimal(unscaled: &str, scale: i32) -> Decimal {
    Decimal::new(unscaled.parse().expect("a number"), scale)
}

impl<K: Kind> World<K> {
    /// Writes values of a type bound to a prepared statement, and reads them by prepared and by simple statements.
    async fn native<T>(&self, kind: &str, values: &[T])
    where
        T: Clone + Debug + PartialEq + Into<Bytes>,
        Row: IntoRustByName<T>,
    {
        self.define(&format!("CREATE TABLE n_{kind} (pk int PRIMARY KEY, v {kind})")).await;
        let insert = self.prepare(&format!("INSERT INTO n_{kind} (pk, v) VALUES (?, ?)")).await;
        let select = self.prepare(&format!("SELECT v FROM n_{kind} WHERE pk = ?")).await;
        for (pk, value) in values.iter().enumerate() {
            let pk = pk as i32;
            self.execute(&insert, query_values!(pk, Value::new(value.clone()))).await;
            let by_prepared = self.execute(&select, query_values!(pk)).await;
            let by_simple = self.rows(&format!("SELECT v FROM n_{kind} WHERE pk = {pk}")).await;
            for rows in [by_prepared, by_simple] {
                assert_eq!(rows[0].r_by_name::<T>("v").unwrap_or_else(|error| panic!("{kind}: {error}")), *value);
            }
        }
    }

    /// Every scalar type with values at its edges.
    pub(super) async fn scalars(&self) {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        self.native("ascii", &texts(&["plain", " ~"])).await;
        self.native("bigint", &[0, -1, i64::MAX, i64::MIN]).await;
        self.native("blob", &[Blob::new(vec![0]), Blob::new((0..=255).collect())]).await;
        self.native("boolean", &[true, false]).await;
        self.native("date", &[0, -1, i32::MAX, i32::MIN]).await;
        self.native("decimal", &[decimal("0", 0), decimal("-150", 2), decimal("123456789012345678901234567890", 9)])
            .await;
        self.native("double", &[0.0, 1.5, 5e-324, f64::MAX, f64::INFINITY, f64::NEG_INFINITY]).await;
        self.native("float", &[0.0, -1.5, 1e-45, f32::MAX, f32::INFINITY]).await;
        self.native("inet", &["0.0.0.0", "255.255.255.255", "::", "2001:db8::1"].map(ip)).await;
        self.native("int", &[0, -1, i32::MAX, i32::MIN]).await;
        self.native("smallint", &[0, -1, i16::MAX, i16::MIN]).await;
        self.native("text", &texts(&["grün", "日本語 🦀", "it's \0 \n"])).await;
        self.native("time", &[0, 1, 86_399_999_999_999_i64]).await;
        self.native("timestamp", &[0, -1, i64::MAX, i64::MIN]).await;
        self.native("timeuuid", &[id("50554d6e-29bb-11e5-b345-feff819cdc9f")]).await;
        self.native("tinyint", &[0, -1, i8::MAX, i8::MIN]).await;
        self.native("uuid", &[Uuid::nil(), id("550e8400-e29b-41d4-a716-446655440000")]).await;
        self.native("varint", &[BigInt::from(0), BigInt::from(-129), BigInt::from(2).pow(1000)]).await;
        // The driver writes durations, and has no reading of them from a row.
        self.define("CREATE TABLE n_duration (pk int PRIMARY KEY, v duration)").await;
        let insert = self.prepare("INSERT INTO n_duration (pk, v) VALUES (?, ?)").await;
        for (pk, sign, text) in [(1, 1, r#""1mo2d3ns""#), (2, -1, r#""-1mo2d3ns""#)] {
            let duration = Duration::new(sign, sign * 2, i64::from(sign) * 3).expect("one sign");
            self.execute(&insert, query_values!(pk, duration)).await;
            let found = self.rows(&format!("SELECT to_json(v) AS v FROM n_duration WHERE pk = {pk}")).await;
            assert_eq!(found[0].r_by_name::<String>("v").expect("a text"), text);
        }
    }

    /// Collections, a tuple and a user type, within each other too.
    pub(super) async fn composites(&self) {
        self.define("CREATE TYPE address (street text, number int)").await;
        let columns = "pk int PRIMARY KEY, l list<int>, s set<text>, m map<text, bigint>, u frozen<address>, us map<text, \
                       frozen<address>>, n list<frozen<list<int>>>, t tuple<int, text>";
        self.define(&format!("CREATE TABLE composites ({columns})")).await;
        let home = Address { street: "Rue Émile 1".into(), number: 7 };
        let written = Composites {
            pk: 1,
            l: vec![3, i32::MIN, 3],
            s: vec!["a".into(), "ü".into()],
            m: HashMap::from([("k".into(), -1)]),
            u: home.clone(),
            us: HashMap::from([("k".into(), home)]),
        };
        let columns = "(pk, l, s, m, u, us, n, t)";
        let insert = self.prepare(&format!("INSERT INTO composites {columns} VALUES (?, ?, ?, ?, ?, ?, ?, ?)")).await;
        let Composites { pk, l, s, m, u, us } = written.clone();
        let nested = vec![vec![1, 2], vec![]];
        let values = query_values!(pk, l, s, m, u, us, nested.clone(), Pair(5, "five".into()));
        self.execute(&insert, values).await;
        let mut found = self.rows("SELECT pk, l, s, m, u, us FROM composites WHERE pk = 1").await;
        assert_eq!(Composites::try_from_row(found.remove(0)).expect("a row"), written);
        let found = self.rows("SELECT n, t FROM composites WHERE pk = 1").await;
        let lists: Vec<List> = found[0].r_by_name::<List>("n").expect("a list").as_r_type().expect("lists");
        let lists: Vec<Vec<i32>> = lists.iter().map(|list| list.as_r_type().expect("numbers")).collect();
        assert_eq!(lists, nested);
        let tuple: Tuple = found[0].r_by_name("t").expect("a tuple");
        let pair = Pair(tuple.r_by_index(0).expect("a number"), tuple.r_by_index(1).expect("a text"));
        assert_eq!(pair, Pair(5, "five".into()));
    }

    /// Null deletes, unset leaves.
    pub(super) async fn nulls_and_unset(&self) {
        self.define("CREATE TABLE optional (pk int PRIMARY KEY, a int, b text)").await;
        let insert = self.prepare("INSERT INTO optional (pk, a, b) VALUES (?, ?, ?)").await;
        let read = async || {
            let found = self.rows("SELECT a, b FROM optional WHERE pk = 1").await;
            let a: Option<i32> = found[0].by_name("a").expect("a column");
            let b: Option<String> = found[0].by_name("b").expect("a column");
            (a, b)
        };
        self.execute(&insert, query_values!(1, 1, "x")).await;
        self.execute(&insert, query_values!(1, Value::Null, Value::NotSet)).await;
        assert_eq!(read().await, (None, Some("x".into())));
        self.execute(&insert, query_values!(1, 2, None::<String>)).await;
        assert_eq!(read().await, (Some(2), None));
    }

    /// Answers of many packets and records of TLS, of bytes that compress and of bytes that do not.
    pub(super) async fn large_values(&self) {
        self.define("CREATE TABLE large (pk int PRIMARY KEY, v blob)").await;
        let insert = self.prepare("INSERT INTO large (pk, v) VALUES (?, ?)").await;
        let select = self.prepare("SELECT v FROM large WHERE pk = ?").await;
        let noise = crate::noise::bytes(2_000_000);
        for (pk, len) in [16_384, 131_071, 131_072, 2_000_000].into_iter().enumerate() {
            for value in [noise[..len].to_vec(), vec![7; len]] {
                self.execute(&insert, query_values!(pk as i32, Blob::new(value.clone()))).await;
                let found = self.execute(&select, query_values!(pk as i32)).await;
                let found: Blob = found[0].r_by_name("v").expect("a column");
                assert!(found.into_vec() == value, "{len} bytes came back otherwise");
            }
        }
    }
}
