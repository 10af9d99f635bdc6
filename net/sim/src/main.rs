//! `just sim`: runs seeds and prints a line for each that breaks a rule, with the command that replays it.
#![allow(clippy::print_stdout, reason = "a command line tool")]

use clap::Parser;
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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (mut broken, mut answered, mut reads, mut rounds, mut events) = (0, 0, 0, 0, 0);
    for seed in arguments.first..arguments.first + arguments.count {
        let report = sim::run(seed);
        answered += report.answered;
        reads += report.reads_checked;
        rounds += report.rounds;
        events += report.events;
        if arguments.verbose {
            println!("{report:?}");
        }
        if let Some(violation) = &report.violation {
            broken += 1;
            println!("seed {seed} ({}): {violation}\n  replay: just sim-seed {seed}", report.configuration);
        }
    }
    println!(
        "{} seeds, {broken} broken; {rounds} restarts, {answered} statements, {reads} reads checked, {events} events",
        arguments.count
    );
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
