//! A client of logged batches, each of which adds its number to several partitions, and the reads of these partitions.

use super::requests::{StepError, cell_number, check_answer, fate_of, select};
use super::session;
use super::world::SharedWorld;
use runtime::rng;
use server::client::{CallError, Client, QueryOptions};
use std::collections::BTreeSet;
use std::net::SocketAddr;

const TABLE: &str = "s.batched";
/// How many partitions the table has.
pub(crate) const PARTITIONS: i64 = 6;
/// Least and most partitions of a batch.
const BATCH: (u64, u64) = (2, 4);
/// Longest pause between two steps.
const PAUSE_MICROS_MAX: u64 = 40_000;
/// Steps on one connection, on average: batches are to have many coordinators.
const STEPS: u64 = 20;

/// Creates the table if it is missing.
pub(crate) async fn create(client: &mut Client) -> Result<(), CallError> {
    let text = format!("CREATE TABLE IF NOT EXISTS {TABLE} (pk bigint, number bigint, PRIMARY KEY (pk, number))");
    client.query(&text, &QueryOptions::default()).await.map(drop)
}

/// Writes batches and reads partitions until the world stops or a rule is broken.
pub async fn client(servers: Vec<SocketAddr>, world: SharedWorld) {
    session::run_briefly(&servers, &world, (STEPS, PAUSE_MICROS_MAX), async |client| step(client, &world).await).await;
}

async fn step(client: &mut Client, world: &SharedWorld) -> Result<(), StepError> {
    if rng::below(8) == 0 {
        return read(client, world, rng::below(PARTITIONS as u64) as i64).await;
    }
    let wanted = (BATCH.0 + rng::below(BATCH.1 - BATCH.0 + 1)) as usize;
    let mut partitions = BTreeSet::new();
    while partitions.len() < wanted {
        partitions.insert(rng::below(PARTITIONS as u64) as i64);
    }
    let number = world.borrow_mut().batches.begin(partitions.clone());
    let insert = |pk: &i64| format!("INSERT INTO {TABLE} (pk, number) VALUES ({pk}, {number});");
    let inserts: Vec<String> = partitions.iter().map(insert).collect();
    let kind = if world.borrow().batches_are_logged { "BATCH" } else { "UNLOGGED BATCH" };
    let text = format!("BEGIN {kind} {} APPLY BATCH", inserts.join(" "));
    let options = world.borrow().options();
    let result = client.query(&text, &options).await;
    {
        let mut world = world.borrow_mut();
        world.answered += 1;
        world.batches.finish(number, fate_of(&result), runtime::now().0)?;
    }
    check_answer(&text, result)
}

/// Reads a partition and checks which batches it shows.
async fn read(client: &mut Client, world: &SharedWorld, pk: i64) -> Result<(), StepError> {
    let started = runtime::now().0;
    let options = world.borrow().options();
    let text = format!("SELECT number FROM {TABLE} WHERE pk = {pk}");
    let Some(outcome) = select(client, world, &text, &options).await? else { return Ok(()) };
    let shown: BTreeSet<i64> = outcome.rows.iter().filter_map(|row| cell_number(row.first()?)).collect();
    let mut world = world.borrow_mut();
    world.reads_checked += 1;
    Ok(world.batches.check_read(pk, &shown, (started, runtime::now().0))?)
}

/// Reads and checks every partition, and that no batch is there in part, when nothing is under way any more.
pub(crate) async fn check_all(client: &mut Client, world: &SharedWorld) -> Result<(), StepError> {
    for pk in 0..PARTITIONS {
        read(client, world, pk).await?;
    }
    Ok(world.borrow().batches.check_whole()?)
}
