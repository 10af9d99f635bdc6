//! Bodies of the requests that nodes send each other, and of their answers, as bytes.
//!
//! | file | what it describes |
//! |---|---|
//! | `head` | what every request begins with |
//! | `answer` | what every answer begins with: a result, a failure, or why the request must be planned again |
//! | `control` | all of the requests for control that are not described elsewhere |
//! | `reads` | the request of a read |
//! | `rows` | the rows that a read returns |
//! | `digests` | the request of a digest, and the digest |
//! | `paxos` | proposals, promises and acceptances |
//! | `batches` | logged batches to be kept or forgotten |
//! | `counters` | changes of counters, and what their leader answers |
//! | `relays` | mutations that one node passes on to others |
//! | `leases` | units that are leased |
//! | `hints` | mutations that a node has missed |
//! | `streams` | sessions of streaming and the files that they send |
//! | `repairs` | hashes of what a node has |
//! | `repair_sessions` | sessions of incremental repair |
//! | `proofs` | what is repaired on all replicas |
//! | `unfinished` | changes that rounds of Paxos have left unfinished |
//!
//! A mutation is its own encoded form after the head, a fragment block its own encoded form in the answer.
//!
//! All integers of requests for data are little-endian. The first byte of a body is its version. Tables and columns are
//! named by their ids, which are the same on all nodes; tokens have the form of CQL's `token()`.
//!
//! Invariants: no bytes make a decoder panic or allocate more than a small multiple of their number; what was encoded
//! decodes to the same value on a node that knows the table.

pub(crate) mod answer;
pub(crate) mod batches;
mod bytes;
pub(crate) mod control;
pub(crate) mod counters;
pub(crate) mod digests;
pub(crate) mod head;
pub(crate) mod hints;
pub(crate) mod leases;
pub(crate) mod paxos;
pub(crate) mod proofs;
pub(crate) mod reads;
pub(crate) mod relays;
pub(crate) mod repair_sessions;
pub(crate) mod repairs;
pub(crate) mod rows;
pub(crate) mod streams;
pub(crate) mod unfinished;
