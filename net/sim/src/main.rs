//! `just sim`: runs seeds and prints a line for each that breaks a rule, with the command that replays it.
#![allow(clippy::print_stdout, reason = "a command line tool")]

use clap::{Parser, ValueEnum};
use sim::clusters::{
    ElasticSweep, Planted, SweptOperation, run_agreement, run_cluster, run_decisions, run_elastic, run_planted,
    run_replicated, run_replicated_planted, run_scale, run_slow_node, run_slow_node_planted, run_tablets,
    run_with_a_dead_node, sweep_operation,
};
use sim::seeds::{SeedReport, run_seeds};
use sim::sweep::Sweep;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: runtime::allocator::Allocator = runtime::allocator::Allocator;

/// Runs whole nodes in the simulator.
#[derive(Parser)]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// Prints every seed's report.
    #[arg(long)]
    verbose: bool,
    /// Prints the node's log on standard error, filtered: `warn`, `engine=debug,info`.
    #[arg(long)]
    log: Option<String>,
    /// Conditional changes and SERIAL reads alone.
    #[arg(long)]
    registers: bool,
    /// Clusters of several nodes, and changes of the schema alone.
    #[arg(long)]
    clusters: bool,
    /// Clusters of several nodes, and replicated tables.
    #[arg(long)]
    replicated: bool,
    /// Clusters of several nodes, replicated tables, and operations on the ring.
    #[arg(long)]
    elastic: bool,
    /// Clusters of several nodes, tables that are cut into tablets, and operations on the ring and on tablets.
    #[arg(long)]
    tablets: bool,
    /// Clusters of several nodes, and conditional changes and SERIAL reads of replicated tables alone.
    #[arg(long)]
    decisions: bool,
    /// Clusters of which one node is slow for a while.
    #[arg(long)]
    slow_node: bool,
    /// Clusters that have this bug, which the judges are to find.
    #[arg(long, value_enum, conflicts_with_all = ["registers", "clusters", "replicated", "elastic", "tablets", "decisions", "slow_node"])]
    plant: Option<Planted>,
    /// Instead: this many CREATE TABLE statements by nine clients of three nodes at once, and half as many by one
    /// client with all nodes alive and with one dead.
    #[arg(long)]
    agreement: Option<u64>,
    /// Instead: this many nodes of one core each, which start, agree, lose a third, and heal.
    #[arg(long, value_parser = clap::value_parser!(u16).range(3..))]
    scale: Option<u16>,
    /// Instead: of the run of seed FIRST, crashes at each of this many writes of the disk.
    #[arg(long)]
    sweep: Option<u64>,
    /// Instead: of the runs of COUNT seeds from FIRST on, crashes of each node at each message of an operation on the
    /// ring, or of each of them if none is named.
    #[arg(long, value_enum, num_args = 0..=1)]
    elastic_sweep: Option<Option<SweptOperation>>,
    /// With --sweep and --elastic-sweep: the first write or message to crash at.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// With --sweep and --elastic-sweep: crashes at every so many-th write or message alone.
    #[arg(long, default_value_t = 1)]
    every: u64,
    /// With --elastic-sweep: crashes at so many messages at most.
    #[arg(long, default_value_t = u64::MAX)]
    crashes: u64,
    /// With --sweep: the disks that each crash leaves.
    #[arg(long, default_value_t = 4)]
    images: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(filter) = &arguments.log {
        let filter = tracing_subscriber::EnvFilter::new(filter);
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().init();
    }
    if let Some(count) = arguments.agreement {
        return agreement(&arguments, count);
    }
    if let Some(nodes) = arguments.scale {
        let ran = run_scale(arguments.first, nodes.into());
        match &ran {
            Ok(scale) => println!("{nodes} nodes: {scale:?}"),
            Err(broken) => println!("{nodes} nodes: {broken}"),
        }
        return if ran.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if let Some(operation) = arguments.elastic_sweep {
        return elastic_sweep(&arguments, operation);
    }
    if let Some(last) = arguments.sweep {
        return sweep(&arguments, last);
    }
    match &arguments {
        Arguments { plant: Some(planted), .. } => {
            let name = planted.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
            let kind = format!("--plant {name} ");
            match planted.is_replicated() {
                _ if planted.is_of_slow_node() => {
                    seeds(&arguments, &kind, |seed| run_slow_node_planted(seed, *planted))
                }
                true => seeds(&arguments, &kind, |seed| run_replicated_planted(seed, *planted)),
                false => seeds(&arguments, &kind, |seed| run_planted(seed, *planted)),
            }
        }
        Arguments { clusters: true, .. } => seeds(&arguments, "--clusters ", run_cluster),
        Arguments { replicated: true, .. } => seeds(&arguments, "--replicated ", run_replicated),
        Arguments { elastic: true, .. } => seeds(&arguments, "--elastic ", run_elastic),
        Arguments { tablets: true, .. } => seeds(&arguments, "--tablets ", run_tablets),
        Arguments { decisions: true, .. } => seeds(&arguments, "--decisions ", run_decisions),
        Arguments { slow_node: true, .. } => seeds(&arguments, "--slow-node ", run_slow_node),
        Arguments { registers: true, .. } => seeds(&arguments, "--registers ", |seed| sim::run_registers(seed, false)),
        _ => seeds(&arguments, "", sim::run),
    }
}

