//! Clients that write and read at random through CQL.
//!
//! 1. A client connects, to either port, and creates its own table if it is missing.
//! 2. It takes one step after another: a write, a read, a batch, a change of the schema. Every request is reported
//!    to the judges before it is sent, and its answer when it comes. The timestamp of every write (USING TIMESTAMP)
//!    is made from the write's number, so the winner of each cell is known.
//! 3. When the connection breaks it connects again, until the world stops or a rule is broken.

use super::counters;
use super::indexes;
use super::reads::{self, Scan};
use super::registers;
use super::requests::{StepError, check_answer, fate_of, send};
use super::schema_changes;
use super::session;
use super::tables::{PARTITIONS, TestTable};
use super::world::{SharedWorld, Work};
use super::writes::{self, WriteContext};
use crate::judges::history::{Effects, WriteId};
use model::ErrorCode;
use runtime::rng;
use server::client::{CallError, Client, QueryOptions};
use std::net::SocketAddr;
use std::time::Duration;

/// Most partitions of one batch.
const BATCH_PARTITIONS_MAX: u64 = 3;
/// Longest pause of a client, so that values with a time to live expire between its requests.
const NAP_SECONDS_MAX: u64 = 4;

/// Runs client `number` until the world stops or a rule is broken.
pub async fn client(number: u8, servers: Vec<SocketAddr>, world: SharedWorld) {
    let mut scan = None;
    let opened = async |client: &mut Client| {
        if client.query(&TestTable::own(number).create(), &QueryOptions::default()).await.is_err() {
            return false;
        }
        for index in indexes::create_all(TestTable::own(number)) {
            // A failure does not matter: reads through a missing index are refused and tell nothing.
            let _ = client.query(&index, &QueryOptions::default()).await;
        }
        true
    };
    let step = async |client: &mut Client| step(number, client, &world, &mut scan).await;
    session::run(&servers, &world, opened, step, rest).await;
}

/// How long a client does nothing after a step.
fn rest() -> Duration {
    match rng::below(400) {
        0 => Duration::from_secs(1 + rng::below(NAP_SECONDS_MAX)),
        1..=100 => Duration::from_micros(rng::below(3000)),
        _ => Duration::ZERO,
    }
}

async fn step(number: u8, client: &mut Client, world: &SharedWorld, scan: &mut Option<Scan>) -> Result<(), StepError> {
    if world.borrow().work == Work::Registers || rng::below(5) == 0 {
        return registers::step(client, world).await;
    }
    let own = TestTable::own(number);
    let table = match rng::below(6) {
        0 => TestTable::PLAIN,
        1..=3 => TestTable::WIDE,
        _ => own,
    };
    let wide = if table.is_wide() { table } else { TestTable::WIDE };
    let pk = rng::below(PARTITIONS as u64) as i64;
    // Where tables are replicated, their schema stays as it is: clusters that change it have runs of their own.
    let kinds = if world.borrow().replicas.factor > 1 { 194 } else { 200 };
    match rng::below(kinds) {
        0..=69 => modify(client, world, table, pk).await,
        70..=84 => counters::step(client, world).await,
        85..=109 => batch(client, world, pk).await,
        110..=169 => reads::partition(client, world, table, pk, false).await,
        170..=181 => reads::derived(client, world, wide, pk).await,
        182..=183 => reads::groups(client, world, wide).await,
        184..=187 => indexes::read(client, world, table).await,
        188..=193 => {
            let mut current = scan.take().unwrap_or_else(|| Scan::new(table));
            let done = current.next(client, world).await;
            if !matches!(done, Ok(true)) {
                *scan = Some(current);
            }
            done.map(|_| ())
        }
        194..=196 => schema_changes::alter(client, world, own, number).await,
        _ => {
            // A scan that began before the table was emptied may rightly have returned rows that are gone.
            if scan.as_ref().is_some_and(|scan| scan.is_of(own)) {
                *scan = None;
            }
            schema_changes::empty(client, world, own).await
        }
    }
}

async fn modify(client: &mut Client, world: &SharedWorld, table: TestTable, pk: i64) -> Result<(), StepError> {
    let (id, op) = {
        let world = world.borrow();
        let id = world.history.next_id();
        let has_c = table.is_own() && world.has_c(table);
        (id, writes::random(table, pk, id, &world.history, WriteContext { is_batched: false, has_c }))
    };
    if op.is_empty() {
        return Ok(());
    }
    write(client, world, &op.text, vec![op.effects(id)], op.ttl).await
}

async fn batch(client: &mut Client, world: &SharedWorld, pk: i64) -> Result<(), StepError> {
    let several = 1 + rng::below(BATCH_PARTITIONS_MAX) as i64;
    let pks: Vec<i64> = (0..several).map(|offset| (pk + offset) % PARTITIONS).collect();
    let (id, op) = {
        let history = &world.borrow().history;
        let id = history.next_id();
        (id, writes::random_batch(&pks, id, history))
    };
    let parts = pks.iter().enumerate().map(|(at, pk)| op.effects_on(*pk, id + at as WriteId)).collect();
    write(client, world, &op.text, parts, None).await
}

/// Sends a statement that writes to some partitions. The history gets one write per partition, bound together: with
/// several partitions the statement is a logged batch.
async fn write(
    client: &mut Client,
    world: &SharedWorld,
    text: &str,
    effects_by_partition: Vec<Effects>,
    ttl: Option<u64>,
) -> Result<(), StepError> {
    let ids: Vec<WriteId> = {
        let history = &mut world.borrow_mut().history;
        let begin = |effects| history.begin(effects, ttl, runtime::now().0);
        let ids: Vec<WriteId> = effects_by_partition.into_iter().map(begin).collect();
        if ids.len() > 1 {
            history.bind_together(ids.clone());
        }
        ids
    };
    let options = world.borrow().options();
    let result = send(client, text, &options, 4).await;
    let mut world = world.borrow_mut();
    world.answered += 1;
    for id in ids {
        world.history.finish(id, fate_of(&result), runtime::now().0)?;
    }
    match &result {
        Err(CallError::Failure { text: why, .. }) if why.starts_with("Helenus does not support") => Ok(()),
        // Allowed: the schema changed between PREPARE and EXECUTE.
        Err(CallError::Failure { code, .. }) if *code == ErrorCode::Unprepared as u16 => Ok(()),
        // Allowed: a client's own table is missing if a crash came between DROP and CREATE.
        Err(CallError::Failure { .. }) if text.contains("s.own") => Ok(()),
        _ => check_answer(text, result),
    }
}
