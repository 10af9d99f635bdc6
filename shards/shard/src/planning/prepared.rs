//! PREPARE, and finding prepared statements for EXECUTE.
//!
//! 1. PREPARE plans the statement, stores it in `system.prepared_statements`, installs it on all cores, and then
//!    answers.
//! 2. EXECUTE looks in its core's cache. If the statement is missing there, it asks the id's home core (`id % cores`),
//!    which looks in its own cache and then in the table. Only if the home finds nothing is the answer UNPREPARED.
//! 3. Dropping a table removes its statements from caches and table. What the home evicts from its cache is also
//!    deleted from the table, so that both are bounded.

use super::{check_keyspace, plan_text_in};
use crate::messages::schema::PreparedText;
use crate::messages::{Reply, Request};
use crate::replica;
use crate::request::{PreparedAnswer, Session};
use crate::schema::prepared::{StoredStatement, forgotten, load, stored};
use crate::schema::{cells, rows};
use crate::shard_state::Shard;
use crate::statements::{Statement, hex, tables_of};
use cql::ast::Definition;
use cql::plan::{Define, Plan};
use model::failure::Detail;
use model::{ErrorCode, Failure, TableId};
use runtime::ShardId;
use std::rc::Rc;
use std::sync::Arc;

/// Runs a PREPARE.
pub(crate) async fn prepare(
    shard: &Shard,
    session: &Session,
    text: &str,
    keyspace: Option<&str>,
) -> Result<PreparedAnswer, Failure> {
    shard.trace_prepare(text);
    check_keyspace(shard, keyspace)?;
    let asked = keyspace.is_some();
    let session_keyspace = session.keyspace.borrow().clone();
    let keyspace = keyspace.or(session_keyspace.as_deref());
    let statement = plan_text_in(shard, keyspace, text)?;
    let id = statement.id();
    let known = shard.prepared().borrow().get(&id);
    // Warnings about the statement itself are given when it runs.
    let mut warnings = Vec::new();
    let statement = match known {
        Some(statement) => {
            // The home core may have evicted it, and cores that miss it later ask there.
            let home = home_of(&id);
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
            // What may hold a password is not kept on disk.
            if !matches!(statement.prepared.plan, Plan::Access(_)) {
                store(shard, id, &statement).await?;
            }
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

/// Whether a statement reads, writes or defines a table, so that the session's keyspace can matter to it.
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

/// The core that finds the statement of an id for all others.
fn home_of(id: &[u8; 16]) -> ShardId {
    let (head, _) = id.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    ShardId((u64::from_be_bytes(*head) % runtime::shard_count() as u64) as u16)
}

/// Writes a statement into `system.prepared_statements`.
async fn store(shard: &Shard, id: [u8; 16], statement: &Statement) -> Result<(), Failure> {
    let row = StoredStatement { id, keyspace: statement.keyspace.clone(), text: statement.text.clone() };
    let mutation = stored(&shard.schema_ref(), &row, shard.clock().timestamp());
    shard.call(ShardId(0), Request::Mutate { mutation, system: true }).await.done()
}

/// Plans and keeps a statement that another core prepared. If it cannot be planned here yet because the schema is
/// behind, a later EXECUTE finds it through its home core.
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

/// Deletes statements from the table that their home core evicted.
async fn forget(shard: &Shard, evicted: Vec<[u8; 16]>) -> Result<(), Failure> {
    for id in evicted {
        if home_of(&id) == shard.id() {
            shard.metrics().prepared_evicted.increment();
            let now_in_seconds = runtime::wall_micros().div_euclid(1_000_000);
            let mutation = forgotten(&shard.schema_ref(), &id, shard.clock().timestamp(), now_in_seconds);
            shard.call(ShardId(0), Request::Mutate { mutation, system: true }).await.done()?;
        }
    }
    Ok(())
}

/// Installs statements that were prepared before the node started, while the cache has room.
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

/// The statement of an id for EXECUTE and BATCH, or the failure UNPREPARED.
pub(crate) async fn find(shard: &Shard, id: &[u8]) -> Result<Rc<Statement>, Failure> {
    let Ok(id) = <[u8; 16]>::try_from(id) else { return Err(unprepared(id)) };
    let known = shard.prepared().borrow().get(&id);
    if let Some(statement) = known {
        return Ok(statement);
    }
    Box::pin(fetch(shard, id)).await
}

/// Gets the statement's text from its home core and plans it here.
async fn fetch(shard: &Shard, id: [u8; 16]) -> Result<Rc<Statement>, Failure> {
    let found = match shard.call(home_of(&id), Request::FindPrepared(id)).await {
        Reply::Prepared(found) => found,
        _ => None,
    };
    let Some((keyspace, text)) = found else { return Err(unprepared(&id)) };
    install(shard, id, keyspace, text).await?;
    let known = shard.prepared().borrow().get(&id);
    known.ok_or_else(|| unprepared(&id))
}

/// The text of an id, from the cache or the table. Runs on the id's home core.
pub(crate) async fn find_at_home(shard: &Shard, id: [u8; 16]) -> Option<PreparedText> {
    let known = shard.prepared().borrow().get(&id);
    if let Some(statement) = known {
        return Some((statement.keyspace.clone(), statement.text.clone()));
    }
    if shard.id() != ShardId(0) {
        // Only shard 0 holds the table.
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

/// After the schema was switched: forgets the statements of `tables`, which were dropped or altered; shard 0 also
/// deletes them from the table. This ends before the next DDL begins, which may create a table of the same name.
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

fn unprepared(id: &[u8]) -> Failure {
    let text = format!(
        "Prepared query with ID {} not found (either the query was not prepared on this host (maybe the host has been \
         restarted?) or you have prepared too many queries and it has been evicted from the internal cache)",
        hex(id)
    );
    Failure::new(ErrorCode::Unprepared, text).with(Detail::Unprepared { id: id.to_vec() })
}
