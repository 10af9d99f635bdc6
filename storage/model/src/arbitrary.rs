//! Random types, values, schemas, rows and mutations for the tests of every crate.
//!
//! Randomness is an argument: `below(n)` gives a number in `0..n` (`n` is at least 1). Values come from small domains
//! with many edge cases, so that keys, timestamps and elements collide. Everything generated is valid: values validate,
//! blobs parse, mutations decode.

use crate::clustering::{Clustering, ClusteringBound, push_clustering};
use crate::key::push_composite;
use crate::mutation::{Mutation, MutationBuilder};
use crate::partitioner::Partitioner;
use crate::quota::{BYTES_STORED_MAX, QUOTA_UNITS_MAX, Quota, REQUESTS_AT_ONCE_MAX};
use crate::row::{Cell, CellContent, Deletion, Liveness, RowBuilder};
use crate::schema::{
    Column, ColumnId, ColumnKind, Keyspace, KeyspaceTablets, Replication, Schema, Table, TableId, TableOptions,
};
use crate::tablets::TABLETS_MAX;
use crate::types::{Component, CqlType, UserType};
use crate::value::{self, Duration, push_element, push_vector_element};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// Deepest nesting that [`cql_type`] generates: a collection of collections of scalars.
const DEPTH_MAX: u32 = 2;
/// Timestamps are in `1..=TIMESTAMP_MAX`, and so are local times in seconds.
const TIMESTAMP_MAX: u64 = 8;

/// The types that are neither collections, tuples nor counters.
pub const SCALARS: [CqlType; 20] = [
    CqlType::Ascii,
    CqlType::Bigint,
    CqlType::Blob,
    CqlType::Boolean,
    CqlType::Date,
    CqlType::Decimal,
    CqlType::Double,
    CqlType::Duration,
    CqlType::Float,
    CqlType::Inet,
    CqlType::Int,
    CqlType::LexicalUuid,
    CqlType::Smallint,
    CqlType::Text,
    CqlType::Time,
    CqlType::Timestamp,
    CqlType::Timeuuid,
    CqlType::Tinyint,
    CqlType::Uuid,
    CqlType::Varint,
];

/// A `below` function with a seed (splitmix64).
pub fn generator(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |end| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(end)) >> 64) as u64
    }
}

/// One of the items. Panics if there are none.
pub fn pick<'a, T>(items: &'a [T], below: &mut impl FnMut(u64) -> u64) -> &'a T {
    &items[below(items.len() as u64) as usize]
}

/// A scalar type.
pub fn scalar_type(below: &mut impl FnMut(u64) -> u64) -> CqlType {
    pick(&SCALARS, below).clone()
}

/// A type that a primary key column may have: frozen and without durations.
pub fn key_type(below: &mut impl FnMut(u64) -> u64) -> CqlType {
    loop {
        let found = frozen_type(0, below);
        if !holds_duration(&found) {
            return found;
        }
    }
}

fn holds_duration(cql_type: &CqlType) -> bool {
    *cql_type == CqlType::Duration || cql_type.parts().into_iter().any(holds_duration)
}

/// Any type: scalar in half of the cases, sometimes multi-cell.
pub fn cql_type(below: &mut impl FnMut(u64) -> u64) -> CqlType {
    let mut found = frozen_type(0, below);
    match &mut found {
        CqlType::List { frozen, .. }
        | CqlType::Set { frozen, .. }
        | CqlType::Map { frozen, .. }
        | CqlType::User { frozen, .. } => {
            *frozen = below(2) == 0;
        }
        _ => {}
    }
    found
}

