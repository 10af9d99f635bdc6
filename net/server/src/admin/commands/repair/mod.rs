//! Repairs that operators ask for: their commands, the ranges and nodes of each, what is told of them, and their
//! history.
//!
//! 1. A request becomes [`options::RepairOptions`], checked as Cassandra checks them.
//! 2. The ranges are grouped by the nodes that have them ([`plan`]); each group is a session, and each table of it a
//!    job.
//! 3. A command runs in the background and notes its lines (`repair_commands`), which nodetool asks for until it has
//!    ended (`command`). What it has done is written to the tables of `system_distributed`.
//!
//! The data is compared and made equal by the crate `shard`, which also keeps the states and writes the history.

mod command;
mod options;
mod plan;
mod sessions;

pub(crate) use command::{OwnRepair, own_ranges, repair_own};
pub(super) use command::{follow, repair};
pub(super) use sessions::administer;
