//! Prepared statements of a shard.
//!
//! 1. PREPARE plans the statement, stores it in `system.prepared_statements` and installs it on all cores, then answers.
//! 2. EXECUTE looks here; what is not here is asked of the id's home core (`id % cores`), which looks into its own cache
//!    and then into the table. Only the home's miss is UNPREPARED.
//! 3. A dropped table takes its statements with it, from caches and table.
//!
//! The cache is SIEVE: entries in order of arrival, a hand that moves from the oldest to the newest and evicts the first
//! one that was not used since it came by. What the home evicts leaves the table too, so that both are bounded.
//!
//! Invariants: a shard's plans are its own (`Rc`); the cache holds at most its bytes, and always the statement
//! installed last.

use super::plan_text_in;
use crate::schema::prepared::{StoredStatement, forgotten, load, stored};
use crate::schema::{cells, rows};
use crate::verbs::{Reply, Request};
use crate::{PreparedAnswer, Session, Shard, replica};
use cql::Prepared;
use cql::ast::Definition;
use cql::plan::{Define, Plan, Select, Selector};
use md5::{Digest, Md5};
use model::failure::Detail;
use model::query::Slice;
use model::{Column, ColumnId, ErrorCode, Failure, HashMap, Table, TableId};
use runtime::ShardId;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Prepared statements get this part of a shard's memory.
pub(crate) const PREPARED_SHARE: usize = 256;
/// What a statement takes besides its text and columns, bytes: plan, maps, counters.
const STATEMENT_OVERHEAD: usize = 1024;
/// What a column of markers or of the result takes, bytes.
const COLUMN_OVERHEAD: usize = 160;

/// A statement with what executing it needs again and again.
pub(crate) struct Statement {
    /// The plan.
    pub(crate) prepared: Rc<Prepared>,
    /// Of text and tables: a paging state belongs to one statement.
    pub(crate) fingerprint: u64,
    /// A SELECT's columns, as other cores get them.
    pub(crate) selection: Arc<[Selector]>,
    /// One slice that holds every row.
    pub(crate) all_rows: Arc<[Slice]>,
    /// See [`model::query::ReadCommand::row_columns`].
    pub(crate) row_columns: Option<Arc<[ColumnId]>>,
    /// MD5 of the result's columns.
    pub(crate) result_metadata_id: [u8; 16],
    keyspace: Option<Arc<str>>,
    text: Arc<str>,
}

impl Statement {
    /// Of a plan and the text and keyspace that it was made from.
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
            selection,
            all_rows: Arc::from([Slice::all()]),
            result_metadata_id: result_metadata_id(&prepared),
            prepared: Rc::new(prepared),
            keyspace: keyspace.map(Arc::from),
            text: text.into(),
        }
    }

    /// Whether a text planned in `keyspace` would get this plan.
    pub(crate) fn fits(&self, keyspace: Option<&str>) -> bool {
        self.prepared.fully_qualified || self.keyspace.as_deref() == keyspace
    }

    /// Whether it is worth keeping for its text.
    pub(crate) fn is_read_or_write(&self) -> bool {
        matches!(self.prepared.plan, Plan::Select(_) | Plan::Modify(_) | Plan::Batch(_))
    }

    /// What it was made from.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// PROTOCOL 7.3: the keyspace is part of the id unless the text names it everywhere.
    fn id(&self) -> [u8; 16] {
        let keyspace = match &self.keyspace {
            Some(keyspace) if !self.prepared.fully_qualified => keyspace,
            _ => "",
        };
        Md5::new().chain_update(keyspace).chain_update(&*self.text).finalize().into()
    }

    /// About what it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let result = self.prepared.result.as_ref().map_or(0, |columns| columns.len());
        STATEMENT_OVERHEAD + 2 * self.text.len() + COLUMN_OVERHEAD * (self.prepared.markers.len() + result)
    }

    fn touches(&self, tables: &[TableId]) -> bool {
        tables_of(&self.prepared.plan).iter().any(|table| tables.contains(&table.id))
    }
}

