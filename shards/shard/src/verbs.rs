//! What nodes ask each other: the numbers of verbs on the wire, which never change their meaning.
//!
//! | numbers | family |
//! |---|---|
//! | 0x01 to 0x0f | gossip and checks of liveness |
//! | 0x10 to 0x1f | the metadata log |
//! | 0x20 to 0x3f | control: joining, waiting for epochs, schema, snapshots of the cluster |
//! | 0x40 to 0x7f | data |
//!
//! The bodies of gossip and of the metadata log are made elsewhere; those of data are described in `peer`.

macro_rules! verbs {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// What one node asks of another.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Verb {
            $($(#[$doc])* $name = $number,)*
        }

        impl Verb {
            /// All verbs by their numbers.
            pub const ALL: &[Verb] = &[$(Verb::$name),*];

            /// The verb with a number.
            pub fn of(number: u8) -> Option<Verb> {
                match number {
                    $($number => Some(Verb::$name),)*
                    _ => None,
                }
            }

            /// Its name, Cassandra's where that has such a verb.
            pub fn name(self) -> &'static str {
                match self {
                    $(Verb::$name => $text,)*
                }
            }
        }
    };
}

verbs! {
    /// The first message of a round of gossip.
    GossipSyn = 0x01, "GOSSIP_DIGEST_SYN";
    /// The second message of a round of gossip.
    GossipAck = 0x02, "GOSSIP_DIGEST_ACK";
    /// The third message of a round of gossip.
    GossipAck2 = 0x03, "GOSSIP_DIGEST_ACK2";
    /// The sender stops.
    GossipShutdown = 0x04, "GOSSIP_SHUTDOWN";
    /// Asks whether the node is there.
    Echo = 0x05, "ECHO_REQ";
    /// It is.
    EchoReply = 0x06, "ECHO_RSP";
    /// A message of the group that replicates the metadata log.
    MetadataLog = 0x10, "METADATA_LOG_REQ";
    /// Which cluster does the node belong to?
    ClusterState = 0x20, "CLUSTER_STATE_REQ";
    /// The sender wants to join the cluster.
    Join = 0x21, "JOIN_REQ";
    /// Answered once the node has applied an entry of the metadata log.
    AwaitEpoch = 0x22, "EPOCH_WAIT_REQ";
    /// Answered once no request that was planned before an epoch is under way, or once such requests are refused.
    EndOlder = 0x23, "EPOCH_END_REQ";
    /// Does the node take another one for alive?
    IsLive = 0x24, "NODE_LIVE_REQ";
    /// Take a snapshot at a point of the metadata log.
    ClusterSnapshot = 0x25, "SNAPSHOT_REQ";
    /// Fetch from the sender what the node should have of a table.
    FetchTable = 0x26, "FETCH_TABLE_REQ";
    /// How large are the tablets on the node?
    TabletFigures = 0x27, "TABLET_FIGURES_REQ";
    /// Remove what the node has of ranges that it lost.
    RemoveStale = 0x28, "REMOVE_STALE_REQ";
    /// How large and how busy are the sub-partitions of keys that grow by themselves?
    KeyFigures = 0x29, "KEY_FIGURES_REQ";
    /// Apply a mutation.
    Mutation = 0x40, "MUTATION_REQ";
    /// Apply a mutation of a counter table, which has amounts in the place of counters, as their leader.
    CounterMutation = 0x41, "COUNTER_MUTATION_REQ";
    /// Return the rows of a partition, or of a range those that one core has.
    Read = 0x42, "READ_REQ";
    /// Return the fragments of a partition.
    ReadFragments = 0x43, "READ_FRAGMENTS_REQ";
    /// Promise to accept nothing below a ballot.
    PaxosPrepare = 0x44, "PAXOS2_PREPARE_REQ";
    /// Accept and commit a proposal, as its only acceptor.
    PaxosSettle = 0x45, "PAXOS_SETTLE_REQ";
    /// Truncate a table.
    Truncate = 0x46, "TRUNCATE_REQ";
    /// Accept a proposal.
    PaxosPropose = 0x47, "PAXOS2_PROPOSE_REQ";
    /// Write what was decided.
    PaxosCommit = 0x48, "PAXOS_COMMIT_REQ";
    /// Apply a mutation that the node has missed, or keep it for the node that has.
    Hint = 0x49, "HINT_REQ";
    /// Keep a logged batch until its mutations are written.
    BatchStore = 0x4a, "BATCH_STORE_REQ";
    /// Forget a logged batch, whose mutations are written. Nobody waits for the answer.
    BatchRemove = 0x4b, "BATCH_REMOVE_REQ";
    /// Apply a mutation, and pass it on to other nodes.
    MutationRelay = 0x4c, "MUTATION_RELAY_REQ";
    /// Apply a mutation that another node than its coordinator has sent. Only the coordinator waits for the answer.
    MutationRelayed = 0x4d, "MUTATION_RELAYED_REQ";
    /// What has become of such a mutation. It is not answered.
    MutationRelayedAnswer = 0x4e, "MUTATION_RELAYED_RSP";
    /// Promise to accept nothing below a ballot, and return the fragments of the partition.
    PaxosPrepareRead = 0x4f, "PAXOS2_PREPARE_READ_REQ";
    /// Return the digest of the rows of a partition, and the rows as well if asked for.
    ReadDigest = 0x50, "READ_DIGEST_REQ";
    /// Apply a mutation of what other replicas have and this one lacks, as it is stored.
    ReadRepair = 0x51, "READ_REPAIR_REQ";
    /// Forget what was read of roles, because they have changed.
    ForgetRoles = 0x52, "FORGET_ROLES_REQ";
    /// Begin a session of streaming.
    StreamBegin = 0x60, "STREAM_BEGIN_REQ";
    /// Return what a session of streaming can send.
    StreamOffers = 0x61, "STREAM_OFFERS_REQ";
    /// Return a piece of a file of a session of streaming.
    StreamChunk = 0x62, "STREAM_CHUNK_REQ";
    /// Let go of a file of a session of streaming, or of all of them.
    StreamDone = 0x63, "STREAM_DONE_REQ";
    /// Return how much there is to be streamed.
    StreamMeasure = 0x64, "STREAM_MEASURE_REQ";
    /// Return sums of hashes of what the node has of a segment.
    Validation = 0x68, "VALIDATION_REQ";
    /// Return the hashes of single partitions of a segment.
    ValidationPartitions = 0x69, "VALIDATION_PARTITIONS_REQ";
    /// Do what another verb asks, of one set of SSTables alone.
    RepairOfSet = 0x6a, "REPAIR_OF_SET_REQ";
    /// Add rows to what is set apart for an incremental repair.
    RepairAdd = 0x6b, "REPAIR_ADD_REQ";
    /// Serve a core of the sender from a bucket of units that this node keeps.
    LeaseUnits = 0x70, "LEASE_UNITS_REQ";
    /// Take part in a session of incremental repair.
    RepairSession = 0x6c, "REPAIR_SESSION_REQ";
    /// Finish the changes that rounds of Paxos have left unfinished in a range.
    PaxosCleanup = 0x6d, "PAXOS2_CLEANUP_REQ";
    /// Return since when hints and logged batches wait on the node.
    WaitingSince = 0x6e, "WAITING_SINCE_REQ";
    /// Note that ranges of a table are repaired on all replicas.
    NoteRepaired = 0x6f, "NOTE_REPAIRED_REQ";
}

