//! Planned statements and the caches that keep them. A shard's plans are its own (`Rc`).
//!
//! [`cache`] keeps prepared statements by id, [`text_cache`] plans of QUERY texts. The module `planning` makes
//! statements.

pub(crate) mod cache;
pub(crate) mod text_cache;

use cql::Prepared;
use cql::plan::{Plan, Select, Selector};
use md5::{Digest, Md5};
use model::access::{Required, Resource};
use model::query::Slice;
use model::{Column, ColumnId, Table, TableId};
use std::rc::Rc;
use std::sync::Arc;

/// Bytes that a statement is estimated to take besides its text and columns: plan, maps, counters.
const STATEMENT_OVERHEAD: usize = 1024;
/// Bytes that a column of the markers or of the result is estimated to take.
const COLUMN_OVERHEAD: usize = 160;

/// A planned statement with what every execution needs.
pub(crate) struct Statement {
    pub(crate) prepared: Rc<Prepared>,
    /// A hash of text and tables, by which a paging state is recognised as this statement's.
    pub(crate) fingerprint: u64,
    /// What a SELECT selects, shared with other cores.
    pub(crate) selection: Arc<[Selector]>,
    /// One slice that holds every row.
    pub(crate) all_rows: Arc<[Slice]>,
    /// See [`model::query::ReadCommand::row_columns`].
    pub(crate) row_columns: Option<Arc<[ColumnId]>>,
    /// MD5 of the result's columns.
    pub(crate) result_metadata_id: [u8; 16],
    /// The keyspace it was planned in.
    pub(crate) keyspace: Option<Arc<str>>,
    pub(crate) text: Arc<str>,
    /// The permissions that running it needs, but for definitions; none where roles need none.
    pub(crate) required: Box<[Required]>,
    /// What a SELECT from a table with masks is for those who may not see what is masked; `None` for other statements,
    /// and where masks have no effect.
    pub(crate) masked: Option<Box<MaskedStatement>>,
}

/// A SELECT or a transaction as it is for those who may not see what is masked.
pub(crate) struct MaskedStatement {
    pub(crate) statement: Statement,
    /// The table and what it is a part of.
    pub(crate) chain: Box<[Resource]>,
    /// Cassandra's words for who may not restrict masked columns and where, but for the user; `None` if the statement
    /// restricts none.
    pub(crate) refusal: Option<Box<str>>,
    /// The words for who may not use masked values in a transaction, but for the user; `None` if it uses none.
    pub(crate) hidden: Option<Box<str>>,
}

impl Statement {
    /// Makes a statement from a plan and the text and keyspace that it was planned from.
    pub(crate) fn new(prepared: Prepared, keyspace: Option<&str>, text: &str) -> Statement {
        let selection: Arc<[Selector]> = match &prepared.plan {
            Plan::Select(select) => select.selection.as_slice().into(),
            _ => Arc::from([]),
        };
        let mut hashed = text.as_bytes().to_vec();
        for table in tables_of(&prepared.plan) {
            hashed.extend_from_slice(&table.id.0);
        }
        Statement {
            fingerprint: runtime::hash64(&hashed),
            row_columns: match &prepared.plan {
                Plan::Select(select) => row_columns(select),
                _ => None,
            },
            required: Box::default(),
            masked: None,
            selection,
            all_rows: Arc::from([Slice::all()]),
            result_metadata_id: result_metadata_id(&prepared),
            prepared: Rc::new(prepared),
            keyspace: keyspace.map(Arc::from),
            text: text.into(),
        }
    }

    /// Lets those who may not see what is masked run what the plan has for them instead.
    pub(crate) fn apply_masks(&mut self) {
        let Some(masked) = &self.prepared.masked else { return };
        let table = &masked.table;
        let chain = Resource::Table(table.keyspace.clone(), table.name.clone()).chain().into();
        let refusal = (!masked.restricted.is_empty()).then(|| {
            format!(
                "has no UNMASK nor SELECT_MASKED permission on table {}, cannot query masked columns [{}]",
                table.full_name(),
                masked.restricted.join(", ")
            )
        });
        let hidden = (!masked.referenced.is_empty()).then(|| {
            format!(
                "has no UNMASK permission on table {}, cannot reference masked columns [{}] in a transaction",
                table.full_name(),
                masked.referenced.join(", ")
            )
        });
        let prepared = Prepared { plan: masked.plan.clone(), masked: None, ..(*self.prepared).clone() };
        let statement = Statement::new(prepared, self.keyspace.as_deref(), &self.text);
        self.masked = Some(Box::new(MaskedStatement {
            statement,
            chain,
            refusal: refusal.map(String::into),
            hidden: hidden.map(String::into),
        }));
    }

