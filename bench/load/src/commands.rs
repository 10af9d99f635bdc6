//! The commands of `helenus bench`: parses the command line and runs the command.

use crate::arguments::{RunArguments, default_plan, duration};
use crate::outcome::Outcome;
use crate::plan::{Length, Pace, Plan};
use crate::report::{Files, Titled};
use crate::schedule::Arrivals;
use crate::search::{Level, Search, Step};
use crate::sessions::SessionArguments;
use crate::verdict::Verdict;
use crate::{compare, execute, report, stress};
use clap::{Parser, Subcommand};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A load generator for Helenus, Cassandra and other servers that speak CQL.
///
/// Besides the commands below it takes cassandra-stress's: write, read, mixed, counter_write, counter_read, as in
/// `write n=100000 -rate threads=8 -node 127.0.0.1`.
///
/// Exit codes: 0 the run is VALID, 1 a wrong option or no run, 10 CLIENT-BOUND, 11 LATE, 12 ERRORS.
#[derive(Parser, Debug)]
#[command(name = "helenus bench", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// One run and its report
    Run {
        #[command(flatten)]
        run: Box<RunArguments>,
        #[command(flatten)]
        files: Files,
    },
    /// A run for each of several rates or depths
    Sweep {
        /// Open loops of these operations per second
        #[arg(long, value_delimiter = ',', required_unless_present = "depths", conflicts_with_all = ["depths", "rate"])]
        rates: Vec<f64>,
        /// Closed loops of these requests under way on each connection
        #[arg(long, value_delimiter = ',', conflicts_with_all = ["rate", "depth"])]
        depths: Vec<usize>,
        #[command(flatten)]
        run: Box<RunArguments>,
        #[command(flatten)]
        files: Files,
    },
    /// The highest rate that meets a service level
    Findmax {
        /// Bounds on response times and errors: p99<10ms,p99.9<50ms,mean<2ms,max<1s,errors<0.1%
        #[arg(long, value_name = "BOUNDS", value_parser = Level::parse)]
        sla: Level,
        /// The lowest rate of interest
        #[arg(long, default_value_t = 100.0)]
        rate_min: f64,
        /// The highest rate of interest [default: 1.2 times what a closed loop reaches]
        #[arg(long)]
        rate_max: Option<f64>,
        /// How near the answer must be, as a share of the rate
        #[arg(long, default_value_t = 0.03)]
        precision: f64,
        /// Time of the closed loop that the search begins with
        #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
        probe: Duration,
        #[command(flatten)]
        run: Box<RunArguments>,
        #[command(flatten)]
        files: Files,
    },
    /// What connections cost the server: memory of idle ones, and sessions of one query per second
    Sessions {
        #[command(flatten)]
        sessions: Box<SessionArguments>,
    },
    /// Two reports against each other
    Compare {
        /// The report of A, as --json wrote it
        a: PathBuf,
        /// The report of B
        b: PathBuf,
    },
}

/// Exit code of wrong options and of runs that did not start.
const REFUSED: u8 = 1;
/// Largest report that `compare` reads.
const REPORT_BYTES_MAX: u64 = 256 << 20;

/// Runs the command line that follows the word `bench`. Returns the exit code: 0 for a valid run, 1 for a wrong option
/// or a run that did not start, and otherwise [`Verdict::exit_code`].
pub fn run(words: impl Iterator<Item = String>) -> u8 {
    let words: Vec<String> = words.collect();
    let is_stress = words.first().is_some_and(|word| stress::COMMANDS.contains(&word.as_str()));
    let done = if is_stress {
        stress::parse(&words, default_plan()).and_then(|stress| single(&shown(&words), &stress.plan, &stress.files))
    } else {
        match Arguments::try_parse_from(std::iter::once("helenus bench".to_string()).chain(words)) {
            Ok(arguments) => obey(arguments.command),
            Err(error) => {
                // This also prints help and version. If printing fails there is nowhere else to report it.
                let _ = error.print();
                return if error.use_stderr() { REFUSED } else { 0 };
            }
        }
    };
    done.unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "helenus bench: {error}");
        REFUSED
    })
}