fn frozen_type(depth: u32, below: &mut impl FnMut(u64) -> u64) -> CqlType {
    let nested = if depth < DEPTH_MAX { 12 } else { 1 };
    let inner = |below: &mut _| Box::new(frozen_type(depth + 1, below));
    match below(nested) {
        4 => CqlType::List { element: inner(below), frozen: true },
        5 => CqlType::Set { element: inner(below), frozen: true },
        6 => CqlType::Map { key: inner(below), value: inner(below), frozen: true },
        7 => CqlType::Tuple((0..1 + below(3)).map(|_| *inner(below)).collect()),
        8 => CqlType::Vector { element: inner(below), dimension: 1 + below(3) as u32 },
        9 => {
            let names = ["a", "b_2", "Two words", "select", "quo\"te"];
            let first = below(3) as usize;
            let names = names[first..].iter().take(1 + below(3) as usize);
            let fields = names.map(|name| (name.to_string(), *inner(below))).collect();
            // The random number keeps a type from containing two definitions with one name.
            let name = format!("{}{}", pick(&["u", "U ", "u\""], below), below(1 << 40));
            CqlType::User { definition: UserType { keyspace: "k".into(), name, fields }.into(), frozen: true }
        }
        10 => CqlType::Composite((0..1 + below(3)).map(|_| component(depth, below)).collect()),
        11 => {
            let aliases = (0..1 + below(3)).map(|_| (*pick(b"aqAQ7", below), component(depth, below)));
            CqlType::dynamic_composite(aliases.collect())
        }
        _ => scalar_type(below),
    }
}

fn component(depth: u32, below: &mut impl FnMut(u64) -> u64) -> Component {
    Component { reversed: below(3) == 0, cql_type: frozen_type(depth + 1, below) }
}

/// A valid value, sometimes empty where that is allowed.
pub fn value(cql_type: &CqlType, below: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    use CqlType::*;
    if cql_type.allows_empty() && below(16) == 0 {
        return Vec::new();
    }
    match cql_type {
        Ascii => (0..below(5)).map(|_| *pick(b"\0\0\x01ab'~\x7f", below)).collect(),
        Text => (0..below(5))
            .map(|_| *pick(&['\0', '\0', 'a', 'b', '\'', '\u{7f}', 'é', '€', '😀'], below))
            .collect::<String>()
            .into(),
        Blob => (0..below(6)).map(|_| *pick(&[0, 0, 1, 0x7f, 0x80, 0xfe, 0xff], below)).collect(),
        Boolean => vec![below(2) as u8],
        Tinyint => integer(below).to_be_bytes()[7..].into(),
        Smallint => integer(below).to_be_bytes()[6..].into(),
        Int | Date => integer(below).to_be_bytes()[4..].into(),
        Bigint | Counter | Timestamp => integer(below).to_be_bytes().into(),
        Time => (integer(below).rem_euclid(86_400_000_000_000)).to_be_bytes().into(),
        Double => match below(2) {
            0 => pick(
                &[0.0, -0.0, 1.5, -1.5, f64::MIN_POSITIVE, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN],
                below,
            )
            .to_be_bytes()
            .into(),
            _ => integer(below).to_be_bytes().into(),
        },
        Float => match below(2) {
            0 => pick(
                &[0.0, -0.0, 1.5, -1.5, f32::MIN_POSITIVE, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, f32::NAN],
                below,
            )
            .to_be_bytes()
            .into(),
            _ => integer(below).to_be_bytes()[4..].into(),
        },
        Varint => varint(below),
        Decimal => {
            let scales = [0, 0, 1, 2, -1, -2, 30, -30, i32::MAX, i32::MIN];
            [&pick(&scales, below).to_be_bytes()[..], &varint(below)].concat()
        }
        Duration => duration(below),
        Empty => Vec::new(),
        Inet => (0..*pick(&[4, 16], below)).map(|_| *pick(&[0, 1, 127, 255], below)).collect(),
        LexicalUuid | Uuid => uuid(*pick(&[1, 1, 4, 7], below), below).into(),
        Timeuuid => uuid(1, below).into(),
        List { element, .. } => collection((0..below(4)).map(|_| vec![value(element, below)]).collect()),
        Set { element, .. } => collection(elements(element, below).into_iter().map(|element| vec![element]).collect()),
        Map { key, value: values, .. } => {
            collection(elements(key, below).into_iter().map(|key| vec![key, value(values, below)]).collect())
        }
        Tuple(types) => tuple(types.iter(), below),
        User { definition, .. } => tuple(definition.field_types(), below),
        Vector { element, dimension } => {
            let mut out = Vec::new();
            for _ in 0..*dimension {
                push_vector_element(&mut out, element, &filled_value(element, below));
            }
            out
        }
        Composite(components) => {
            let marker: &[u8] = if below(8) == 0 { &[0xff, 0xff] } else { &[] };
            let parts = components.iter().map(|component| (Vec::new(), component));
            composite(marker, parts.collect(), below)
        }
        DynamicComposite(aliases) => {
            let mut parts = Vec::new();
            for _ in 0..below(4) {
                let (alias, component) = pick(aliases, below);
                parts.push((vec![0x80, *alias], component));
            }
            composite(&[], parts, below)
        }
    }
}

