//! Tablets of a run with replicated tables: an operator splits, merges and moves them by hand, and has nodes emptied,
//! while clients send requests, faults strike and the leader balances. Whatever was begun ends once nothing is broken
//! (P12).

use super::members::START_MAX;
use super::nodetool::{command, run};
use super::replicated::ReplicatedRun;
use server::client::{Client, QueryOptions};
use std::net::IpAddr;
use std::time::Duration;

/// The keyspace and the tables whose tablets are changed.
const KEYSPACE: &str = "s";
const TABLES: [&str; 3] = ["registers", "counted", "batched"];
/// Most changes of a round.
const CHANGES_MAX: u64 = 4;
/// Longest time until no tablet moves any more when nothing is broken, virtual: a few rounds of the leader that
/// balances.
const MOVING_MAX: Duration = Duration::from_secs(120);
/// Pause between two looks whether tablets move.
const PAUSE: Duration = Duration::from_secs(1);

impl ReplicatedRun {
    /// Changes a few tablets. What does not fit, because another operation is under way or two tablets are on different
    /// nodes, is refused.
    pub(super) fn change_tablets(&mut self) -> Result<(), String> {
        for _ in 0..=self.cluster.rng.below(CHANGES_MAX) {
            let rng = &mut self.cluster.rng;
            let count = self.cluster.members.len() as u64;
            let [asked, from, to] = [(); 3].map(|()| self.cluster.members[rng.below(count) as usize].address());
            let (table, token) = (TABLES[rng.below(TABLES.len() as u64) as usize], rng.next_u64() as i64);
            let token = token.to_string();
            let (from, to) = (from.to_string(), to.to_string());
            let (name, arguments) = match rng.below(6) {
                5 => {
                    // Not waited for, and not always ended: what began must end while nodes are emptied too.
                    self.empty_node(asked)?;
                    continue;
                }
                0 => ("splittablet", vec![KEYSPACE, table, &token]),
                1 => ("mergetablets", vec![KEYSPACE, table, &token]),
                _ => ("movetablet", vec![KEYSPACE, table, &token, &from, &to]),
            };
            let request = command(name, &[], &arguments);
            let now = self.cluster.sim.now().0 / 1_000_000;
            self.report.struck.push(format!("{now}: {name}({asked}, {table}, {token}, {from}, {to})"));
            let done = self.cluster.outside(START_MAX, move || run(asked, request.clone()))?;
            self.report.tablet_changes += u64::from(done.is_some());
        }
        Ok(())
    }

    /// Has a node emptied of tablets, or no longer.
    fn empty_node(&mut self, asked: IpAddr) -> Result<(), String> {
        let mode = if self.cluster.rng.below(2) == 0 { "--begin" } else { "--end" };
        let request = command("emptynode", &[mode], &[]);
        let now = self.cluster.sim.now().0 / 1_000_000;
        self.report.struck.push(format!("{now}: emptynode {mode} ({asked})"));
        let done = self.cluster.outside(START_MAX, move || run(asked, request.clone()))?;
        self.report.tablet_changes += u64::from(done.is_some());
        Ok(())
    }

    /// Waits until no tablet moves.
    pub(super) fn finish_moving(&mut self) -> Result<(), String> {
        let server = self.cluster.servers()[0];
        let ended = self.cluster.outside(MOVING_MAX + START_MAX, move || async move {
            let mut client = Client::connect(server, None, 5).await.map_err(|error| format!("connect: {error}"))?;
            let deadline = runtime::now().after(MOVING_MAX);
            let text = "SELECT table_name, end_token, goal FROM system_views.tablets";
            loop {
                let outcome = client.query(text, &QueryOptions::default()).await;
                let rows = outcome.map_err(|error| format!("{text}: {error:?}"))?.rows;
                let moving = rows.iter().filter(|row| row[2].is_some()).count();
                if moving == 0 {
                    return Ok(rows.len() as u64);
                }
                if runtime::now() >= deadline {
                    return Err(format!("{moving} of {} tablets still move", rows.len()));
                }
                runtime::sleep(PAUSE).await;
            }
        });
        self.report.tablets = self.report.tablets.max(ended??);
        Ok(())
    }
}
