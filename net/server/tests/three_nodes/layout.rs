//! Where the three nodes are, and which tokens they have: the same for both servers.

/// How many nodes a cluster has.
pub(crate) const NODES: usize = 3;

/// The tokens of the nodes, as `initial_token` has them.
const TOKENS: [&str; NODES] = [
    "-9000000000000000000,-4000000000000000000,1000000000000000000,6000000000000000000",
    "-7500000000000000000,-2500000000000000000,2500000000000000000,7500000000000000000",
    "-6000000000000000000,-1000000000000000000,4000000000000000000,8800000000000000000",
];

/// How the nodes are spread over data centres and racks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// All in `dc1`, in racks `r1` to `r3`.
    OneCentre,
    /// Nodes 1 and 2 in racks of `DC1`, node 3 in `DC2`.
    TwoCentres,
}

impl Layout {
    /// All layouts.
    pub(crate) const ALL: [Layout; 2] = [Layout::OneCentre, Layout::TwoCentres];

    /// The folder of its cases.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Layout::OneCentre => "one_centre",
            Layout::TwoCentres => "two_centres",
        }
    }

    /// The data centre and the rack of a node; nodes are counted from 1.
    pub(crate) fn place(self, node: usize) -> (&'static str, &'static str) {
        match (self, node) {
            (Layout::OneCentre, 1) => ("dc1", "r1"),
            (Layout::OneCentre, 2) => ("dc1", "r2"),
            (Layout::OneCentre, _) => ("dc1", "r3"),
            (Layout::TwoCentres, 1) => ("DC1", "r1"),
            (Layout::TwoCentres, 2) => ("DC1", "r2"),
            (Layout::TwoCentres, _) => ("DC2", "r1"),
        }
    }
}

/// The lines of `cassandra.yaml` that give a node its tokens.
pub(crate) fn tokens_yaml(node: usize) -> String {
    format!("num_tokens: 4\ninitial_token: \"{}\"\n", TOKENS[node - 1])
}