/// A composite value: a comparator and a component for each of `parts`, of which the last may be missing.
fn composite(marker: &[u8], parts: Vec<(Vec<u8>, &Component)>, below: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    let mut out = marker.to_vec();
    let len = if below(4) == 0 { below(parts.len() as u64 + 1) as usize } else { parts.len() };
    for (comparator, component) in &parts[..len] {
        let value = value(&component.cql_type, below);
        out.extend_from_slice(comparator);
        push_composite(std::iter::once(value.as_slice()), &mut out);
    }
    if let Some(end) = out.last_mut().filter(|_| len > 0) {
        *end = *pick(&[0, 0, 0, 1, 0xff], below);
    }
    out
}

fn tuple<'t>(types: impl ExactSizeIterator<Item = &'t CqlType>, below: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    let mut out = Vec::new();
    // Trailing elements may be missing.
    let len = if below(4) == 0 { 1 + below(types.len() as u64) as usize } else { types.len() };
    for cql_type in types.take(len) {
        let element = (below(4) > 0).then(|| value(cql_type, below));
        push_element(&mut out, element.as_deref());
    }
    out
}

/// A value that is not empty if its type has a fixed length.
fn filled_value(cql_type: &CqlType, below: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    loop {
        let found = value(cql_type, below);
        if cql_type.fixed_len().is_none_or(|len| len == found.len()) {
            return found;
        }
    }
}

/// Up to three different values in their order.
fn elements(cql_type: &CqlType, below: &mut impl FnMut(u64) -> u64) -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = (0..below(4)).map(|_| value(cql_type, below)).collect();
    found.sort_by(|a, b| value::compare(cql_type, a, b));
    found.dedup_by(|a, b| value::compare(cql_type, a, b).is_eq());
    found
}

fn collection(entries: Vec<Vec<Vec<u8>>>) -> Vec<u8> {
    let mut out = (entries.len() as i32).to_be_bytes().to_vec();
    entries.iter().flatten().for_each(|element| push_element(&mut out, Some(element)));
    out
}

/// An integer of any magnitude, often an edge case.
fn integer(below: &mut impl FnMut(u64) -> u64) -> i64 {
    let number = match below(3) {
        0 => *pick(&[0, 1, -1, 63, 64, 127, 128, 255, 256, i64::MAX, i64::MIN], below),
        1 => below(5) as i64,
        _ => (below(u64::MAX) >> below(64)) as i64,
    };
    if below(3) == 0 { number.wrapping_neg() } else { number }
}

fn varint(below: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    let number = integer(below);
    let low = (0..*pick(&[0, 0, 0, 1, 9, 200], below)).map(|_| below(256) as u8);
    let high = number.to_be_bytes();
    let sign = if number < 0 { 0xff } else { 0 };
    let start = high.iter().position(|&byte| byte != sign).unwrap_or(8);
    // One more byte keeps the sign; sometimes it is redundant.
    [sign].into_iter().chain(high[start..].iter().copied()).chain(low).collect()
}

fn duration(below: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    let sign = if below(2) == 0 { 1 } else { -1 };
    let mut part = || *pick(&[0, 0, 1, 64, i32::MAX], below) * sign;
    let mut out = Vec::new();
    Duration { months: part(), days: part(), nanoseconds: i64::from(part()) * 1_000_000_007 }.push(&mut out);
    out
}

fn uuid(version: u8, below: &mut impl FnMut(u64) -> u64) -> [u8; 16] {
    let mut bytes = [0; 16].map(|_: u8| *pick(&[0, 1, 0x7f, 0x80, 0xff], below));
    bytes[6] = (version << 4) | (bytes[6] & 0x0f);
    bytes
}