/// The regular columns that a SELECT of single rows looks at, if it is one and none of them is multi-cell.
fn row_columns(select: &Select) -> Option<Arc<[ColumnId]>> {
    let names_rows = select.clustering.chosen() == select.table.clustering_len && !select.clustering.is_slice();
    // Counters are the sum of what all sources have.
    if select.table.is_counter() || !names_rows || !select.filter.is_empty() || !select.order.is_empty() {
        return None;
    }
    let shown = select.selection.iter().filter_map(|selector| match selector {
        Selector::Column(id) | Selector::WriteTime(id) | Selector::Ttl(id) | Selector::Count(id) => Some(*id),
        Selector::CountRows | Selector::Token => None,
    });
    let columns = shown.filter_map(|id| select.table.column_by_id(id)).filter(|column| !column.kind.is_key());
    let single = |column: &Column| (!column.cql_type.is_multicell()).then_some(column.id);
    columns.map(single).collect()
}

/// The tables of a plan.
fn tables_of(plan: &Plan) -> Vec<&Arc<Table>> {
    match plan {
        Plan::Select(select) => vec![&select.table],
        Plan::Modify(modify) => vec![&modify.table],
        Plan::Batch(batch) => batch.statements.iter().map(|modify| &modify.table).collect(),
        Plan::Truncate(table) => vec![table],
        Plan::Use(_) | Plan::Define(_) | Plan::Describe(_) => Vec::new(),
    }
}

/// MD5 over the result's columns; of nothing for statements without rows.
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

/// See the module.
pub(crate) struct StatementCache {
    entries: HashMap<[u8; 16], Entry>,
    /// Ids by arrival.
    order: BTreeMap<u64, [u8; 16]>,
    next: u64,
    /// The hand: entries before it were asked in this round.
    hand: u64,
    bytes: usize,
    bytes_max: usize,
}

struct Entry {
    statement: Rc<Statement>,
    arrival: u64,
    used: Cell<bool>,
}

impl StatementCache {
    /// A cache of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> StatementCache {
        StatementCache { entries: HashMap::default(), order: BTreeMap::new(), next: 0, hand: 0, bytes: 0, bytes_max }
    }

    /// The statement of an id.
    pub(crate) fn get(&self, id: &[u8; 16]) -> Option<Rc<Statement>> {
        let entry = self.entries.get(id)?;
        entry.used.set(true);
        Some(entry.statement.clone())
    }

    /// Adds or replaces a statement and gives the ids that had to go.
    pub(crate) fn put(&mut self, id: [u8; 16], statement: Rc<Statement>) -> Vec<[u8; 16]> {
        self.remove(&id);
        self.bytes += statement.bytes();
        let mut evicted = Vec::new();
        while self.bytes > self.bytes_max && !self.entries.is_empty() {
            let Some(victim) = self.victim() else { break };
            self.remove(&victim);
            evicted.push(victim);
        }
        let arrival = self.next;
        self.next += 1;
        self.order.insert(arrival, id);
        self.entries.insert(id, Entry { statement, arrival, used: Cell::new(false) });
        evicted
    }

    fn victim(&mut self) -> Option<[u8; 16]> {
        loop {
            let found = self.order.range(self.hand..).next().or_else(|| self.order.iter().next());
            let (&arrival, &id) = found?;
            self.hand = arrival + 1;
            match self.entries.get(&id) {
                Some(entry) if entry.used.get() => entry.used.set(false),
                _ => return Some(id),
            }
        }
    }

    fn remove(&mut self, id: &[u8; 16]) {
        if let Some(entry) = self.entries.remove(id) {
            self.order.remove(&entry.arrival);
            self.bytes -= entry.statement.bytes();
        }
    }

    /// How many statements it holds.
    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }

    fn has_room(&self) -> bool {
        self.bytes < self.bytes_max
    }

    /// Forgets the statements of dropped tables.
    fn drop_tables(&mut self, tables: &[TableId]) {
        let gone: Vec<[u8; 16]> =
            self.entries.iter().filter(|(_, entry)| entry.statement.touches(tables)).map(|(id, _)| *id).collect();
        gone.iter().for_each(|id| self.remove(id));
    }
}

