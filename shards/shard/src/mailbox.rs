//! Calls between cores: requests out, replies back to the waiting task.

use crate::verbs::{Reply, Request};

/// What travels through the mesh.
#[derive(Debug)]
pub enum Message {
    /// A call; the reply carries the same id.
    Request {
        /// The caller's slot.
        id: u64,
        /// What is asked.
        request: Request,
    },
    /// An answer.
    Reply {
        /// The caller's slot.
        id: u64,
        /// The answer.
        reply: Reply,
    },
}

/// One shard's end of the calls between cores.
pub(crate) struct Mailbox {}
