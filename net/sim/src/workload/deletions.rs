//! A client that writes keys at QUORUM, deletes them at ALL, and looks whether they stay deleted.

use super::requests::{StepError, cell_number, check_answer, select};
use super::session;
use super::world::SharedWorld;
use model::Consistency;
use runtime::rng;
use server::client::{CallError, Client, QueryOptions};
use std::net::SocketAddr;
use std::time::Duration;

/// The keyspace and the table.
pub const TABLE: (&str, &str) = ("s", "deleted");
/// `gc_grace_seconds` of the table: longer than a request can be under way on a node whose process stands still.
pub const GC_GRACE: Duration = Duration::from_secs(60);
/// How many keys are written at a time.
const LIVE_MAX: usize = 8;
/// Longest pause between two steps.
const PAUSE_MICROS_MAX: u64 = 80_000;
/// Steps on one connection, on average: hints for one replica are to be kept by several nodes.
const STEPS: u64 = 20;
/// Microseconds between the timestamps of two writes.
const TIMESTAMP_STEP: i64 = 1_000;

/// Creates the table if it is missing.
pub(crate) async fn create(client: &mut Client) -> Result<(), CallError> {
    let text = format!(
        "CREATE TABLE IF NOT EXISTS s.deleted (pk bigint PRIMARY KEY, v bigint) WITH gc_grace_seconds = {}",
        GC_GRACE.as_secs()
    );
    client.query(&text, &QueryOptions::default()).await.map(drop)
}

/// The keys that are not deleted yet, and the numbers of keys and writes.
#[derive(Default)]
struct Keys {
    live: Vec<i64>,
    next: i64,
    writes: i64,
}

/// Writes, deletes and reads keys until the world stops or a rule is broken.
pub async fn client(servers: Vec<SocketAddr>, world: SharedWorld) {
    let mut keys = Keys::default();
    let step = async |client: &mut Client| step(client, &world, &mut keys).await;
    session::run_briefly(&servers, &world, (STEPS, PAUSE_MICROS_MAX), step).await;
}

async fn step(client: &mut Client, world: &SharedWorld, keys: &mut Keys) -> Result<(), StepError> {
    let at = rng::below(LIVE_MAX as u64) as usize;
    match (keys.live.get(at).copied(), rng::below(4)) {
        (_, 0) => {
            let deleted = world.borrow().deletions.keys();
            match deleted.len() as u64 {
                0 => Ok(()),
                count => read(client, world, deleted[rng::below(count) as usize], Consistency::One).await,
            }
        }
        (None, _) => {
            keys.live.push(keys.next);
            keys.next += 1;
            Ok(())
        }
        (Some(key), 1) => {
            keys.writes += 1;
            let timestamp = keys.writes * TIMESTAMP_STEP;
            let text = format!("DELETE FROM s.deleted USING TIMESTAMP {timestamp} WHERE pk = {key}");
            let options = QueryOptions { consistency: Consistency::All, ..QueryOptions::default() };
            let result = client.query(&text, &options).await;
            world.borrow_mut().answered += 1;
            if result.is_ok() {
                world.borrow_mut().deletions.deleted(key, runtime::now().0);
                keys.live.retain(|live| *live != key);
            }
            check_answer(&text, result)
        }
        (Some(key), _) => {
            keys.writes += 1;
            let (value, timestamp) = (keys.writes, keys.writes * TIMESTAMP_STEP);
            let text = format!("UPDATE s.deleted USING TIMESTAMP {timestamp} SET v = {value} WHERE pk = {key}");
            let options = world.borrow().options();
            let result = client.query(&text, &options).await;
            world.borrow_mut().answered += 1;
            check_answer(&text, result)
        }
    }
}

async fn read(client: &mut Client, world: &SharedWorld, key: i64, level: Consistency) -> Result<(), StepError> {
    let started = runtime::now().0;
    let options = QueryOptions { consistency: level, ..QueryOptions::default() };
    let text = format!("SELECT v FROM s.deleted WHERE pk = {key}");
    let Some(outcome) = select(client, world, &text, &options).await? else { return Ok(()) };
    let value = outcome.rows.first().and_then(|row| cell_number(row.first()?));
    let mut world = world.borrow_mut();
    world.reads_checked += 1;
    Ok(world.deletions.check(key, value, (started, runtime::now().0))?)
}

/// Reads and checks every key that was deleted.
pub(crate) async fn check_all(client: &mut Client, world: &SharedWorld) -> Result<(), StepError> {
    let (keys, level) = (world.borrow().deletions.keys(), world.borrow().replicas.level);
    for key in keys {
        read(client, world, key, level).await?;
    }
    Ok(())
}