/// PREPARE.
pub(crate) async fn prepare(
    shard: &Shard,
    session: &Session,
    text: &str,
    keyspace: Option<&str>,
) -> Result<PreparedAnswer, Failure> {
    shard.trace_prepare(text);
    super::check_keyspace(shard, keyspace)?;
    let asked = keyspace.is_some();
    let session_keyspace = session.keyspace.borrow().clone();
    let keyspace = keyspace.or(session_keyspace.as_deref());
    let statement = plan_text_in(shard, keyspace, text)?;
    let id = statement.id();
    let known = shard.prepared().borrow().get(&id);
    // What the statement itself warns of is told when it runs.
    let mut warnings = Vec::new();
    let statement = match known {
        Some(statement) => {
            // The home may have evicted it; whoever misses it later asks there.
            let home = home_of(shard, &id);
            if home != shard.id() {
                shard.call(home, install_request(id, &statement)).await.done()?;
            }
            statement
        }
        None => {
            if !statement.prepared.fully_qualified
                && names_a_table(&statement.prepared.plan)
                && let Some(used) = keyspace
                && (asked || !session.use_warned.replace(true))
            {
                warnings.push(use_warning(used, &id));
            }
            let statement = Rc::new(statement);
            store(shard, id, &statement).await?;
            let replies = shard.call_all(|| install_request(id, &statement)).await;
            replies.into_iter().try_for_each(Reply::done)?;
            statement
        }
    };
    Ok(PreparedAnswer {
        id,
        result_metadata_id: statement.result_metadata_id,
        prepared: statement.prepared.clone(),
        warnings,
    })
}

/// Whether the session's keyspace can matter to a statement.
fn names_a_table(plan: &Plan) -> bool {
    let defines_a_table = |define: &Define| {
        matches!(&*define.definition, Definition::CreateTable(_) | Definition::AlterTable(_) | Definition::DropTable(_))
    };
    matches!(plan, Plan::Define(define) if defines_a_table(define)) || !tables_of(plan).is_empty()
}

fn use_warning(keyspace: &str, id: &[u8; 16]) -> String {
    format!(
        "`USE <keyspace>` with prepared statements is considered to be an anti-pattern due to ambiguity in \
         non-qualified table names. Please consider removing instances of `Session#setKeyspace(<keyspace>)`, \
         `Session#execute(\"USE <keyspace>\")` and `cluster.newSession(<keyspace>)` from your code, and always use \
         fully qualified table names (e.g. <keyspace>.<table>). Keyspace used: {keyspace}, statement keyspace: \
         {keyspace}, statement id: {}",
        hex(id)
    )
}

fn install_request(id: [u8; 16], statement: &Statement) -> Request {
    Request::InstallPrepared { id, keyspace: statement.keyspace.clone(), text: statement.text.clone() }
}

/// The core that answers for an id.
fn home_of(shard: &Shard, id: &[u8; 16]) -> ShardId {
    let _ = shard;
    let (head, _) = id.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    ShardId((u64::from_be_bytes(*head) % runtime::shard_count() as u64) as u16)
}

/// Writes a statement into `system.prepared_statements`.
async fn store(shard: &Shard, id: [u8; 16], statement: &Statement) -> Result<(), Failure> {
    let row = StoredStatement { id, keyspace: statement.keyspace.clone(), text: statement.text.clone() };
    let mutation = stored(&shard.schema_ref(), &row, shard.clock().timestamp());
    shard.call(ShardId(0), Request::Mutate { mutation, system: true }).await.done()
}

/// Plans a statement of another core's PREPARE and keeps it. One that does not plan here yet (the schema is behind) is
/// found through its home later.
pub(crate) async fn install(
    shard: &Shard,
    id: [u8; 16],
    keyspace: Option<Arc<str>>,
    text: Arc<str>,
) -> Result<(), Failure> {
    if shard.prepared().borrow().get(&id).is_some() {
        return Ok(());
    }
    let Ok(statement) = plan_text_in(shard, keyspace.as_deref(), &text) else { return Ok(()) };
    let evicted = shard.prepared().borrow_mut().put(id, Rc::new(statement));
    forget(shard, evicted).await
}

/// Takes statements that the home evicted out of the table.
async fn forget(shard: &Shard, evicted: Vec<[u8; 16]>) -> Result<(), Failure> {
    for id in evicted {
        if home_of(shard, &id) == shard.id() {
            shard.figures().prepared_evicted.increment();
            let now_in_seconds = runtime::wall_micros().div_euclid(1_000_000);
            let mutation = forgotten(&shard.schema_ref(), &id, shard.clock().timestamp(), now_in_seconds);
            shard.call(ShardId(0), Request::Mutate { mutation, system: true }).await.done()?;
        }
    }
    Ok(())
}

