//! The table of crates, and the reading of sources and manifests.

use std::fs;
use std::path::{Path, PathBuf};

/// What a crate of the workspace may depend on, and how far its modules are untied.
pub(crate) struct Crate {
    pub(crate) name: &'static str,
    pub(crate) folder: &'static str,
    /// Workspace crates that `[dependencies]` and `[build-dependencies]` may name.
    pub(crate) dependencies: &'static [&'static str],
    /// Workspace crates that `[dev-dependencies]` may name besides those.
    pub(crate) dev_dependencies: &'static [&'static str],
    /// Modules in the largest import cycle among the crate's top modules: lower it when a change unties some.
    pub(crate) largest_cycle: usize,
    /// Modules in any such cycle.
    pub(crate) modules_in_cycles: usize,
    /// The crate's top modules in layers, the lowest first; empty while the crate is not untied. A module may refer to
    /// modules of lower layers only, not to its neighbours in the same layer. Items of the crate root are the module
    /// `lib`.
    pub(crate) layers: &'static [&'static [&'static str]],
}

pub(crate) const CRATES: &[Crate] = &[
    Crate {
        name: "runtime",
        folder: "runtime",
        dependencies: &[],
        dev_dependencies: &[],
        largest_cycle: 6,
        modules_in_cycles: 6,
        layers: &[],
    },
    Crate {
        name: "model",
        folder: "storage/model",
        dependencies: &[],
        dev_dependencies: &[],
        largest_cycle: 0,
        modules_in_cycles: 0,
        layers: &[],
    },
    Crate {
        name: "sstable",
        folder: "storage/sstable",
        dependencies: &["model", "runtime"],
        dev_dependencies: &[],
        largest_cycle: 0,
        modules_in_cycles: 0,
        layers: &[
            &["version", "bound_kind"],
            &["descriptor"],
            &["error"],
            &["input", "toc"],
            &["block", "compression", "filter", "statistics"],
            &["sidecar", "row_codec", "estimates"],
            &["output"],
            &["trie"],
            &["index"],
            &["reader", "key_bounds"],
            &["walker", "writer"],
            &["lib"],
        ],
    },
    Crate {
        name: "engine",
        folder: "storage/engine",
        dependencies: &["sstable", "model", "runtime"],
        dev_dependencies: &[],
        largest_cycle: 0,
        modules_in_cycles: 0,
        layers: &[
            &["data_directories", "error", "guards", "hints", "memtable"],
            &["faults", "index", "options", "partition_locks"],
            &["commitlog", "memory"],
            &["sstables"],
            &["tables"],
            &["compaction", "read", "recovery", "write"],
            &["flush"],
            &["indexing"],
            &["operations"],
            &["store"],
            &["batch_log"],
        ],
    },
    Crate {
        name: "cql",
        folder: "shards/cql",
        dependencies: &["model"],
        dev_dependencies: &[],
        largest_cycle: 3,
        modules_in_cycles: 3,
        layers: &[],
    },
    Crate {
        name: "cluster",
        folder: "shards/cluster",
        dependencies: &["model"],
        dev_dependencies: &[],
        largest_cycle: 0,
        modules_in_cycles: 0,
        layers: &[
            &["sub_partitions", "tablets"],
            &["gossip", "key_growth", "repair", "replication", "snitch", "speculation", "topology"],
            &["consistency", "metadata"],
            &["placement"],
            &["plan", "allocation", "units"],
        ],
    },
    Crate {
        name: "consensus",
        folder: "shards/consensus",
        dependencies: &["runtime"],
        dev_dependencies: &[],
        largest_cycle: 0,
        modules_in_cycles: 0,
        layers: &[
            &["bytes", "config", "executor", "limits", "ports", "status", "voters"],
            &["erased", "error", "failure", "testing"],
            &["types"],
            &["records"],
            &["log", "message", "snapshot_parts"],
            &["machine", "network"],
            &["member"],
            &["recovery"],
            &["group"],
            &["lib"],
        ],
    },
    Crate {
        name: "wire",
        folder: "net/wire",
        dependencies: &["model"],
        dev_dependencies: &[],
        largest_cycle: 0,
        modules_in_cycles: 0,
        layers: &[],
    },
    Crate {
        name: "tls",
        folder: "net/tls",
        dependencies: &["runtime"],
        dev_dependencies: &[],
        largest_cycle: 0,
        modules_in_cycles: 0,
        layers: &[
            &["error", "clock", "handshakes"],
            &["cipher_suites", "trust"],
            &["options"],
            &["credentials"],
            &["context"],
            &["session"],
            &["stream"],
            &["lib"],
        ],
    },
    Crate {
        name: "internode",
        folder: "net/internode",
        dependencies: &["tls", "runtime"],
        dev_dependencies: &[],
        largest_cycle: 0,
        modules_in_cycles: 0,
        layers: &[
            &["identity", "lane", "metrics", "options", "peer_clock"],
            &["capacity", "error", "frame", "greeting", "strangers"],
            &["calls", "endpoint", "replier"],
            &["handler"],
            &["core_state"],
            &["dialing", "inbound"],
            &["outbound"],
            &["links"],
            &["lib"],
        ],
    },
    Crate {
        name: "shard",
        folder: "shards/shard",
        dependencies: &["engine", "cql", "cluster", "consensus", "model", "runtime"],
        dev_dependencies: &[],
        largest_cycle: 0,
        modules_in_cycles: 0,
        layers: &[
            &["verbs"],
            &["guards", "paxos", "ports", "query_trace", "roles", "rows", "statements"],
            &["config", "metrics", "request"],
            &["schema"],
            &["describe", "messages", "start_error"],
            &["mailbox", "peer"],
            &["shard_state"],
            &["replica"],
            &["coordinator", "planning"],
            &["operations", "repair"],
            &["stream"],
            &["definitions", "virtual_tables"],
            &["execute", "metadata"],
            &["dispatch"],
            &["start"],
            &["lib"],
        ],
    },
    Crate {
        name: "server",
        folder: "net/server",
        dependencies: &["shard", "wire", "tls", "cluster", "internode", "runtime", "model"],
        dev_dependencies: &[],
        largest_cycle: 0,
        modules_in_cycles: 0,
        layers: &[],
    },
    Crate {
        name: "sim",
        folder: "net/sim",
        dependencies: &["server", "wire", "runtime", "model"],
        dev_dependencies: &[],
        largest_cycle: 0,
        modules_in_cycles: 0,
        layers: &[&["judges", "forgetful", "seeds"], &["workload"], &["clusters", "run"], &["sweep", "lib"]],
    },
    Crate {
        name: "cli",
        folder: "net/cli",
        dependencies: &["server", "load", "sstable", "cluster", "wire", "runtime", "model"],
        dev_dependencies: &[],
        largest_cycle: 0,
        modules_in_cycles: 0,
        layers: &[],
    },
    Crate {
        name: "micro",
        folder: "bench/micro",
        dependencies: &["server", "runtime", "model"],
        dev_dependencies: &["shard", "engine", "cql", "wire", "cluster", "internode"],
        largest_cycle: 0,
        modules_in_cycles: 0,
        layers: &[],
    },
    Crate {
        name: "load",
        folder: "bench/load",
        dependencies: &["wire", "tls", "runtime", "model"],
        dev_dependencies: &[],
        largest_cycle: 0,
        modules_in_cycles: 0,
        layers: &[],
    },
];

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace root").to_path_buf()
}

/// Path below the workspace's root and text of every Rust file of the workspace, fuzz crates included.
pub(crate) fn sources() -> Vec<(String, String)> {
    fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).expect("readable") {
            let path = entry.expect("readable").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    walk(&path, out);
                }
            } else if name.ends_with(".rs") {
                out.push(path);
            }
        }
    }
    let root = root();
    let mut paths = Vec::new();
    for top in ["runtime", "storage", "shards", "net", "bench"] {
        walk(&root.join(top), &mut paths);
    }
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("readable");
            (path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned(), text)
        })
        .collect()
}

/// A crate's `Cargo.toml`.
pub(crate) fn manifest(folder: &str) -> String {
    fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("readable")
}

/// The names that a manifest's section lists.
pub(crate) fn entries<'a>(manifest: &'a str, section: &str) -> Vec<&'a str> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line == section;
        } else if inside && !line.starts_with('#') {
            found.push(line.split(['.', '=', ' ']).next().unwrap_or_default());
        }
    }
    found
}