fn obey(command: Command) -> Result<u8, String> {
    match command {
        Command::Run { run, files } => {
            let plan = run.plan()?;
            closed_has_no_arrivals(plan.pace == Pace::Closed, run.arrivals())?;
            single("helenus bench run", &plan, &files)
        }
        Command::Sweep { rates, depths, run, files } => {
            closed_has_no_arrivals(rates.is_empty(), run.arrivals())?;
            sweep(&rates, &depths, &run.plan()?, run.arrivals(), &files)
        }
        Command::Findmax { sla, rate_min, rate_max, precision, probe, run, files } => {
            if !(rate_min > 0.0 && rate_max.is_none_or(|rate_max| rate_max >= rate_min)) {
                return Err("--rate-min: above 0 and at most --rate-max".into());
            }
            if !(0.001..=1.0).contains(&precision) {
                return Err("--precision: a share from 0.001 to 1".into());
            }
            let plan = run.plan()?;
            if plan.pace != Pace::Closed {
                return Err("--rate: findmax chooses the rates".into());
            }
            findmax(&sla, (rate_min, rate_max, precision), (probe, run.arrivals()), plan, &files)
        }
        Command::Sessions { sessions } => {
            print(&crate::sessions::run(&sessions)?)?;
            Ok(0)
        }
        Command::Compare { a, b } => {
            let read = |path: &Path| {
                let text = runtime::machine::read_text(path, REPORT_BYTES_MAX).map_err(|error| error.to_string());
                text.and_then(|text| compare::read(&text)).map_err(|error| format!("{}: {error}", path.display()))
            };
            print(&compare::report(&read(&a)?, &read(&b)?))?;
            Ok(0)
        }
    }
}

fn single(title: &str, plan: &Plan, files: &Files) -> Result<u8, String> {
    let outcome = execute(plan)?;
    print(&report::text::report(&outcome))?;
    let code = outcome.verdict.exit_code();
    files.write(&[(files.titled(title), outcome)])?;
    Ok(code)
}

/// The command line as one line of text, with the password hidden.
fn shown(words: &[String]) -> String {
    let hide = |word: &String| if word.starts_with("password=") { "password=...".to_string() } else { word.clone() };
    words.iter().map(hide).collect::<Vec<_>>().join(" ")
}

/// Prefixes the titles of several runs with the title that the user has given, if any.
fn entitle(runs: &mut [Titled], files: &Files) {
    if let Some(title) = &files.title {
        runs.iter_mut().for_each(|(name, _)| *name = format!("{title}, {name}"));
    }
}

fn sweep(rates: &[f64], depths: &[usize], plan: &Plan, arrivals: Arrivals, files: &Files) -> Result<u8, String> {
    let mut runs: Vec<Titled> = Vec::new();
    let rates = rates.iter().map(|rate| (format!("rate {rate}"), paced(plan, *rate, arrivals)));
    let depths = depths.iter().map(|depth| {
        let plan = Plan { in_flight: plan.connections.saturating_mul(*depth), pace: Pace::Closed, ..plan.clone() };
        (format!("depth {depth}"), plan)
    });
    let steps: Vec<(String, Plan)> = rates.chain(depths).collect();
    steps.iter().try_for_each(|(title, plan)| plan.check().map_err(|error| format!("{title}: {error}")))?;
    print(&heading())?;
    for (title, plan) in steps {
        runs.push((title.clone(), execute(&if runs.is_empty() { plan } else { filled(plan) })?));
        let (title, outcome) = &runs[runs.len() - 1];
        print(&line(title, outcome, ""))?;
    }
    entitle(&mut runs, files);
    files.write(&runs)?;
    // The worst verdict decides: the first runs may be valid although the last rates are beyond the server.
    Ok(runs.iter().map(|(_, outcome)| outcome.verdict.exit_code()).max().unwrap_or(0))
}

