//! Nodes with other partitioners than Murmur3: the order of rows, token(), ranges of tokens and pages.

use super::world::{Row, World};
use model::{Partitioner, RingToken};
use runtime::rng::Rng;
use shard::{Config, TableVerb};

/// A node of `shards` cores with a partitioner.
fn node(partitioner: Partitioner, shards: usize) -> World {
    let tweak: fn(&mut Config) = match partitioner {
        Partitioner::Murmur3 => |config| config.partitioner = Partitioner::Murmur3,
        Partitioner::Random => |config| config.partitioner = Partitioner::Random,
        Partitioner::ByteOrdered => |config| config.partitioner = Partitioner::ByteOrdered,
        Partitioner::OrderPreserving => |config| config.partitioner = Partitioner::OrderPreserving,
    };
    let mut world = World::with_config(shards, tweak);
    world.run_query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    world.run_query("CREATE TABLE k.t (p blob, c int, v int, PRIMARY KEY (p, c))");
    world
}

/// Random keys, many of which share the first 64 bits of their tokens, in the order of their tokens.
fn keys(partitioner: Partitioner, rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = (0..60)
        .map(|_| {
            let head: &[u8] = if rng.chance(0.6) { b"customer-" } else { b"" };
            let tail = (0..1 + rng.below(4)).map(|_| [0, b'0', b'7', b'a', b'z', 0x80, 0xff][rng.below(7) as usize]);
            head.iter().copied().chain(tail).collect()
        })
        .collect();
    keys.sort_by_cached_key(|key| (partitioner.ring_token(key), key.clone()));
    keys.dedup();
    keys
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// A token as CQL writes it.
fn literal(token: &RingToken) -> String {
    match token {
        RingToken::Murmur3(_) | RingToken::Random(_) => token.to_string(),
        RingToken::ByteOrdered(_) => format!("0x{token}"),
        RingToken::OrderPreserving(text) => format!("'{}'", text.replace('\'', "''")),
    }
}

fn first(rows: &[Row]) -> Vec<Vec<u8>> {
    rows.iter().map(|row| row[0].clone().expect("a key")).collect()
}

/// Checks all that a table of `keys` answers by its order: each key has two rows.
fn check(world: &mut World, partitioner: Partitioner, keys: &[Vec<u8>], rng: &mut Rng) {
    let twice: Vec<Vec<u8>> = keys.iter().flat_map(|key| [key.clone(), key.clone()]).collect();
    for page_size in [1, 7, 1000] {
        let pages = world.pages("SELECT p, token(p) FROM k.t", page_size);
        let rows: Vec<Row> = pages.into_iter().flatten().collect();
        assert_eq!(first(&rows), twice, "{partitioner:?} {page_size}");
        for row in &rows {
            let key = row[0].as_deref().expect("a key");
            assert_eq!(row[1], Some(partitioner.ring_token(key).to_value()), "{partitioner:?} {key:02x?}");
        }
    }
    for key in keys.iter().step_by(7) {
        let rows = world.rows_on(0, &format!("SELECT p FROM k.t WHERE p = {}", hex(key)));
        assert_eq!(first(&rows), [key.clone(), key.clone()], "{partitioner:?} {key:02x?}");
    }
    for _ in 0..20 {
        let bound = |rng: &mut Rng| {
            let mut key = keys[rng.below(keys.len() as u64) as usize].clone();
            if rng.chance(0.3) {
                key.push(b'5');
            }
            partitioner.ring_token(&key)
        };
        let (low, high) = (bound(rng), bound(rng));
        let (from, until) = ([">", ">="][rng.below(2) as usize], ["<", "<="][rng.below(2) as usize]);
        let wanted = |key: &Vec<u8>| {
            let token = partitioner.ring_token(key);
            (token > low || from == ">=" && token == low) && (token < high || until == "<=" && token == high)
        };
        let query = format!(
            "SELECT p FROM k.t WHERE token(p) {from} {} AND token(p) {until} {}",
            literal(&low),
            literal(&high)
        );
        let expected: Vec<Vec<u8>> = twice.iter().filter(|key| wanted(key)).cloned().collect();
        let rows: Vec<Row> = world.pages(&query, 5).into_iter().flatten().collect();
        assert_eq!(first(&rows), expected, "{partitioner:?} {query}");
        let count = world.ints(&query.replace("SELECT p", "SELECT count(*)"))[0][0];
        assert_eq!(count, expected.len() as i64, "{partitioner:?} {query}");
    }
}

#[test]
fn rows_come_in_the_order_of_tokens_from_memory_and_from_files() {
    for (seed, partitioner) in (0..).zip(Partitioner::ALL) {
        for shards in [1, 3] {
            let mut rng = Rng::new(seed);
            let mut world = node(partitioner, shards);
            let keys = keys(partitioner, &mut rng);
            for (at, key) in keys.iter().enumerate() {
                for c in 0..2 {
                    world.run_query(&format!("INSERT INTO k.t (p, c, v) VALUES ({}, {c}, {at})", hex(key)));
                }
            }
            check(&mut world, partitioner, &keys, &mut rng);
            world.on(0, |shard, _| async move {
                shard.on_every_shard(TableVerb::FlushAll).await.expect("flushes");
            });
            check(&mut world, partitioner, &keys, &mut rng);
            // Half of the rows in memory again, and another number of cores.
            for key in keys.iter().step_by(2) {
                world.run_query(&format!("INSERT INTO k.t (p, c, v) VALUES ({}, 0, 7)", hex(key)));
            }
            check(&mut world, partitioner, &keys, &mut rng);
            world.crash();
            world.run(4 - shards);
            check(&mut world, partitioner, &keys, &mut rng);
        }
    }
}

#[test]
fn an_index_is_read_within_a_range_of_tokens() {
    for (seed, partitioner) in (0..).zip(Partitioner::ALL) {
        let mut rng = Rng::new(seed);
        let mut world = node(partitioner, 2);
        world.run_query("CREATE INDEX ON k.t (v)");
        let keys = keys(partitioner, &mut rng);
        for key in &keys {
            world.run_query(&format!("INSERT INTO k.t (p, c, v) VALUES ({}, 0, 1)", hex(key)));
        }
        for key in keys.iter().step_by(5) {
            let low = partitioner.ring_token(key);
            let query = format!("SELECT p FROM k.t WHERE v = 1 AND token(p) > {} ALLOW FILTERING", literal(&low));
            let mut found = first(&world.pages(&query, 4).into_iter().flatten().collect::<Vec<Row>>());
            found.sort();
            let mut expected: Vec<Vec<u8>> =
                keys.iter().filter(|key| partitioner.ring_token(key) > low).cloned().collect();
            expected.sort();
            assert_eq!(found, expected, "{partitioner:?} {query}");
        }
    }
}

#[test]
fn the_node_names_its_partitioner() {
    for partitioner in Partitioner::ALL {
        let mut world = node(partitioner, 1);
        let rows = world.rows_on(0, "SELECT partitioner, tokens FROM system.local");
        assert_eq!(rows[0][0].as_deref(), Some(partitioner.class_name().as_bytes()));
        let rows = world.rows_on(0, "DESCRIBE CLUSTER");
        assert_eq!(rows[0][1].as_deref(), Some(partitioner.simple_name().as_bytes()));
    }
}

#[test]
fn literals_of_tokens_have_the_type_of_the_partitioner() {
    // As Cassandra 5.0.9 answers.
    let text = "Invalid INTEGER constant (5) for \"partition key token\" of type";
    for (partitioner, refused, expected) in [
        (Partitioner::ByteOrdered, "5", format!("{text} blob")),
        (Partitioner::OrderPreserving, "5", format!("{text} text")),
        (
            Partitioner::OrderPreserving,
            "0x61",
            "Invalid HEX constant (0x61) for \"partition key token\" of type text".to_owned(),
        ),
        (
            Partitioner::Random,
            "varint_as_blob(1)",
            "Type error: cannot assign result of function system.varint_as_blob (type blob) to partition key token \
             (type varint)"
                .to_owned(),
        ),
        (Partitioner::Random, "null", "Invalid null token value".to_owned()),
    ] {
        let mut world = node(partitioner, 1);
        let query = format!("SELECT p FROM k.t WHERE token(p) > {refused}");
        assert_eq!(world.refusal(&query, Default::default()), expected, "{partitioner:?}");
    }
}
