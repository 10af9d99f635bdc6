//! The end of a run with replicated tables: what was missed is delivered, then the judges look at all of it.
//!
//! 1. If hints were held back, the deletions of one table are forgotten first: the hints must have been given up too.
//! 2. Hints and logged batches reach every replica. If no node has crashed and no disk has failed, no hint can have
//!    been lost with the memory of a coordinator, and the replicas are equal before any read could have made them so.
//!    In a run with repairs, everything is repaired then, and the replicas are equal.
//! 3. Everything is read at QUORUM through every node, then at ALL, which leaves the replicas of every run equal, then
//!    from one replica alone.

use super::members::START_MAX;
use super::nodetool::{command, run};
use super::planted::Planted;
use super::replicated::ReplicatedRun;
use crate::workload::{checker, deletions, replicas};
use model::Consistency;
use server::client::Client;
use std::net::SocketAddr;
use std::time::Duration;

/// After this time without faults, hints and logged batches have reached every replica, virtual.
const DELIVERY: Duration = Duration::from_secs(90);
/// Longest time of a check, virtual.
const CHECK_MAX: Duration = Duration::from_secs(300);
/// How far the wall clocks of two nodes may be apart, and time for hints that were kept late.
const SLACK: Duration = Duration::from_secs(10);
/// A step back of a wall clock, microseconds: the clock stands still for the rest of the run.
const STANDSTILL_MICROS: i64 = -3_600_000_000;

impl ReplicatedRun {
    /// Judges everything, after the clients have left.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        if self.holds_hints_back {
            if self.planted == Some(Planted::LateHints) {
                let at = self.cluster.rng.below(self.cluster.members.len() as u64) as usize;
                self.cluster.sim.step_wall_clock(self.cluster.members[at].id, STANDSTILL_MICROS);
            }
            self.cluster.sim.run_until(deletions::GC_GRACE + SLACK, || false);
            self.forget_deletions()?;
            self.command_all("resumehandoff", &[])?;
        }
        self.cluster.sim.run_until(DELIVERY, || false);
        if self.keeps_hints {
            self.check_equal("what was missed was delivered")?;
            self.report.converged += 1;
        }
        self.repair_all()?;
        for server in self.cluster.servers() {
            self.check(server, Consistency::Quorum)?;
        }
        let servers = self.cluster.servers();
        self.check(servers[0], Consistency::All)?;
        self.check_equal("everything was read at ALL")?;
        self.forget_deletions()?;
        for server in servers {
            self.check(server, Consistency::One)?;
        }
        Ok(())
    }

    /// Lets every node compact the table whose `gc_grace_seconds` are over.
    fn forget_deletions(&mut self) -> Result<(), String> {
        let (keyspace, table) = deletions::TABLE;
        self.command_all("flush", &[keyspace, table])?;
        self.command_all("compact", &[keyspace, table])
    }

    /// Gives every node an operator's command.
    pub(super) fn command_all(&mut self, name: &'static str, arguments: &[&'static str]) -> Result<(), String> {
        let (servers, arguments) = (self.cluster.servers(), arguments.to_vec());
        let done = self.cluster.outside(START_MAX, move || {
            let (servers, arguments) = (servers.clone(), arguments.clone());
            async move {
                for server in servers {
                    if run(server.ip(), command(name, &[], &arguments)).await.is_none() {
                        return Err(format!("{name} on {server} failed"));
                    }
                }
                Ok(())
            }
        });
        done?
    }

    /// Checks that the replicas of every partition are equal. `when` goes into the error.
    pub(super) fn check_equal(&mut self, when: &str) -> Result<(), String> {
        let (servers, world, clients) = (self.cluster.servers(), self.world.clone(), self.clients);
        let checked =
            self.cluster.outside(CHECK_MAX, move || replicas::check_equal(servers.clone(), clients, world.clone()));
        checked.and_then(|checked| checked).map_err(|error| format!("after {when}: {error}"))
    }

    /// Reads everything through a node.
    fn check(&mut self, server: SocketAddr, level: Consistency) -> Result<(), String> {
        let usual = std::mem::replace(&mut self.world.borrow_mut().replicas.level, level);
        let (world, clients) = (self.world.clone(), self.clients);
        let checked = self.through(server, move |mut client| {
            let world = world.clone();
            async move {
                checker::check_all(&mut client, clients, &world).await?;
                checker::check_replicated(&mut client, &world).await
            }
        });
        self.world.borrow_mut().replicas.level = usual;
        let checked = checked.and_then(|()| self.verdict());
        checked.map_err(|error| format!("a check through {server} at {}: {error}", level.name()))
    }

    /// Reads all registers at SERIAL.
    pub(super) fn check_registers(&mut self) -> Result<(), String> {
        let (server, world) = (self.cluster.servers()[0], self.world.clone());
        let checked = self.through(server, move |mut client| {
            let world = world.clone();
            async move { checker::check_registers(&mut client, &world).await }
        });
        let checked = checked.and_then(|()| self.verdict());
        checked.map_err(|error| format!("a check of the registers through {server}: {error}"))
    }

    /// Runs a task with a connection to a node.
    fn through<F: Future<Output = Result<(), String>> + 'static>(
        &mut self,
        server: SocketAddr,
        task: impl Fn(Client) -> F + 'static,
    ) -> Result<(), String> {
        let task = std::rc::Rc::new(task);
        self.cluster.outside(CHECK_MAX, move || {
            let task = task.clone();
            async move {
                let client = Client::connect(server, None, 5).await.map_err(|error| format!("connect: {error}"))?;
                task(client).await
            }
        })?
    }
}
