//! The counts and the verdict of a run of a cluster.

use crate::seeds::SeedReport;

/// What happened in a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterReport {
    /// The seed.
    pub seed: u64,
    /// Nodes at the end.
    pub nodes: u64,
    /// Changes of the schema that were answered as made.
    pub changes: u64,
    /// Changes of which the client does not know whether they were made.
    pub unknown: u64,
    /// How often an answered change was looked for on another node at once.
    pub looked_for: u64,
    /// Crashes of nodes.
    pub crashes: u64,
    /// Starts with another number of cores than before.
    pub other_cores: u64,
    /// Pauses of nodes.
    pub pauses: u64,
    /// Jumps of wall clocks.
    pub clock_jumps: u64,
    /// Cuts of the network.
    pub cuts: u64,
    /// Times of a slow network, a lossy one, or slow disks.
    pub slow_times: u64,
    /// Disks that failed.
    pub disk_failures: u64,
    /// Nodes that joined after the first start.
    pub joins: u64,
    /// Nodes that left.
    pub leaves: u64,
    /// Nodes that lost their disks, were removed, and joined anew.
    pub removals: u64,
    /// From the end of the faults until all nodes served one schema, virtual milliseconds.
    pub agreed_in: u64,
    /// Simulator events.
    pub events: u64,
    /// Hash of everything that happened.
    pub trace_hash: u64,
    /// The first broken rule, if any.
    pub violation: Option<String>,
}

impl SeedReport for ClusterReport {
    fn violation(&self) -> Option<String> {
        self.violation.clone()
    }

    /// Adds the counts of another run; `agreed_in` becomes the longer one.
    fn add(&mut self, other: &ClusterReport) {
        for (sum, count) in [
            (&mut self.nodes, other.nodes),
            (&mut self.changes, other.changes),
            (&mut self.unknown, other.unknown),
            (&mut self.looked_for, other.looked_for),
            (&mut self.crashes, other.crashes),
            (&mut self.other_cores, other.other_cores),
            (&mut self.pauses, other.pauses),
            (&mut self.clock_jumps, other.clock_jumps),
            (&mut self.cuts, other.cuts),
            (&mut self.slow_times, other.slow_times),
            (&mut self.disk_failures, other.disk_failures),
            (&mut self.joins, other.joins),
            (&mut self.leaves, other.leaves),
            (&mut self.removals, other.removals),
            (&mut self.events, other.events),
        ] {
            *sum += count;
        }
        self.agreed_in = self.agreed_in.max(other.agreed_in);
    }
    fn totals(&self) -> String {
        let ClusterReport { nodes, changes, looked_for, unknown, crashes, other_cores, pauses, clock_jumps, .. } = self;
        let ClusterReport { cuts, slow_times, disk_failures, joins, leaves, removals, agreed_in, events, .. } = self;
        format!(
            "{nodes} nodes in all; {changes} changes of the schema made, {looked_for} looked for on another node, {unknown} \
             unknown; {joins} joins, {leaves} leaves, {removals} nodes replaced; {crashes} crashes, {other_cores} starts \
             with another number of cores, {pauses} pauses, {clock_jumps} jumps of clocks, {cuts} cuts, {slow_times} \
             times of slow or lossy networks or slow disks, {disk_failures} failing disks; {events} events; agreed at \
             most {agreed_in} ms after the last fault"
        )
    }
}
