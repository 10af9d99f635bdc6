//! The checker: while no client works, it creates the missing parts of the schema and reads everything.

use super::requests::StepError;
use super::tables::{CREATE_TYPE, PARTITIONS, TestTable};
use super::world::{SharedWorld, Work};
use super::{batches, counters, deletions, indexes, levels, reads, registers};
use server::client::{CallError, Client, QueryOptions};

/// Creates those parts of the workload's schema that are missing; `replication` is what follows WITH where the keyspace
/// is created.
pub async fn create_schema(client: &mut Client, clients: u8, replication: &str) -> Result<(), CallError> {
    let options = QueryOptions::default();
    let keyspace = format!("CREATE KEYSPACE IF NOT EXISTS s WITH {replication}");
    client.query(&keyspace, &options).await?;
    client.query(CREATE_TYPE, &options).await?;
    client.query(registers::CREATE, &options).await?;
    counters::create(client).await?;
    for index in 0..2 + clients {
        client.query(&TestTable { index }.create(), &options).await?;
        if index < 2 {
            for index in indexes::create_all(TestTable { index }) {
                client.query(&index, &options).await?;
            }
        }
    }
    Ok(())
}

/// Reads every partition of every table once, and every index, register and counter. A broken rule is noted in the
/// world. Fails if the connection breaks.
pub async fn check_all(client: &mut Client, clients: u8, world: &SharedWorld) -> Result<(), String> {
    let tables = if world.borrow().work == Work::Registers { 0 } else { 2 + clients };
    for index in 0..tables {
        let table = TestTable { index };
        for pk in 0..PARTITIONS {
            keep_violation(world, reads::partition(client, world, table, pk, true).await)?;
        }
        keep_violation(world, indexes::check_all(client, world, table).await)?;
    }
    keep_violation(world, registers::check_all(client, world).await)?;
    keep_violation(world, counters::check_all(client, world).await)?;
    let groups = world.borrow().history.check_groups();
    keep_violation(world, groups.map_err(StepError::from))
}

/// Creates the missing parts of what is there in clusters alone.
pub async fn create_replicated(client: &mut Client, world: &SharedWorld) -> Result<(), CallError> {
    batches::create(client).await?;
    deletions::create(client).await?;
    levels::create(client, world).await
}

/// Reads every batch and every key that was deleted, and every register of the tables with levels of their own.
pub async fn check_replicated(client: &mut Client, world: &SharedWorld) -> Result<(), String> {
    keep_violation(world, batches::check_all(client, world).await)?;
    keep_violation(world, deletions::check_all(client, world).await)?;
    keep_violation(world, levels::check_all(client, world).await)
}

/// Reads every register at SERIAL, as [`check_all`] does.
pub async fn check_registers(client: &mut Client, world: &SharedWorld) -> Result<(), String> {
    keep_violation(world, registers::check_all(client, world).await)
}

fn keep_violation(world: &SharedWorld, result: Result<(), StepError>) -> Result<(), String> {
    match result {
        Ok(()) => Ok(()),
        Err(StepError::Disconnected) => Err("the connection broke".into()),
        Err(StepError::Violation(violation)) => {
            world.borrow_mut().violation.get_or_insert(violation.0);
            Ok(())
        }
    }
}