/// Runs the seeds; prints those that broke a rule, and the counts of all.
fn seeds<R: SeedReport>(arguments: &Arguments, kind: &str, run: impl Fn(u64) -> R) -> ExitCode {
    let Arguments { first, count, verbose, .. } = *arguments;
    let (all, broken) = run_seeds(first..first + count, run, |seed, report| {
        if verbose {
            println!("{report:?}");
        }
        if let Some(violation) = report.violation() {
            println!("seed {seed}: {violation}\n  replay: sim {kind}--first {seed} --count 1 --verbose");
        }
    });
    println!("{count} seeds, {broken} broken; {}", all.totals());
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn sweep(arguments: &Arguments, last: u64) -> ExitCode {
    let Arguments { first: seed, from: first, every, images, .. } = *arguments;
    let swept = sim::sweep::sweep(Sweep { seed, first, last, every, images });
    for (call, image, text) in &swept.broken {
        println!("seed {seed}, write {call}, image {image}: {text}");
    }
    println!(
        "{} crashes, {} broken; {} reads checked; before the last crash {:?}",
        swept.crashes,
        swept.broken.len(),
        swept.reads_checked,
        swept.commands
    );
    if swept.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Crashes nodes at messages of operations on the ring.
fn elastic_sweep(arguments: &Arguments, operation: Option<SweptOperation>) -> ExitCode {
    let Arguments { first, count, from, every, crashes, .. } = *arguments;
    let operations = operation.map_or_else(|| SweptOperation::value_variants().to_vec(), |operation| vec![operation]);
    let mut broken = 0;
    for seed in first..first + count {
        for operation in &operations {
            let plan =
                ElasticSweep { seed, operation: *operation, first: from, every, count: crashes, one_victim: false };
            let swept = sweep_operation(plan);
            for (message, node, text) in &swept.broken {
                println!("seed {seed}, {operation:?}, message {message}, node {node}: {text}");
            }
            println!(
                "seed {seed}, {operation:?}: {} messages; crashes {:?}, {} of them for good, {} broken; {} statements, \
                 {} reads checked",
                swept.messages,
                swept.crashes,
                swept.lost,
                swept.broken.len(),
                swept.answered,
                swept.reads_checked
            );
            broken += swept.broken.len();
        }
    }
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Creates tables from all nodes at once, and with a dead node.
fn agreement(arguments: &Arguments, count: u64) -> ExitCode {
    let ran = run_agreement(arguments.first, count);
    let ran = ran.and_then(|at_once| Ok((at_once, run_with_a_dead_node(arguments.first, count / 2)?)));
    match ran {
        Ok((at_once, [before, after])) => {
            println!("nine clients: {at_once:?}\none client: {before:?}\none client, one node dead: {after:?}");
            ExitCode::SUCCESS
        }
        Err(broken) => {
            println!("{broken}");
            ExitCode::FAILURE
        }
    }
}
