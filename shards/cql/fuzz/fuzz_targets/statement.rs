//! Parses and prepares any text as a statement, against the schema of the corpora. It must not panic.
//!
//! `cargo +nightly fuzz run statement` in this folder's parent.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

#[allow(dead_code, reason = "the corpus uses more of it")]
#[path = "../../tests/fixture/mod.rs"]
mod fixture;

static SCHEMA: LazyLock<model::Schema> = LazyLock::new(fixture::schema);

fuzz_target!(|text: &str| {
    if let Ok(prepared) = cql::parse(text).and_then(|statement| cql::prepare(&statement, Some("cql_ks"), &SCHEMA)) {
        assert!(!fixture::summary(&prepared).is_empty());
    }
});
