//! Measures the two steps of PREPARE, parsing a text and resolving it against a schema, for ten typical statements.

use cql::define::{DefinitionContext, apply};
use cql::plan::Plan;
use criterion::{Criterion, criterion_group, criterion_main};
use model::{Schema, TableId};
use std::hint::black_box;
use std::sync::Arc;

const SCHEMA: &[&str] = &[
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TYPE k.address (street text, city text, zip int)",
    "CREATE TABLE k.users (id uuid PRIMARY KEY, name text, email text, home frozen<address>, tags set<text>, \
     scores map<text, int>, seen list<timestamp>, visits int)",
    "CREATE TABLE k.events (sensor text, day date, at timestamp, value double, note text static, \
     PRIMARY KEY ((sensor, day), at)) WITH CLUSTERING ORDER BY (at DESC)",
    "CREATE TABLE k.counts (id text PRIMARY KEY, hits counter)",
];

/// The statements: name and text.
const STATEMENTS: [(&str, &str); 10] = [
    ("select by key", "SELECT id, name, email FROM k.users WHERE id = ?"),
    ("select everything", "SELECT * FROM k.users WHERE id = ?"),
    ("select a slice", "SELECT at, value FROM k.events WHERE sensor = ? AND day = ? AND at >= ? AND at < ? LIMIT 100"),
    ("select an aggregate", "SELECT sensor, day, count(*), max(value), avg(value) FROM k.events GROUP BY sensor, day"),
    ("insert", "INSERT INTO k.users (id, name, email, home, visits) VALUES (?, ?, ?, ?, ?) USING TTL 86400"),
    (
        "insert literals",
        "INSERT INTO k.users (id, name, tags, scores, home) VALUES (123e4567-e89b-12d3-a456-426655440000, 'Ann', \
         {'a', 'b'}, {'x': 1, 'y': 2}, {street: 'S', city: 'C', zip: 12345})",
    ),
    ("update collections", "UPDATE k.users SET tags = tags + ?, scores[?] = ?, seen = ? + seen WHERE id = ?"),
    ("conditional update", "UPDATE k.users SET email = ? WHERE id = ? IF email = ? AND visits > 3"),
    ("count", "UPDATE k.counts SET hits = hits + 1 WHERE id = ?"),
    (
        "batch",
        "BEGIN BATCH INSERT INTO k.events (sensor, day, at, value) VALUES (?, ?, ?, ?); UPDATE k.events SET note = ? \
         WHERE sensor = ? AND day = ?; DELETE FROM k.events WHERE sensor = ? AND day = ? AND at < ?; APPLY BATCH",
    ),
];

/// The schema that the statements of [`SCHEMA`] create.
fn schema() -> Schema {
    let mut schema = Schema::empty(model::Partitioner::Murmur3);
    let memtables = model::MemtableConfigurations::default();
    for (number, text) in SCHEMA.iter().enumerate() {
        let statement = cql::parse(text).expect("a statement");
        let prepared = cql::prepare(&statement, None, &schema).expect("a definition");
        let Plan::Define(define) = &prepared.plan else { panic!("{text} defines nothing") };
        let new_id = TableId([number as u8; 16]);
        let site = DefinitionContext {
            data_center: "datacenter1",
            nodes: &std::collections::BTreeMap::from([("datacenter1".to_owned(), 1)]),
            now_micros: 1,
            new_id,
            memtables: &memtables,
            default_compaction: None,
            drop_compact_storage: false,
            masking: cql::define::Masking::SwitchedOff,
            has_repair_proofs: true,
            has_tablets: true,
            has_write_sharding: true,
            has_sub_partition_growth: true,
            has_key_growth: true,
            grown_keys: &Default::default(),
            has_quotas: true,
            has_stored_quotas: true,
            guardrails: None,
        };
        let change = apply(define, &schema, &site).expect("it applies").change.expect("a change");
        let after = change.after.expect("a keyspace");
        schema.keyspaces.insert(change.keyspace, Arc::new(after));
    }
    schema
}

fn statements(criterion: &mut Criterion) {
    let schema = schema();
    let mut group = criterion.benchmark_group("parse");
    for (name, text) in STATEMENTS {
        group.bench_function(name, |bencher| bencher.iter(|| cql::parse(black_box(text)).expect("parsed")));
    }
    group.finish();
    let mut group = criterion.benchmark_group("resolve");
    for (name, text) in STATEMENTS {
        let statement = cql::parse(text).expect("parsed");
        let resolve = || cql::prepare(black_box(&statement), None, &schema).expect("resolved");
        group.bench_function(name, |bencher| bencher.iter(resolve));
    }
    group.finish();
}

criterion_group!(benches, statements);
criterion_main!(benches);
