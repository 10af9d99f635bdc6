//! Arrows between the top modules of each crate: cycles may only shrink, and a crate without any keeps its layers.
//!
//! `cargo test -p runtime --test tidy module_cycles -- --nocapture` prints the members and arrows of every cycle.

use super::module_graph::{Graph, ROOT};
use super::workspace::{CRATES, Crate, root};
use std::fs;

fn graph(one: &Crate) -> Graph {
    let src = root().join(one.folder).join("src");
    let read = |file: &str| fs::read_to_string(src.join(file)).ok();
    let file = if src.join("lib.rs").is_file() { "lib.rs" } else { "main.rs" };
    let graph = Graph::of(file, &read);
    assert!(graph.unresolved.is_empty(), "{}: paths that lead nowhere: {:#?}", one.name, graph.unresolved);
    graph
}

#[test]
fn module_cycles_only_shrink() {
    let mut wrong = Vec::new();
    for one in CRATES {
        let graph = graph(one);
        let cycles = graph.cycles();
        let largest = cycles.first().map_or(0, |cycle| cycle.len());
        let all = cycles.iter().map(|cycle| cycle.len()).sum();
        println!("{}: {} modules, largest cycle {largest}, in cycles {all}", one.name, graph.modules.len());
        for cycle in &cycles {
            for member in cycle {
                println!("  {member}");
                for arrow in graph.arrows.iter().filter(|arrow| arrow.from == *member && cycle.contains(&arrow.to)) {
                    println!("    -> {}: {}", arrow.to, arrow.site);
                }
            }
        }
        for (what, measured, constant) in
            [("largest_cycle", largest, one.largest_cycle), ("modules_in_cycles", all, one.modules_in_cycles)]
        {
            let name = one.name;
            if measured > constant {
                wrong.push(format!("{name}: {what} is {measured}, at most {constant}: untie what was tied, see above"));
            } else if measured < constant {
                wrong.push(format!("{name}: {what} is {measured}: lower the number in workspace.rs from {constant}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn module_arrows_go_to_lower_layers() {
    let mut wrong = Vec::new();
    for one in CRATES.iter().filter(|one| !one.layers.is_empty()) {
        let graph = graph(one);
        let name = one.name;
        let layer = |module: &str| one.layers.iter().position(|layer| layer.contains(&module));
        for module in &graph.modules {
            let linked = graph.arrows.iter().any(|arrow| arrow.from == *module || arrow.to == *module);
            if layer(module).is_none() && (module != ROOT || linked) {
                wrong.push(format!("{name}: the module {module} is in no layer"));
            }
        }
        let listed: Vec<&str> = one.layers.iter().flat_map(|layer| layer.iter().copied()).collect();
        for (at, module) in listed.iter().enumerate() {
            if !graph.modules.contains(*module) {
                wrong.push(format!("{name}: a layer names {module}, which is no module"));
            }
            if listed[..at].contains(module) {
                wrong.push(format!("{name}: {module} is in two layers"));
            }
        }
        for arrow in &graph.arrows {
            if let (Some(from), Some(to)) = (layer(&arrow.from), layer(&arrow.to))
                && to >= from
            {
                wrong.push(format!("{name}: {} may not refer to {}: {}", arrow.from, arrow.to, arrow.site));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
