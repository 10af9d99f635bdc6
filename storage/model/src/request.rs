//! The nouns that a client's request and its answer are made of: parameters, batches, descriptions of columns.
//!
//! The wire codecs decode straight into them and the shard executes from them, so that neither has a copy of its own.

use crate::value::BoundValue;
use crate::{Consistency, CqlType};
use std::sync::Arc;

/// Parameters of QUERY, EXECUTE and BATCH.
#[derive(Clone, PartialEq, Debug)]
pub struct QueryParameters<'a> {
    /// Consistency level.
    pub consistency: Consistency,
    /// Bound values in the order sent; empty for a BATCH, whose entries have their own.
    pub values: Vec<BoundValue<'a>>,
    /// A name for each of the values, if they are bound by name (QUERY and EXECUTE).
    pub names: Option<Vec<&'a str>>,
    /// Whether the client knows the result's columns, so that the answer leaves them out.
    pub skip_metadata: bool,
    /// Rows per page, positive; `None` for a result in one page.
    pub page_size: Option<i32>,
    /// The paging state of the previous page's answer.
    pub paging_state: Option<&'a [u8]>,
    /// Serial consistency level, if sent.
    pub serial_consistency: Option<Consistency>,
    /// Default write timestamp, microseconds; never `i64::MIN`.
    pub timestamp: Option<i64>,
    /// Keyspace of unqualified table names (v5, but read in every version).
    pub keyspace: Option<&'a str>,
    /// The time against which expiry is judged and deletions are recorded, seconds since 1970 (v5).
    pub now_in_seconds: Option<i32>,
    /// Whether the client asks what the request costs: its payload names `RequestCharge`.
    pub wants_charge: bool,
}

impl QueryParameters<'_> {
    /// Parameters with a consistency level and nothing else.
    pub fn new(consistency: Consistency) -> Self {
        QueryParameters {
            consistency,
            values: Vec::new(),
            names: None,
            skip_metadata: false,
            page_size: None,
            paging_state: None,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_in_seconds: None,
            wants_charge: false,
        }
    }
}

/// What a batch promises, and its number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum BatchKind {
    /// Atomic across partitions.
    Logged = 0,
    /// Atomic within each partition only.
    Unlogged = 1,
    /// Made of counter updates only.
    Counter = 2,
}

/// One statement of a BATCH message.
#[derive(Clone, PartialEq, Debug)]
pub struct BatchEntry<'a> {
    /// The statement to run.
    pub statement: BatchStatement<'a>,
    /// Its bound values, by position.
    pub values: Vec<BoundValue<'a>>,
}

/// A batch entry's statement, as text or as a prepared statement's id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the protocol's words")]
pub enum BatchStatement<'a> {
    Text(&'a str),
    Id(&'a [u8]),
}

/// The description of a result column or a bind marker.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnSpec {
    /// The keyspace of its table.
    pub keyspace: Arc<str>,
    /// Its table.
    pub table: Arc<str>,
    /// Its name: the column's, `count`, `system.now()`, `[limit]`, `in(pk)`, an alias.
    pub name: Arc<str>,
    /// Its type.
    pub cql_type: CqlType,
    /// The class that clients see in place of the type, where Cassandra shows another one.
    pub class: Option<&'static str>,
}