fn findmax(
    level: &Level,
    (low, high, precision): (f64, Option<f64>, f64),
    (probe, arrivals): (Duration, Arrivals),
    mut plan: Plan,
    files: &Files,
) -> Result<u8, String> {
    plan.errors_max = level.errors().unwrap_or(plan.errors_max);
    print(&heading())?;
    let high = match high {
        Some(high) => high,
        None => {
            let outcome = execute(&Plan { length: Length::Time(probe), ..plan.clone() })?;
            print(&line("closed loop", &outcome, ""))?;
            plan = filled(plan);
            outcome.throughput() * 1.2
        }
    };
    let mut search = Search::new(low, high, precision);
    let (mut runs, mut client_bound): (Vec<Titled>, bool) = (Vec::new(), false);
    while let Some(rate) = search.next_rate() {
        let outcome = execute(&paced(&plan, rate, arrivals))?;
        plan = filled(plan);
        let (step, why) = Step::of(&outcome, level);
        client_bound |= step == Step::Failed && outcome.verdict == Verdict::ClientBound;
        search.record(rate, step);
        let title = format!("rate {rate}");
        print(&line(&title, &outcome, &why))?;
        runs.push((title, outcome));
    }
    entitle(&mut runs, files);
    files.write(&runs)?;
    let limit =
        if client_bound { "; above it the generator was the limit at least once, so it may be higher" } else { "" };
    match search.best() {
        Some(rate) => {
            print(&format!("\nmaximum     {rate} ops/s with {level}{limit}\n"))?;
            Ok(if client_bound { Verdict::ClientBound.exit_code() } else { 0 })
        }
        None => {
            print(&format!("\nmaximum     none from {low} ops/s on with {level}{limit}\n"))?;
            Ok(if client_bound { Verdict::ClientBound } else { Verdict::Late }.exit_code())
        }
    }
}

fn paced(plan: &Plan, rate: f64, arrivals: Arrivals) -> Plan {
    Plan { pace: Pace::Open { rate, arrivals }, ..plan.clone() }
}

fn closed_has_no_arrivals(closed: bool, arrivals: Arrivals) -> Result<(), String> {
    match closed && arrivals != Arrivals::Constant {
        true => Err("--arrivals: a closed loop has none; give a rate".into()),
        false => Ok(()),
    }
}

/// The plan of a further run, which finds the tables created and filled.
fn filled(mut plan: Plan) -> Plan {
    (plan.data.populate, plan.data.truncate) = (false, false);
    plan
}

fn heading() -> String {
    format!("{:<16}{:>12}{:>10}{:>10}{:>10}{:>14}  verdict\n", "", "ops/s", "p50 ms", "p99 ms", "p99.9 ms", "ops/CPU-s")
}

fn line(title: &str, outcome: &Outcome, more: &str) -> String {
    let all = outcome.all();
    let millis = |at: f64| report::quantile(&all, at) as f64 / 1e6;
    let per_cpu = outcome.per_cpu_second().map_or("-".to_string(), |rate| format!("{rate:.0}"));
    format!(
        "{title:<16}{:>12.0}{:>10.3}{:>10.3}{:>10.3}{per_cpu:>14}  {}{}{more}\n",
        outcome.throughput(),
        millis(0.5),
        millis(0.99),
        millis(0.999),
        outcome.verdict,
        if more.is_empty() { "" } else { ", " },
    )
}

fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| format!("standard output: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> bool {
        run(line.split(' ').map(String::from)) == REFUSED
    }

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_does_not_go_together_is_refused_before_anything_is_sent() {
        for line in [
            "jump",
            "run --arrivals poisson",
            "run --rate 0",
            "run --duration 10s --operations 5",
            "run --user a",
            "run --ratio scan=1",
            "run --distribution zapf",
            "run --threads 9",
            "run --pid 4294967295",
            "run --protocol 3",
            "run --keyspace Quoted",
            "sweep",
            "sweep --rates 5 --depths 1",
            "findmax",
            "findmax --sla p99<1ms --rate 5",
            "findmax --sla p99<1ms --precision 0",
            "compare /nonexistent/a.json /nonexistent/b.json",
            "write n=5 --json x",
        ] {
            assert!(refused(line), "{line}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(shown(&["read".into(), "password=secret".into()]), "read password=...");
    }
}
