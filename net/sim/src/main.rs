//! `just sim`: runs seeds and prints a line for each that breaks a rule, with the command that replays it.
#![allow(clippy::print_stdout, reason = "a command line tool")]

use clap::Parser;
use sim::clusters::{ClusterReport, run_cluster};
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

/// Runs seeds of clusters.
fn clusters(arguments: &Arguments) -> ExitCode {
    let mut all = ClusterReport::default();
    let (mut broken, mut agreed_in_max) = (0, 0);
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
        all.nodes += report.nodes;
        all.changes += report.changes;
        all.unknown += report.unknown;
        all.looked_for += report.looked_for;
        all.crashes += report.crashes;
        all.cuts += report.cuts;
        all.joins += report.joins;
        all.events += report.events;
        agreed_in_max = agreed_in_max.max(report.agreed_in);
    }
    println!(
        "{} clusters of {} nodes in all, {broken} broken; {} changes of the schema made, {} looked for on another node, \
         {} unknown, {} crashes, {} cuts, {} joins, {} events; agreed at most {agreed_in_max} ms after the last fault",
        arguments.count,
        all.nodes,
        all.changes,
        all.looked_for,
        all.unknown,
        all.crashes,
        all.cuts,
        all.joins,
        all.events
    );
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
