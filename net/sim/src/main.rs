//! `just sim`: runs seeds and prints a line for each that breaks a rule, with the command that replays it.
#![allow(clippy::print_stdout, reason = "a command line tool")]

use clap::Parser;
use sim::clusters::{
    ClusterReport, ReplicatedReport, run_agreement, run_cluster, run_replicated, run_with_a_dead_node,
};
use sim::sweep::Sweep;
use std::process::ExitCode;

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
    /// Instead: this many CREATE TABLE statements by nine clients of three nodes at once, and half as many by one
    /// client with all nodes alive and with one dead.
    #[arg(long)]
    agreement: Option<u64>,
    /// Instead: of the run of seed FIRST, crashes at each of this many writes of the disk.
    #[arg(long)]
    sweep: Option<u64>,
    /// With --sweep: the first write to crash at.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// With --sweep: crashes at every so many-th write alone.
    #[arg(long, default_value_t = 1)]
    every: u64,
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
    if arguments.clusters {
        return clusters(&arguments);
    }
    if arguments.replicated {
        return replicated(&arguments);
    }
    if let Some(count) = arguments.agreement {
        return agreement(&arguments, count);
    }
    if let Some(last) = arguments.sweep {
        return sweep(&arguments, last);
    }
    let (mut broken, mut answered, mut reads, mut index_reads, mut decisions, mut commands, mut rounds, mut events) =
        (0, 0, 0, 0, 0, 0, 0, 0);
    for seed in arguments.first..arguments.first + arguments.count {
        let report = if arguments.registers { sim::run_registers(seed, false) } else { sim::run(seed) };
        answered += report.answered;
        reads += report.reads_checked;
        index_reads += report.index_reads;
        decisions += report.decisions;
        commands += report.commands;
        rounds += report.rounds;
        events += report.events;
        if arguments.verbose {
            println!("{report:?}");
        }
        if let Some(violation) = &report.violation {
            broken += 1;
            let replay = if arguments.registers { "sim --registers --count 1 --first" } else { "just sim-seed" };
            println!("seed {seed} ({}): {violation}\n  replay: {replay} {seed}", report.configuration);
        }
    }
    println!(
        "{} seeds, {broken} broken; {rounds} restarts, {answered} statements, {reads} reads checked, {index_reads} through \
         indexes, {decisions} decisions, {commands} commands, {events} events",
        arguments.count
    );
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

/// Runs seeds of clusters with replicated tables.
fn replicated(arguments: &Arguments) -> ExitCode {
    let mut all = ReplicatedReport::default();
    let mut broken = 0;
    for seed in arguments.first..arguments.first + arguments.count {
        let report = run_replicated(seed);
        if arguments.verbose {
            println!("{report:?}");
        }
        if let Some(violation) = &report.violation {
            broken += 1;
            println!("seed {seed}: {violation}");
            println!("  replay: sim --replicated --first {seed} --count 1 --verbose");
        }
        all.nodes += report.nodes;
        all.answered += report.answered;
        all.reads_checked += report.reads_checked;
        all.decisions += report.decisions;
        all.crashes += report.crashes;
        all.faults += report.faults;
        all.events += report.events;
    }
    let ReplicatedReport { nodes, answered, reads_checked, decisions, crashes, faults, events, .. } = all;
    println!(
        "{} clusters of {nodes} nodes in all, {broken} broken; {answered} statements, {reads_checked} reads checked, \
         {decisions} decisions, {crashes} crashes, {faults} other faults; {events} events",
        arguments.count
    );
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs seeds of clusters.
fn clusters(arguments: &Arguments) -> ExitCode {
    let mut all = ClusterReport::default();
    let mut broken = 0;
    for seed in arguments.first..arguments.first + arguments.count {
        let report = run_cluster(seed);
        if arguments.verbose {
            println!("{report:?}");
        }
        if let Some(violation) = &report.violation {
            broken += 1;
            println!("seed {seed}: {violation}");
            println!("  replay: sim --clusters --first {seed} --count 1 --verbose");
        }
        all.add(&report);
    }
    let ClusterReport { nodes, changes, looked_for, unknown, crashes, other_cores, pauses, clock_jumps, .. } = all;
    let ClusterReport { cuts, slow_times, disk_failures, joins, leaves, removals, agreed_in, events, .. } = all;
    println!(
        "{} clusters of {nodes} nodes in all, {broken} broken; {changes} changes of the schema made, {looked_for} looked \
         for on another node, {unknown} unknown; {joins} joins, {leaves} leaves, {removals} nodes replaced; {crashes} \
         crashes, {other_cores} starts with another number of cores, {pauses} pauses, {clock_jumps} jumps of clocks, \
         {cuts} cuts, {slow_times} times of slow or lossy networks or slow disks, {disk_failures} failing disks; \
         {events} events; agreed at most {agreed_in} ms after the last fault",
        arguments.count
    );
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