impl Verb {
    /// The name of such a request in traces: Cassandra has one verb for all reads of a partition, and one for all
    /// writes.
    pub(crate) fn traced_name(self) -> &'static str {
        match self {
            Verb::ReadDigest | Verb::ReadFragments => Verb::Read.name(),
            Verb::MutationRelay | Verb::MutationRelayed => Verb::Mutation.name(),
            Verb::PaxosPrepareRead => Verb::PaxosPrepare.name(),
            other => other.name(),
        }
    }

    /// The name of its answer in traces.
    pub(crate) fn traced_answer(self) -> String {
        self.traced_name().replace("_REQ", "_RSP")
    }

    /// Whether it belongs to gossip, whose messages are made and taken in the crate `server`.
    pub fn is_gossip(self) -> bool {
        (self as u8) < 0x10
    }

    /// Whether a request with this verb is about the metadata of the cluster.
    pub fn is_control(self) -> bool {
        matches!(self as u8, 0x10..0x40)
    }

    /// Whether a message with this verb may pass those that wait in the queues for data.
    pub fn is_urgent(self) -> bool {
        (self as u8) < 0x40
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_verbs_are_one_to_one() {
        for number in 0..=u8::MAX {
            let found: Vec<Verb> = Verb::ALL.iter().copied().filter(|verb| *verb as u8 == number).collect();
            assert_eq!(Verb::of(number), found.first().copied(), "{number:#x}");
            assert!(found.len() <= 1, "{number:#x}");
        }
        let mut names: Vec<&str> = Verb::ALL.iter().map(|verb| verb.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Verb::ALL.len());
    }
}
