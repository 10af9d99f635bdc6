//! Plans of the coordinator: which replicas a request asks, how many answers it waits for, and what its client is told.
//!
//! A plan is made from the replicas of a token ([`crate::placement`]), a consistency level and the nodes that are
//! alive, or else the request is Unavailable. It is a state machine without I/O: the caller asks the replicas that the
//! plan names and passes on what happens, an answer, a failure or the end of the request's time; the plan says what
//! comes next. All counts, data centres and texts of errors are decided here, and they are Cassandra's.
//!
//! | plan | for |
//! |---|---|
//! | [`WritePlan`] | a mutation of one partition, of any [`WriteType`]; a logged batch on its way into the batch log |
//! | [`PartitionReadPlan`] | a read of one partition |
//! | [`RangePiece`] | a read of a part of the ring: its pieces, each with the plan of a partition |
//! | [`Relay`] | the way of a mutation to the replicas of another data centre |
//! | [`RepairPlan`] | what the replicas of a read are sent that lack something that others have |
//! | [`CasPlan`] | the levels and errors of a conditional change, or of a read at SERIAL |
//! | [`TruncatePlan`] | TRUNCATE, which all nodes must do |
//!
//! Rules that hold for all of them:
//! 1. Only replicas that are alive are asked, and an answer counts once, however often it comes.
//! 2. A request fails as soon as its level is out of reach, not at the end of its time. If all failures are replicas
//!    that ran out of time, it is a timeout.
//! 3. If only one replica was asked, what that replica refused is passed on as it is.
//! 4. A write that any replica may have applied is never told as a definite failure.

mod batch_log;
mod cas;
mod count;
mod quorum;
mod range;
mod read;
mod relay;
mod repair;
mod tally;
mod truncate;
mod write;

pub use batch_log::BatchLogStrategy;
pub use cas::{CasPlan, CasProgress};
pub use quorum::{Quorum, Votes};
pub use range::RangePiece;
pub use read::{Asks, Form, NextRead, PartitionReadPlan, Turn};
pub use relay::{RELAYED_MAX, Relay};
pub use repair::RepairPlan;
pub use truncate::TruncatePlan;
pub use write::{WritePlan, WriteType, combined, postponed};

#[cfg(test)]
mod tests;