/// What was prepared before the node started, as far as the cache has room.
pub(crate) fn install_stored(shard: &Shard, statements: &[StoredStatement]) {
    for StoredStatement { id, keyspace, text } in statements {
        if !shard.prepared().borrow().has_room() {
            return;
        }
        if let Ok(statement) = plan_text_in(shard, keyspace.as_deref(), text) {
            shard.prepared().borrow_mut().put(*id, Rc::new(statement));
        }
    }
}

/// The statement of an id for EXECUTE and BATCH, or UNPREPARED.
pub(crate) async fn find(shard: &Shard, id: &[u8]) -> Result<Rc<Statement>, Failure> {
    let Ok(id) = <[u8; 16]>::try_from(id) else { return Err(unprepared(id)) };
    let known = shard.prepared().borrow().get(&id);
    if let Some(statement) = known {
        return Ok(statement);
    }
    Box::pin(fetch(shard, id)).await
}

/// The statement from its home core.
async fn fetch(shard: &Shard, id: [u8; 16]) -> Result<Rc<Statement>, Failure> {
    let found = match shard.call(home_of(shard, &id), Request::FindPrepared(id)).await {
        Reply::Prepared(found) => found,
        _ => None,
    };
    let Some((keyspace, text)) = found else { return Err(unprepared(&id)) };
    install(shard, id, keyspace, text).await?;
    let known = shard.prepared().borrow().get(&id);
    known.ok_or_else(|| unprepared(&id))
}

/// On the home core: what is known of an id, from the cache or the table.
pub(crate) async fn find_at_home(shard: &Shard, id: [u8; 16]) -> Option<(Option<Arc<str>>, Arc<str>)> {
    let known = shard.prepared().borrow().get(&id);
    if let Some(statement) = known {
        return Some((statement.keyspace.clone(), statement.text.clone()));
    }
    if shard.id() != ShardId(0) {
        // The table lives on shard 0.
        return match shard.call(ShardId(0), Request::FindPrepared(id)).await {
            Reply::Prepared(found) => found,
            _ => None,
        };
    }
    let schema = shard.schema();
    let table = rows::system_table(&schema, "system", "prepared_statements");
    let found = cells::read_partition(shard.store(), table, &id).await.ok()?;
    let row = load(&schema, &found).ok()?.pop()?;
    Some((row.keyspace, row.text))
}

/// After a switch of the schema: statements of `tables`, which were dropped or altered, are forgotten, on shard 0 by the
/// table too. What a row names can be told of a dropped table only while it is gone, so this ends before the next DDL
/// begins.
pub(crate) async fn schema_changed(shard: &Shard, tables: &[TableId]) -> Result<(), Failure> {
    if tables.is_empty() {
        return Ok(());
    }
    shard.prepared().borrow_mut().drop_tables(tables);
    if shard.id() != ShardId(0) {
        return Ok(());
    }
    let schema = shard.schema();
    let table = rows::system_table(&schema, "system", "prepared_statements");
    let failed = |error| Failure::server(format!("system.prepared_statements cannot be read: {error}"));
    let found = cells::read_all(shard.store(), table).await.map_err(failed)?;
    let statements = load(&schema, &found).map_err(failed)?;
    for StoredStatement { id, keyspace, text } in statements {
        if plan_text_in(shard, keyspace.as_deref(), &text).is_ok_and(|statement| !statement.touches(tables)) {
            continue;
        }
        let now_in_seconds = runtime::wall_micros().div_euclid(1_000_000);
        let mutation = forgotten(&schema, &id, shard.clock().timestamp(), now_in_seconds);
        replica::mutate(shard, mutation, true).await?;
        runtime::yield_if_needed().await;
    }
    Ok(())
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unprepared(id: &[u8]) -> Failure {
    let text = format!(
        "Prepared query with ID {} not found (either the query was not prepared on this host (maybe the host has been \
         restarted?) or you have prepared too many queries and it has been evicted from the internal cache)",
        hex(id)
    );
    Failure::new(ErrorCode::Unprepared, text).with(Detail::Unprepared { id: id.to_vec() })
}

#[cfg(test)]
#[path = "prepared_tests.rs"]
mod tests;
