//! The nouns of the database: types, values, keys, tokens, schema, rows, mutations, read commands and failures. Every
//! crate above speaks them.
//!
//! Glossary:
//! * *token*: a partition key's position on the ring ([`token`]), which the node's [`Partitioner`] gives it.
//! * *shard*: the core that owns a token ([`ShardMap`]). A *counter shard* is something else: one node's part of a
//!   counter ([`counter`]).
//! * *row blob*: the one encoding of a row's data ([`row`]), used in mutations, memtables, fragments and row blocks.
//! * *comparable form*: bytes of a clustering that compare (memcmp) in the table's clustering order ([`comparable`]).
//! * *column id*: a column's number within its table, given for good; row blobs name columns by it ([`ColumnId`]).
//! * *cursor*: rows of one or many partitions in order, without I/O ([`fragment::Cursor`]).
//! * *liveness*: the record that a row exists even if all of its columns are null ([`row::Liveness`]).
//!
//! Invariants: no I/O, no clock, no randomness, no hash seeds of the process; bytes from outside give typed errors and
//! never panic.

pub mod access;
#[doc(hidden)]
pub mod arbitrary;
pub mod byte_size;
pub mod capacity;
pub mod clustering;
pub mod codec;
pub mod compaction;
pub mod comparable;
pub mod counter;
mod decimal;
pub mod digest;
pub mod failure;
pub mod fragment;
pub mod fragment_block;
pub mod id_map;
pub mod identifier;
pub mod index;
pub mod json;
pub mod key;
pub mod mask;
pub mod memtable;
pub mod merge;
pub mod murmur3;
pub mod mutation;
pub mod partitioner;
pub mod query;
pub mod quota;
pub mod relocation;
pub mod request;
pub mod row;
pub mod schema;
pub mod shape;
pub mod stored_key;
pub mod tablets;
pub mod text;
pub mod token;
pub mod tombstone_gc;
pub mod types;
pub mod value;
pub mod write_sharding;

pub use failure::{Consistency, ErrorCode, Failure};
pub use id_map::IdMap;
pub use index::{Index, IndexedPart};
pub use key::{DecoratedKey, Home, ShardMap};
pub use mask::ColumnMask;
pub use memtable::{MemtableConfigurations, MemtableKind};
pub use mutation::{Mutation, MutationBuilder};
pub use partitioner::Partitioner;
pub use request::{BatchEntry, BatchKind, BatchStatement, ColumnSpec, QueryParameters};
pub use schema::{Column, ColumnId, ColumnKind, Keyspace, Schema, Table, TableId};
pub use token::{RingToken, Token, TokenRange};
pub use types::{CqlType, UserType};
pub use write_sharding::{KeyGrowth, Places, ShardedBy, WriteSharding};

use std::hash::BuildHasherDefault;
use xxhash_rust::xxh3::Xxh3Default;

/// `std::collections::HashMap` with a fixed seed.
pub type HashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Xxh3Default>>;
/// `std::collections::HashSet` with a fixed seed.
pub type HashSet<K> = std::collections::HashSet<K, BuildHasherDefault<Xxh3Default>>;