/// A table with up to three partition key columns, up to three clustering columns and up to five others.
pub fn table(keyspace: &str, name: &str, below: &mut impl FnMut(u64) -> u64) -> Table {
    let (partition_key_len, clustering_len) = (1 + below(3), below(4));
    let mut columns = Vec::new();
    let mut column = |name: String, kind, position: u64, cql_type, descending| {
        let id = ColumnId(columns.len() as u16);
        columns.push(Column { id, name, kind, position: position as u16, cql_type, descending });
    };
    for i in 0..partition_key_len {
        column(format!("p{i}"), ColumnKind::PartitionKey, i, key_type(below), false);
    }
    for i in 0..clustering_len {
        column(format!("c{i}"), ColumnKind::Clustering, i, key_type(below), below(3) == 0);
    }
    for i in 0..below(6) {
        column(format!("r{i}"), ColumnKind::Regular, 0, cql_type(below), false);
    }
    Table {
        id: TableId(uuid(4, below)),
        keyspace: keyspace.into(),
        name: name.into(),
        columns,
        partition_key_len: partition_key_len as usize,
        clustering_len: clustering_len as usize,
        static_len: 0,
        layout: crate::schema::Layout::Plain,
        dropped: Vec::new(),
        indexes: Vec::new(),
        masks: Default::default(),
        options: TableOptions::default(),
    }
}

/// A schema of one to three keyspaces with up to three tables each.
pub fn schema(below: &mut impl FnMut(u64) -> u64) -> Schema {
    let mut schema = Schema { version: Uuid::from_bytes(uuid(4, below)), ..Schema::empty(Partitioner::Murmur3) };
    for k in 0..1 + below(3) {
        let name = format!("k{k}");
        let tables: BTreeMap<_, _> = (0..below(4))
            .map(|t| table(&name, &format!("t{t}"), below))
            .map(|table| (table.name.clone(), Arc::new(table)))
            .collect();
        let initial = below(1 + u64::from(TABLETS_MAX)) as u32;
        let tablets = (below(3) == 0).then(|| KeyspaceTablets { initial, is_managed: below(2) == 0 });
        let units_per_second = (below(4) == 0).then(|| 1 + below(u64::from(QUOTA_UNITS_MAX)) as u32);
        let requests_at_once = (below(4) == 0).then(|| 1 + below(u64::from(REQUESTS_AT_ONCE_MAX)) as u32);
        let bytes_stored = (below(4) == 0).then(|| 1 + below(BYTES_STORED_MAX));
        let quota = Quota { units_per_second, requests_at_once, bytes_stored };
        let (class, places) = match tablets {
            Some(_) => ("NetworkTopologyStrategy", "datacenter1"),
            None => ("SimpleStrategy", "replication_factor"),
        };
        let options = BTreeMap::from([(places.to_string(), (1 + below(3)).to_string())]);
        let replication = Replication { class: format!("org.apache.cassandra.locator.{class}"), options };
        schema.put_keyspace(Arc::new(Keyspace {
            name,
            replication,
            durable_writes: below(4) > 0,
            tablets,
            quota,
            tables,
            types: Default::default(),
        }));
    }
    schema
}

/// A serialised partition key, never empty.
pub fn key(table: &Table, below: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    loop {
        let parts: Vec<_> = table.partition_key().iter().map(|column| value(&column.cql_type, below)).collect();
        match &parts[..] {
            [single] if single.is_empty() => {}
            [single] => return single.clone(),
            _ => {
                let mut out = Vec::new();
                push_composite(parts.iter().map(Vec::as_slice), &mut out);
                return out;
            }
        }
    }
}

/// The first `len` values of a clustering, in the form of [`Clustering`].
pub fn clustering(table: &Table, len: usize, below: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    let mut out = Vec::new();
    for column in &table.clustering()[..len] {
        push_clustering(&mut out, &value(&column.cql_type, below));
    }
    out
}

