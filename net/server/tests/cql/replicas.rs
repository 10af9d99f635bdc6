//! What a case file says of one node, said of three replicas at QUORUM.
//!
//! Left out are cases about the number of nodes: those that name a level, that choose another replication, or that
//! read what a node says of the others.

use crate::case::{Answers, Case, CaseFile};

const REPLICAS: usize = 3;
const LEVEL: &str = "QUORUM";
/// How a step names its level.
const OWN_LEVEL: &str = "consistency ";
/// Tables that tell of other nodes or of the replication of system keyspaces.
const ABOUT_NODES: [&str; 6] = [
    "FROM system.peers",
    "FROM system_views.gossip_info",
    "FROM system_views.internode_inbound",
    "FROM system_views.internode_outbound",
    "FROM system_schema.keyspaces",
    // A node that has joined has fetched its ranges.
    "FROM system_views.streaming",
];

/// The file without cases about the number of nodes.
pub(crate) fn comparable(mut file: CaseFile) -> CaseFile {
    file.cases.retain(|case| !is_about_nodes(case));
    file
}

fn is_about_nodes(case: &Case) -> bool {
    let other_factor = |text: &str| {
        let mut factors = text.split("'replication_factor':").skip(1).map(str::trim_start);
        text.starts_with("ALTER KEYSPACE") || factors.any(|factor| !factor.starts_with('1'))
    };
    case.steps.iter().any(|step| {
        step.directives.iter().any(|directive| directive.starts_with(OWN_LEVEL))
            || other_factor(&step.statement)
            || ABOUT_NODES.iter().any(|table| step.statement.contains(table))
    })
}

/// The file with keyspaces of three replicas instead of one, and requests at QUORUM.
pub(crate) fn replicated(file: &CaseFile) -> CaseFile {
    let mut file = file.clone();
    for step in file.cases.iter_mut().flat_map(|case| &mut case.steps) {
        for text in ["'replication_factor': ", "'replication_factor':"] {
            step.statement = step.statement.replace(&format!("{text}1"), &format!("{text}{REPLICAS}"));
        }
        step.directives.push(format!("{OWN_LEVEL}{LEVEL}"));
    }
    file
}

/// The answers as one node gives them: keyspaces show one replica.
pub(crate) fn as_of_one(mut answers: Answers) -> Answers {
    for line in answers.iter_mut().flatten().flatten() {
        for quote in ["'", "''"] {
            let shown = |factor: usize| format!("{quote}replication_factor{quote}: {quote}{factor}{quote}");
            *line = line.replace(&shown(REPLICAS), &shown(1));
        }
    }
    answers
}
