//! Clusters in a simulated world: nodes that crash and come back, nodes that join and leave, networks that are cut, and
//! changes of the schema from all nodes at once.
//!
//! 1. A run starts one to nine nodes of one to four cores (`members`); all but the first look for their cluster through
//!    seeds.
//! 2. Clients create, alter and drop a few tables over and over, each through a node of its own (`schema_client`).
//!    Meanwhile faults come and go (`nemesis`), nodes join, leave, and are removed after they have lost their disks
//!    (`ring`).
//! 3. When the faults have ended, all nodes must serve one schema within a bound (`run`), and it must be one that
//!    explains every answer: a table's comment is a register that CREATE, ALTER and DROP change. All must say that the
//!    ring has the nodes that it should have, up and normal.
//! 4. All the time, nodes must believe the same at every epoch: their metadata and schema are compared entry by entry
//!    ([`runtime::fault::believe`]).
//!
//! `agreement` times CREATE TABLE from many clients at once, and with a node that has just died; `scale` tells how long
//! many nodes take.
//!
//! Replicated tables are read and written in runs of their own (`replicated`), and so are those of which one node is
//! slow (`slow_node`). Some of these runs have operations on the ring as well (`elastic`), damaged files (`damage`), or
//! repairs (`repairs`), or tables that are cut into tablets (`tablets`). `elastic_sweep` crashes each
//! node at every message of an operation.
//!
//! A run can have a bug planted ([`Planted`]), so that tests see that the judges find it.

mod agreement;
mod damage;
mod elastic;
mod elastic_sweep;
mod members;
mod nemesis;
mod nodetool;
mod planted;
mod repairs;
mod replicated;
mod replicated_report;
mod report;
mod ring;
mod run;
mod scale;
mod schema_client;
mod slow_node;
mod tablets;
mod verdict;

pub use agreement::{Agreement, run_agreement, run_with_a_dead_node};
pub use elastic_sweep::{ElasticSweep, ElasticSwept, SweptOperation, sweep_operation};
pub use planted::Planted;
pub use replicated::{run_decisions, run_elastic, run_replicated, run_replicated_planted, run_tablets};
pub use replicated_report::ReplicatedReport;
pub use report::ClusterReport;
pub use run::{run_cluster, run_crash_while_joining, run_leave_of_one_of_two, run_missed_change, run_planted};
pub use scale::{Scale, run_scale};
pub use slow_node::{SlowNodeReport, run_slow_node, run_slow_node_planted};
