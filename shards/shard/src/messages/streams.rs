//! Streaming: what the core that leads it asks of the others.

use cluster::topology::Node;
use model::{Table, TokenRange};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

use crate::verbs::Verb;

/// What a core is asked to do.
#[derive(Debug)]
pub enum StreamVerb {
    /// Serve a request of another node for data that this core has.
    Serve {
        /// Its verb.
        verb: Verb,
        /// Its body after the head.
        body: Vec<u8>,
    },
    /// Receive what a core of another node has of a table.
    Receive(Box<Receive>),
    /// Return what is streamed and was streamed lately.
    Progress,
    /// Note that a plan that this node has carried out has ended, and why it failed, if it did.
    End {
        /// The plan.
        plan: Uuid,
        /// Why it failed.
        failure: Option<String>,
    },
    /// End what is received as part of a plan that nobody wants any more.
    Abandon {
        /// The plan.
        plan: Uuid,
    },
    /// Change a limit.
    Change(ThroughputChange),
}

/// The limits that can be changed while the node runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThroughputChange {
    /// Which.
    pub which: Throughput,
    /// Bytes per second of the whole node; 0: no limit.
    pub bytes_per_second: u64,
}

/// A limit of what a node sends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Throughput {
    /// Ranges of SSTables.
    Ranges,
    /// Ranges of SSTables to other data centres.
    RangesBetweenCenters,
    /// Whole SSTables.
    Whole,
    /// Whole SSTables to other data centres.
    WholeBetweenCenters,
}

impl Throughput {
    /// All of them, in the order of their numbers.
    pub const ALL: [Throughput; 4] =
        [Throughput::Ranges, Throughput::RangesBetweenCenters, Throughput::Whole, Throughput::WholeBetweenCenters];
}

/// What to receive.
#[derive(Clone, Debug)]
pub struct Receive {
    /// The plan.
    pub(crate) plan: Uuid,
    /// The number of its operation.
    pub(crate) operation: u8,
    /// The node that has the data.
    pub(crate) source: Node,
    /// Whether it is in another data centre.
    pub(crate) core: u16,
    /// The table.
    pub(crate) table: Arc<Table>,
    /// The ranges.
    pub(crate) ranges: Arc<[TokenRange]>,
    /// Where to put it.
    pub(crate) directory: PathBuf,
    /// How long to go on without any progress.
    pub(crate) patience: Duration,
}

/// What was received of one core of another node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// A directory for each SSTable.
    pub(crate) directories: Vec<PathBuf>,
    /// Files.
    pub(crate) files: u64,
    /// Bytes of the files.
    pub(crate) bytes: u64,
}

/// Why nothing was received.
#[derive(Clone, PartialEq, Debug)]
pub enum ReceiveError {
    /// The table was truncated meanwhile, on this node or the other one: what has come is void.
    Truncated,
    /// The table is gone, here as well.
    Dropped,
    /// The other node did not answer as it should, for as long as that is tolerated.
    Unreachable(String),
    /// This node failed.
    Failed(model::Failure),
}

/// The stream between this node and another one on behalf of one plan, as one core has seen it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamProgress {
    /// The plan.
    pub plan: Uuid,
    /// The number of its operation.
    pub operation: u8,
    /// The host id of the other node.
    pub peer: Uuid,
    /// Whether this node receives.
    pub is_incoming: bool,
    /// When it began, milliseconds since 1970.
    pub began_at: i64,
    /// When it last changed, milliseconds since 1970.
    pub changed_at: i64,
    /// Files that are done.
    pub files_done: u64,
    /// Files in all, as far as is known.
    pub files: u64,
    /// Bytes that are done.
    pub bytes_done: u64,
    /// Bytes in all, as far as is known.
    pub bytes: u64,
    /// Whether everything is done.
    pub is_done: bool,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// Files under way: name, bytes that are done, bytes in all.
    pub current: Vec<(String, u64, u64)>,
}

impl StreamProgress {
    /// Bytes per second since it began.
    pub fn rate(&self, now_millis: i64) -> u64 {
        let millis = u64::try_from(now_millis.saturating_sub(self.began_at)).unwrap_or(0);
        (u128::from(self.bytes_done) * 1000).checked_div(millis.into()).map_or(0, |rate| rate as u64)
    }

    /// How long the rest takes if it goes on as fast as since it began; `None` before anything has come.
    pub fn time_left(&self, now_millis: i64) -> Option<Duration> {
        let left = self.bytes.saturating_sub(self.bytes_done);
        left.saturating_mul(1000).checked_div(self.rate(now_millis)).map(Duration::from_millis)
    }

    /// Whether both are about the same stream.
    pub(crate) fn is_same(&self, other: &StreamProgress) -> bool {
        (self.plan, self.peer, self.is_incoming) == (other.plan, other.peer, other.is_incoming)
    }

    /// Adds what another core has seen of the same stream.
    pub(crate) fn add(&mut self, other: StreamProgress) {
        self.began_at = self.began_at.min(other.began_at);
        self.changed_at = self.changed_at.max(other.changed_at);
        self.files_done += other.files_done;
        self.files += other.files;
        self.bytes_done += other.bytes_done;
        self.bytes += other.bytes;
        self.is_done &= other.is_done;
        self.failure = self.failure.take().or(other.failure);
        self.current.extend(other.current);
    }
}

/// The answer of a core.
#[derive(Debug)]
pub enum StreamAnswer {
    /// Done.
    Done,
    /// The answer to another node; `None` if its request does not decode.
    Served(Option<Vec<u8>>),
    /// The answer to [`StreamVerb::Receive`].
    Received(Result<Received, ReceiveError>),
    /// The answer to [`StreamVerb::Progress`].
    Progress(Vec<StreamProgress>),
}