    /// Whether a text planned in `keyspace` would get this plan.
    pub(crate) fn fits(&self, keyspace: Option<&str>) -> bool {
        self.prepared.fully_qualified || self.keyspace.as_deref() == keyspace
    }

    /// Whether the plan is worth caching by its text: reads, writes and batches are, definitions are not.
    pub(crate) fn is_read_or_write(&self) -> bool {
        matches!(self.prepared.plan, Plan::Select(_) | Plan::Modify(_) | Plan::Batch(_) | Plan::Transaction(_))
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The id of the prepared statement: MD5 of keyspace and text; without the keyspace if the text names it
    /// everywhere.
    pub(crate) fn id(&self) -> [u8; 16] {
        let keyspace = match &self.keyspace {
            Some(keyspace) if !self.prepared.fully_qualified => keyspace,
            _ => "",
        };
        Md5::new().chain_update(keyspace).chain_update(&*self.text).finalize().into()
    }

    /// About how many bytes it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let result = self.prepared.result.as_ref().map_or(0, |columns| columns.len());
        let masked = if self.masked.is_some() { STATEMENT_OVERHEAD + self.text.len() } else { 0 };
        STATEMENT_OVERHEAD + masked + 2 * self.text.len() + COLUMN_OVERHEAD * (self.prepared.markers.len() + result)
    }

    /// Whether it reads or writes one of these tables.
    pub(crate) fn touches(&self, tables: &[TableId]) -> bool {
        tables_of(&self.prepared.plan).iter().any(|table| tables.contains(&table.id))
    }
}

/// The regular columns that a SELECT of single rows looks at; `None` for other statements, and if one of the columns
/// has several cells.
fn row_columns(select: &Select) -> Option<Arc<[ColumnId]>> {
    let names_rows = select.clustering.chosen() == select.table.clustering_len && !select.clustering.is_slice();
    // A counter is the sum of what all sources have, so reading cannot stop at the newest.
    if select.table.is_counter() || !names_rows || !select.filter.is_empty() || !select.order.is_empty() {
        return None;
    }
    let shown = select.selection.iter().filter_map(|selector| match selector {
        Selector::Column(id) | Selector::WriteTime(id) | Selector::Ttl(id) | Selector::Count(id) => Some(*id),
        Selector::CountRows | Selector::Token(_) => None,
    });
    let columns = shown.filter_map(|id| select.table.column_by_id(id)).filter(|column| !column.kind.is_key());
    let single = |column: &Column| (!column.cql_type.is_multicell()).then_some(column.id);
    columns.map(single).collect()
}

/// The tables of a plan.
pub(crate) fn tables_of(plan: &Plan) -> Vec<&Arc<Table>> {
    match plan {
        Plan::Select(select) => vec![&select.table],
        Plan::Modify(modify) => vec![&modify.table],
        Plan::Batch(batch) => batch.statements.iter().map(|modify| &modify.table).collect(),
        Plan::Transaction(transaction) => vec![&transaction.table],
        Plan::Truncate(table) => vec![table],
        Plan::Use(_) | Plan::Define(_) | Plan::Describe(_) | Plan::Access(_) => Vec::new(),
    }
}

/// MD5 over the result's columns; over nothing for statements without rows.
fn result_metadata_id(prepared: &Prepared) -> [u8; 16] {
    let mut md5 = Md5::new();
    for column in prepared.result.iter().flat_map(|columns| columns.iter()) {
        md5.update(column.name.as_bytes());
        md5.update([0]);
        md5.update(column.cql_type.class_name());
        md5.update([0, 0]);
    }
    md5.finalize().into()
}

/// The bytes of an id in hexadecimal, as error texts show them.
pub(crate) fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