fn timestamp(below: &mut impl FnMut(u64) -> u64) -> i64 {
    1 + below(TIMESTAMP_MAX) as i64
}

/// A deletion, never [`Deletion::LIVE`].
pub fn deletion(below: &mut impl FnMut(u64) -> u64) -> Deletion {
    Deletion { timestamp: timestamp(below), local_deletion_time: timestamp(below) }
}

fn content<'a>(value: &'a [u8], below: &mut impl FnMut(u64) -> u64) -> CellContent<'a> {
    match below(4) {
        0 => CellContent::Deleted { local_deletion_time: timestamp(below) },
        1 => CellContent::Expiring { value, ttl: 1 + below(3) as i32, local_deletion_time: timestamp(below) },
        _ => CellContent::Live(value),
    }
}

/// Appends a row blob of a table, which may be empty.
pub fn row(table: &Table, below: &mut impl FnMut(u64) -> u64, out: &mut Vec<u8>) {
    let liveness = (below(2) == 0).then(|| Liveness {
        timestamp: timestamp(below),
        expiry: (below(2) == 0).then(|| (1 + below(3) as i32, timestamp(below))),
    });
    let own = if below(4) == 0 { deletion(below) } else { Deletion::LIVE };
    let mut builder = RowBuilder::new(out, liveness, own);
    for column in table.regular() {
        if !column.cql_type.is_multicell() {
            if below(2) == 0 {
                let value = value(&column.cql_type, below);
                let (content, timestamp) = (content(&value, below), timestamp(below));
                builder.cell(&Cell { column: column.id, timestamp, content, path: None });
            }
            continue;
        }
        if below(4) == 0 {
            let content = CellContent::ColumnDeletion { local_deletion_time: timestamp(below) };
            builder.cell(&Cell { column: column.id, timestamp: timestamp(below), content, path: None });
        }
        for (path, value) in paths(&column.cql_type, below) {
            let (content, timestamp) = (content(&value, below), timestamp(below));
            builder.cell(&Cell { column: column.id, timestamp, content, path: Some(&path) });
        }
    }
}

/// Elements of a multi-cell collection or fields of a user type: path and value, in the order of the paths.
fn paths(cql_type: &CqlType, below: &mut impl FnMut(u64) -> u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    (0..below(4))
        .map(|_| match cql_type {
            // Few paths, so that versions of a row share some.
            CqlType::List { element, .. } => {
                let mut path = [0; 16];
                (path[3], path[6]) = (below(3) as u8, 0x10);
                (path.to_vec(), value(element, below))
            }
            CqlType::Set { element, .. } => (value(element, below), Vec::new()),
            CqlType::Map { key, value: values, .. } => (value(key, below), value(values, below)),
            CqlType::User { definition, .. } => {
                let field = below(definition.fields.len() as u64) as usize;
                ((field as u16).to_be_bytes().to_vec(), value(&definition.fields[field].1, below))
            }
            scalar => (Vec::new(), value(scalar, below)),
        })
        .collect()
}

/// A mutation of one partition in one to three of the tables, at least one of which must be given; the key is one of
/// the first table's.
pub fn mutation(tables: &[&Table], below: &mut impl FnMut(u64) -> u64) -> Mutation {
    let mut builder = MutationBuilder::new(Partitioner::Murmur3, &key(tables[0], below));
    for _ in 0..1 + below(3) {
        let table = *pick(tables, below);
        builder.table(table.id);
        if below(4) == 0 {
            builder.delete_partition(deletion(below));
        }
        for _ in 0..below(4) {
            if below(4) == 0 {
                let mut bound = || {
                    let len = below(1 + table.clustering_len as u64) as usize;
                    (clustering(table, len, below), below(2) == 0)
                };
                let (start, end) = (bound(), bound());
                builder.delete_range(
                    ClusteringBound { prefix: Clustering(&start.0), inclusive: start.1 },
                    ClusteringBound { prefix: Clustering(&end.0), inclusive: end.1 },
                    deletion(below),
                );
            } else {
                let clustering = clustering(table, table.clustering_len, below);
                builder.row(Clustering(&clustering), |out| row(table, below, out));
            }
        }
    }
    builder.finish()
}
