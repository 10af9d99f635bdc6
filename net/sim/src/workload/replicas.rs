//! Asking each replica of a partition alone, to compare what they have.

use super::requests::Row;
use super::tables::{PARTITIONS, TestTable};
use super::world::SharedWorld;
use super::{batches, counters, levels, registers};
use crate::judges::convergence;
use model::Consistency;
use server::admin::{self, protocol::Request};
use server::client::{Client, QueryOptions};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// The partitions of replicated tables that clients may have written: keyspace, table and how many keys from 0 on. Of
/// tables whose deletions are soon forgotten there is none, because hints for them are soon forgotten too.
fn partitions(clients: u8, world: &SharedWorld) -> Vec<(String, String, i64)> {
    let of_clients = (0..2 + clients).map(|index| {
        let (keyspace, table) = TestTable { index }.keyspace_and_name();
        (keyspace, table, PARTITIONS)
    });
    let others = [("registers", registers::PARTITIONS), ("counted", counters::PARTITIONS)];
    let others = others.into_iter().chain([("batched", batches::PARTITIONS)]);
    let others = others.map(|(table, count)| ("s".to_owned(), table.to_owned(), count));
    let levels = (0..world.borrow().levels.len()).map(|table| {
        let name = format!("t{table}");
        ("levels".to_owned(), name, levels::REGISTERS as i64)
    });
    of_clients.chain(others).chain(levels).collect()
}

/// Asks every replica of every partition for its rows, alone, and checks that all replicas have the same. Fails with
/// what is wrong.
pub async fn check_equal(servers: Vec<SocketAddr>, clients: u8, world: SharedWorld) -> Result<(), String> {
    let mut connections: BTreeMap<IpAddr, Client> = BTreeMap::new();
    for server in &servers {
        let client = Client::connect(*server, None, 5).await.map_err(|error| format!("connect: {error}"))?;
        connections.insert(server.ip(), client);
    }
    for (keyspace, table, count) in partitions(clients, &world) {
        for pk in 0..count {
            let name = format!("{keyspace}.{table} {pk}");
            let mut shown: Vec<(IpAddr, Vec<Row>)> = Vec::new();
            for replica in endpoints(servers[0].ip(), [&keyspace, &table, &pk.to_string()]).await? {
                let client = connections.get_mut(&replica).ok_or_else(|| format!("{name}: {replica} is no node"))?;
                // A node that is a replica asks itself.
                let options = QueryOptions { consistency: Consistency::One, ..QueryOptions::default() };
                let text = format!("SELECT * FROM {keyspace}.{table} WHERE pk = {pk}");
                let outcome = client.query(&text, &options).await.map_err(|error| format!("{text}: {error:?}"))?;
                shown.push((replica, outcome.rows));
            }
            convergence::check_equal(&name, &shown).map_err(|violation| violation.0)?;
        }
    }
    Ok(())
}

/// The replicas of a partition: keyspace, table and key.
async fn endpoints(address: IpAddr, partition: [&str; 3]) -> Result<Vec<IpAddr>, String> {
    let arguments = partition.map(str::to_owned).to_vec();
    let request = Request { command: "getendpoints".into(), options: Vec::new(), arguments };
    let answer = admin::ask(address, &request).await.map_err(|error| format!("getendpoints: {error}"))?;
    let parsed = answer.out.lines().map(|line| line.parse().map_err(|error| format!("{line}: {error}")));
    parsed.collect()
}
