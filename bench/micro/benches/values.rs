//! Measures serialised values by type: validation, comparison, the byte-comparable form, conversion to and from CQL
//! text.

use criterion::{Criterion, criterion_group, criterion_main};
use model::value::{compare, validate};
use model::{CqlType, comparable, text};
use std::hint::black_box;

fn of_two(of: CqlType) -> CqlType {
    CqlType::Map { key: CqlType::Text.into(), value: of.into(), frozen: true }
}

/// The types to measure: name, type, and two values as text.
fn values() -> Vec<(&'static str, CqlType, [&'static str; 2])> {
    vec![
        ("int", CqlType::Int, ["41", "-42"]),
        ("bigint", CqlType::Bigint, ["4100000000000", "-42"]),
        ("double", CqlType::Double, ["4.25", "-1.5e300"]),
        ("decimal", CqlType::Decimal, ["1234567.890123", "-0.5"]),
        ("varint", CqlType::Varint, ["123456789012345678901234567890", "-7"]),
        ("timestamp", CqlType::Timestamp, ["1700000000000", "1600000000000"]),
        (
            "timeuuid",
            CqlType::Timeuuid,
            ["50554d6e-29bb-11e5-b345-feff819cdc9f", "50554d6f-29bb-11e5-b345-feff819cdc9f"],
        ),
    ]
}

/// Types whose values are quoted in CQL: name, type, and two values as text.
fn quoted_values() -> [(&'static str, CqlType, [&'static str; 2]); 2] {
    [
        ("text", CqlType::Text, ["thirty-four bytes of text, or so ..", "thirty-four bytes of text, or so !!"]),
        ("inet", CqlType::Inet, ["192.168.0.1", "2001:db8::1"]),
    ]
}

/// A type's name, the type, and two serialised values.
type Pair = (&'static str, CqlType, [Vec<u8>; 2]);

fn element(bytes: &[u8], out: &mut Vec<u8>) {
    model::value::push_element(out, Some(bytes));
}

/// A serialised collection of `count` elements or entries, each of which `put` appends.
fn collection(count: i32, put: impl Fn(i32, &mut Vec<u8>)) -> Vec<u8> {
    let mut out = count.to_be_bytes().to_vec();
    (0..count).for_each(|number| put(number, &mut out));
    out
}

fn pairs() -> Vec<Pair> {
    let bare = values().into_iter().map(|(name, cql_type, texts)| {
        let bytes = texts.map(|text| text::from_bare(&cql_type, text).expect("a value"));
        (name, cql_type, bytes)
    });
    let quoted = quoted_values().into_iter().map(|(name, cql_type, texts)| {
        let bytes = texts.map(|text| text::from_quoted(&cql_type, text).expect("a value"));
        (name, cql_type, bytes)
    });
    let list = |last: i32| collection(10, |number, out| element(&(number * last).to_be_bytes(), out));
    let map = |last: i32| {
        collection(10, |number, out| {
            element(format!("key {number}").as_bytes(), out);
            element(&(number * last).to_be_bytes(), out);
        })
    };
    let list_type = CqlType::List { element: CqlType::Int.into(), frozen: true };
    let collections = [
        ("list of 10 int", list_type, [list(1), list(2)]),
        ("map of 10 text to int", of_two(CqlType::Int), [map(1), map(2)]),
    ];
    bare.chain(quoted).chain(collections).collect()
}

fn of_values(criterion: &mut Criterion) {
    let pairs = pairs();
    let mut group = criterion.benchmark_group("values/validate");
    for (name, cql_type, [value, _]) in &pairs {
        group.bench_function(*name, |bencher| bencher.iter(|| validate(cql_type, black_box(value)).expect("valid")));
    }
    group.finish();
    let mut group = criterion.benchmark_group("values/compare");
    for (name, cql_type, [a, b]) in &pairs {
        group.bench_function(*name, |bencher| bencher.iter(|| compare(cql_type, black_box(a), b)));
    }
    group.finish();
    let mut group = criterion.benchmark_group("values/comparable form");
    let mut out = Vec::new();
    for (name, cql_type, [value, _]) in &pairs {
        group.bench_function(*name, |bencher| {
            bencher.iter(|| {
                out.clear();
                comparable::encode(cql_type, black_box(value), false, &mut out);
            });
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("values/to text");
    for (name, cql_type, [value, _]) in &pairs {
        group.bench_function(*name, |bencher| bencher.iter(|| text::to_literal(cql_type, black_box(value))));
    }
    group.finish();
    let mut group = criterion.benchmark_group("values/from text");
    for (name, cql_type, [first, _]) in values() {
        group.bench_function(name, |bencher| bencher.iter(|| text::from_bare(&cql_type, black_box(first))));
    }
    for (name, cql_type, [first, _]) in quoted_values() {
        group.bench_function(name, |bencher| bencher.iter(|| text::from_quoted(&cql_type, black_box(first))));
    }
    group.finish();
}

criterion_group!(benches, of_values);
criterion_main!(benches);
