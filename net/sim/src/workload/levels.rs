//! A client of tables that are written and read at levels with R + W > RF.

use super::requests::{StepError, cell_number, check_answer, fate_of, select};
use super::session;
use super::world::{DataCentres, SharedWorld};
use crate::judges::levels::LevelTable;
use model::Consistency::{self, All, EachQuorum, LocalOne, LocalQuorum, One, Quorum, Three, Two};
use runtime::rng::{self, Rng};
use server::client::{CallError, Client, QueryOptions};
use std::net::SocketAddr;

/// Registers of a table.
pub(crate) const REGISTERS: u64 = 4;
/// Longest pause between two steps.
const PAUSE_MICROS_MAX: u64 = 40_000;
/// Steps on one connection, on average.
const STEPS: u64 = 40;
/// Microseconds between the timestamps of two writes.
const TIMESTAMP_STEP: i64 = 1_000;

/// Levels of writes and reads that overlap in one data centre with three replicas, and whether reads ask most of them.
const IN_ONE_CENTRE: [(Consistency, Consistency, bool); 6] = [
    (One, All, true),
    (Two, Two, true),
    (All, One, false),
    (Three, LocalOne, false),
    (Quorum, LocalQuorum, true),
    (LocalOne, Three, true),
];
/// Levels that overlap in two data centres with three replicas each, and whether reads ask most of all replicas.
const IN_TWO_CENTRES: [(Consistency, Consistency, bool); 6] = [
    (EachQuorum, LocalQuorum, false),
    (EachQuorum, LocalQuorum, false),
    (Quorum, Quorum, true),
    (All, LocalOne, false),
    (LocalQuorum, All, true),
    (Three, Quorum, true),
];

/// Tables with random levels.
pub fn tables(rng: &mut Rng, centres: DataCentres) -> Vec<LevelTable> {
    let levels = match centres {
        DataCentres::One => IN_ONE_CENTRE,
        DataCentres::Two => IN_TWO_CENTRES,
    };
    let mut table = || {
        let (writes, reads, is_monotonic) = levels[rng.below(levels.len() as u64) as usize];
        LevelTable::new(writes, reads, is_monotonic)
    };
    vec![table(), table()]
}

/// Creates the tables if they are missing.
pub(crate) async fn create(client: &mut Client, world: &SharedWorld) -> Result<(), CallError> {
    let (count, replicas) = (world.borrow().levels.len(), world.borrow().replicas);
    let replication = match replicas.centres {
        DataCentres::One => replicas.options(3),
        DataCentres::Two => "replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 3}".to_owned(),
    };
    let options = QueryOptions::default();
    let keyspace = format!("CREATE KEYSPACE IF NOT EXISTS levels WITH {replication}");
    client.query(&keyspace, &options).await?;
    for table in 0..count {
        let text = format!("CREATE TABLE IF NOT EXISTS levels.t{table} (pk bigint PRIMARY KEY, v bigint)");
        client.query(&text, &options).await?;
    }
    Ok(())
}

/// Writes and reads registers until the world stops or a rule is broken.
pub async fn client(servers: Vec<SocketAddr>, world: SharedWorld) {
    session::run_briefly(&servers, &world, (STEPS, PAUSE_MICROS_MAX), async |client| step(client, &world).await).await;
}

async fn step(client: &mut Client, world: &SharedWorld) -> Result<(), StepError> {
    let table = rng::below(world.borrow().levels.len() as u64) as usize;
    let key = rng::below(REGISTERS) as i64;
    if rng::below(2) == 0 {
        return read(client, world, table, key).await;
    }
    let is_deletion = rng::below(6) == 0;
    let id = world.borrow_mut().levels[table].begin(key, is_deletion, runtime::now().0);
    let consistency = level_of(world, world.borrow().levels[table].writes);
    let timestamp = id * TIMESTAMP_STEP;
    let text = match is_deletion {
        true => format!("DELETE v FROM levels.t{table} USING TIMESTAMP {timestamp} WHERE pk = {key}"),
        false => format!("UPDATE levels.t{table} USING TIMESTAMP {timestamp} SET v = {id} WHERE pk = {key}"),
    };
    let result = client.query(&text, &QueryOptions { consistency, ..QueryOptions::default() }).await;
    {
        let mut world = world.borrow_mut();
        world.answered += 1;
        world.levels[table].finish(id, fate_of(&result), runtime::now().0)?;
    }
    check_answer(&text, result)
}

/// The level that a client asks for where the judge expects `level`.
fn level_of(world: &SharedWorld, level: Consistency) -> Consistency {
    if world.borrow().replicas.level == Consistency::One { Consistency::One } else { level }
}

async fn read(client: &mut Client, world: &SharedWorld, table: usize, key: i64) -> Result<(), StepError> {
    let started = runtime::now().0;
    let consistency = level_of(world, world.borrow().levels[table].reads);
    let options = QueryOptions { consistency, ..QueryOptions::default() };
    let text = format!("SELECT v FROM levels.t{table} WHERE pk = {key}");
    let Some(outcome) = select(client, world, &text, &options).await? else { return Ok(()) };
    let value = outcome.rows.first().and_then(|row| cell_number(row.first()?));
    let mut world = world.borrow_mut();
    world.reads_checked += 1;
    Ok(world.levels[table].check(key, value, (started, runtime::now().0))?)
}

/// Reads and checks every register.
pub(crate) async fn check_all(client: &mut Client, world: &SharedWorld) -> Result<(), StepError> {
    let count = world.borrow().levels.len();
    for table in 0..count {
        for key in 0..REGISTERS as i64 {
            read(client, world, table, key).await?;
        }
    }
    Ok(())
}
