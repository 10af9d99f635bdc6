//! The cache of prepared statements.

use super::*;
use crate::statements::{STATEMENT_OVERHEAD, hex, result_metadata_id};
use cql::Prepared;
use cql::plan::Plan;
use md5::{Digest, Md5};
use std::sync::Arc;

fn statement(text_len: usize) -> Rc<Statement> {
    let prepared = Prepared {
        plan: Plan::Use("k".into()),
        markers: Vec::new(),
        partition_key_markers: Vec::new(),
        result: None,
        fully_qualified: true,
        warnings: Vec::new(),
        timeout: None,
        masked: None,
    };
    Rc::new(Statement {
        required: Box::default(),
        masked: None,
        fingerprint: 0,
        selection: Arc::from([]),
        all_rows: Arc::from([]),
        row_columns: None,
        result_metadata_id: result_metadata_id(&prepared),
        prepared: Rc::new(prepared),
        keyspace: None,
        text: "x".repeat(text_len).into(),
    })
}

fn id(n: u32) -> [u8; 16] {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&n.to_be_bytes());
    id
}

const EACH: usize = STATEMENT_OVERHEAD + 200;

#[test]
fn the_cache_keeps_its_bytes_and_one_more_evicts_one() {
    let mut cache = StatementCache::new(3 * EACH);
    for n in 0..3 {
        assert!(cache.put(id(n), statement(100)).is_empty());
    }
    assert!(cache.bytes <= cache.bytes_max && !cache.has_room());
    assert_eq!(cache.put(id(3), statement(100)), [id(0)]);
    assert!(cache.get(&id(0)).is_none() && cache.get(&id(3)).is_some());
    // Putting a statement again does not grow the cache.
    assert!(cache.put(id(3), statement(100)).is_empty());
    assert_eq!(cache.bytes, 3 * EACH);
}

#[test]
fn a_flood_of_statements_leaves_the_hot_ones() {
    let mut cache = StatementCache::new(100 * EACH);
    for hot in 0..10 {
        cache.put(id(hot), statement(100));
    }
    for n in 100..5_000 {
        for hot in 0..10 {
            assert!(cache.get(&id(hot)).is_some(), "{hot} is gone at {n}");
        }
        cache.put(id(n), statement(100));
        assert!(cache.bytes <= cache.bytes_max);
    }
    assert_eq!((cache.entries.len(), cache.order.len()), (100, 100));
}

#[test]
fn a_statement_larger_than_the_cache_is_kept_alone() {
    let mut cache = StatementCache::new(EACH);
    cache.put(id(1), statement(100));
    assert_eq!(cache.put(id(2), statement(10_000)), [id(1)]);
    assert!(cache.get(&id(2)).is_some());
    assert_eq!(cache.put(id(3), statement(100)), [id(2)]);
}

#[test]
fn ids_name_their_text() {
    assert_eq!(hex(&id(0x01020aff))[..8], *"01020aff");
    assert_eq!(statement(0).id(), <[u8; 16]>::from(Md5::digest("")));
    assert_eq!(hex(&statement(0).result_metadata_id), "d41d8cd98f00b204e9800998ecf8427e");
}
