//! Whole runs in the simulator, against a server of a few lines: schedule, verdict, warm-up, errors, in virtual time.

mod server;

use clap::Parser;
use load::driver;
use load::errors::Class;
use load::outcome::Outcome;
use load::plan::{Length, Pace, Plan, Warmup};
use load::recorder::decode;
use load::schedule::Arrivals;
use load::sessions::{self, Board, SessionArguments};
use load::shared::Shared;
use load::verdict::Verdict;
use runtime::NodeId;
use runtime::sim::{Options, Sim, Stop};
use server::Behaviour;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const SERVER: NodeId = NodeId(1);
const CLIENT: NodeId = NodeId(2);
/// A second server, for plans with two.
const OTHER_SERVER: NodeId = NodeId(3);

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A plan for the simulated server: one window a second, 4 connections of depth 4, reads only.
fn plan() -> Plan {
    let mut plan = load::arguments::default_plan();
    plan.hosts = vec![SocketAddr::new(Sim::address_of(SERVER), 9042)];
    (plan.connections, plan.in_flight) = (4, 16);
    (plan.own_cpu, plan.progress) = (false, false);
    (plan.warmup, plan.length) = (Warmup::None, Length::Time(Duration::from_secs(5)));
    plan.data.ratio = vec![("read".into(), 1.0)];
    plan.data.keys = 1000;
    plan
}

fn open(rate: f64) -> Pace {
    Pace::Open { rate, arrivals: Arrivals::Constant }
}

fn run(plan: Plan, behaviour: Behaviour) -> Outcome {
    let options = Options {
        network_latency: (Duration::from_micros(50), Duration::from_micros(60)),
        buggify: false,
        clock_skew: Duration::ZERO,
        ..Options::default()
    };
    let mut sim = Sim::new(7, options);
    for server in [SERVER, OTHER_SERVER] {
        let behaviour = behaviour.clone();
        sim.start_node(server, 1, move |_| server::serve(behaviour.clone()));
    }
    // Until both listen.
    sim.run_until(millis(1), || false);
    let results = Rc::new(RefCell::new(Vec::new()));
    let (shared, threads) = (Arc::new(Shared::new(plan.threads)), plan.threads);
    let (run, into) = (Arc::new(plan.clone()), results.clone());
    sim.start_node(CLIENT, threads, move |shard| {
        let (plan, shared, into) = (run.clone(), shared.clone(), into.clone());
        async move {
            let result = driver::run(plan, shared, shard.0 as usize).await;
            into.borrow_mut().push(result);
        }
    });
    let stop = sim.run_until(Duration::from_secs(300), || results.borrow().len() == threads);
    assert_eq!(stop, Stop::Condition, "the run ends");
    let results = std::mem::take(&mut *results.borrow_mut());
    Outcome::new(&plan, results.into_iter().collect::<Result<_, _>>().expect("a run"))
}

fn count(outcome: &Outcome, class: Class) -> u64 {
    outcome.total.errors[class as usize]
}

#[test]
fn an_open_loop_sends_every_tick() {
    let plan = Plan { pace: open(1000.0), ..plan() };
    let outcome = run(plan, Behaviour::prompt(millis(1)));
    assert_eq!(outcome.verdict, Verdict::Valid);
    assert_eq!((outcome.figures.sent, outcome.figures.unsent, outcome.total.operations), (5000, 0, 5000));
    let kind = &outcome.kinds[0];
    let response = kind.response.as_ref().expect("an open loop has response times");
    assert_eq!((kind.service.len(), response.len()), (5000, 5000));
    assert!(kind.service.min() >= 1_000_000 && response.max() < 3_000_000);
}

#[test]
fn threads_share_the_rate() {
    let plan = Plan { pace: open(999.0), threads: 3, connections: 3, in_flight: 12, ..plan() };
    let outcome = run(plan, Behaviour::prompt(millis(1)));
    assert_eq!((outcome.verdict, outcome.figures.sent), (Verdict::Valid, 4995));
    assert_eq!(outcome.measured().len(), 5);
    assert!(outcome.measured().iter().all(|window| window.operations.abs_diff(999) <= 3));
}

#[test]
fn a_stall_shows_in_the_response_time_of_all_that_were_due() {
    let plan = Plan { pace: open(1000.0), ..plan() };
    let stall = Behaviour { stall: Some((millis(2000), millis(500))), ..Behaviour::prompt(millis(1)) };
    let outcome = run(plan, stall);
    assert_eq!(outcome.verdict, Verdict::Late, "a tenth of the sends waited for a free request");
    assert_eq!((outcome.figures.sent + outcome.figures.unsent, outcome.total.operations), (5000, 5000));
    let kind = &outcome.kinds[0];
    let slow = |histogram: &hdrhistogram::Histogram<u64>| histogram.count_between(100_000_000, u64::MAX);
    let response = slow(kind.response.as_ref().expect("an open loop has response times"));
    assert!((380..=460).contains(&response), "{response} of the 400 due in the stall's first 400 ms");
    assert!(slow(&kind.service) <= 16, "the server saw only those under way");
}

#[test]
fn a_server_below_the_rate_is_late() {
    let plan = Plan { pace: open(1000.0), ..plan() };
    // One at a time in 2 ms: 500 per second.
    let outcome = run(plan, Behaviour { each: millis(2), ..Behaviour::prompt(millis(0)) });
    assert_eq!(outcome.verdict, Verdict::Late);
    assert!((2400..2600).contains(&outcome.figures.sent), "{}", outcome.figures.sent);
    assert_eq!(outcome.figures.sent + outcome.figures.unsent, 5000);
    assert_eq!(outcome.figures.late_own, 0);
}

#[test]
fn throttling_has_no_response_time_and_is_not_late() {
    let plan = Plan { pace: Pace::Throttled { rate: 1000.0 }, ..plan() };
    let outcome = run(plan, Behaviour { each: millis(2), ..Behaviour::prompt(millis(0)) });
    assert_eq!(outcome.verdict, Verdict::Valid);
    assert!(outcome.kinds[0].response.is_none());
}

#[test]
fn a_closed_loop_keeps_its_requests_under_way() {
    let outcome = run(plan(), Behaviour::prompt(millis(4)));
    assert_eq!(outcome.verdict, Verdict::Valid);
    // 16 requests, 4 ms and twice the network's latency each.
    let expected = 16.0 / 0.00411;
    assert!((outcome.throughput() / expected - 1.0).abs() < 0.03, "{}", outcome.throughput());
    assert!(outcome.kinds[0].response.is_none());
}

#[test]
fn a_number_of_operations_is_kept_exactly() {
    for threads in [1, 3] {
        let mut plan = Plan { length: Length::Operations(1000), threads, ..plan() };
        plan.data.ratio = vec![("write".into(), 2.0), ("read".into(), 1.0)];
        let outcome = run(plan, Behaviour::prompt(millis(1)));
        assert_eq!((outcome.total.operations, outcome.figures.sent), (1000, 1000));
        assert_eq!(outcome.kinds.iter().map(|kind| kind.service.len()).sum::<u64>(), 1000);
        assert!(outcome.length < millis(400), "{:?}", outcome.length);
    }
}

#[test]
fn wrong_and_missing_rows_are_errors() {
    let outcome = run(plan(), Behaviour { wrong_every: 100, ..Behaviour::prompt(millis(4)) });
    let ended = outcome.total.operations + outcome.total.failed();
    assert_eq!(outcome.verdict, Verdict::Errors);
    assert!(count(&outcome, Class::WrongData).abs_diff(ended / 100) <= 1);
    let outcome = run(plan(), Behaviour { missing_every: 50, ..Behaviour::prompt(millis(4)) });
    let ended = outcome.total.operations + outcome.total.failed();
    assert!(count(&outcome, Class::Missing).abs_diff(ended / 50) <= 1);
    let mut plan = plan();
    plan.data.missing_is_error = false;
    let outcome = run(plan, Behaviour { missing_every: 50, ..Behaviour::prompt(millis(4)) });
    assert_eq!((outcome.verdict, outcome.total.failed()), (Verdict::Valid, 0));
}

#[test]
fn server_errors_have_their_class_and_text() {
    let plan = Plan { errors_max: 0.02, ..plan() };
    let outcome = run(plan, Behaviour { overloaded_every: 100, ..Behaviour::prompt(millis(4)) });
    assert_eq!(outcome.verdict, Verdict::Valid, "one in a hundred is allowed");
    assert!(count(&outcome, Class::Overloaded) > 100);
    assert_eq!(outcome.error_texts, [(Class::Overloaded, "too much".to_string())]);
}

#[test]
fn lost_answers_time_out_and_count_as_slow() {
    let plan = Plan { timeout: millis(500), pace: open(500.0), ..plan() };
    let outcome = run(plan, Behaviour { lost_every: 400, ..Behaviour::prompt(millis(1)) });
    assert_eq!(count(&outcome, Class::Timeout), 6);
    assert_eq!(outcome.total.operations + outcome.total.failed(), 2500);
    assert!(outcome.kinds[0].service.max() >= 499_000_000);
}

#[test]
fn connections_that_break_are_made_again() {
    let outcome = run(plan(), Behaviour { close_after: Some(1000), ..Behaviour::prompt(millis(4)) });
    assert!(count(&outcome, Class::Connection) > 0);
    assert_eq!(outcome.verdict, Verdict::Errors);
    assert!(outcome.measured().iter().all(|window| window.operations > 1000), "the load goes on");
}

#[test]
fn the_warm_up_lasts_until_nothing_changes() {
    let plan = Plan { warmup: Warmup::Steady(Duration::from_secs(60)), ..plan() };
    // 20 ms at first, 2 ms less each second, 4 ms from the eighth on.
    let outcome =
        run(plan.clone(), Behaviour { warming: Some((millis(16), millis(2))), ..Behaviour::prompt(millis(4)) });
    assert!(outcome.steady);
    assert!((11..=14).contains(&outcome.measure_from), "{}", outcome.measure_from);
    assert_eq!(outcome.measured().len(), 5);
    let first = decode(&outcome.windows[0].service[1]).mean();
    assert!(first > 18e6 && outcome.kinds[0].service.mean() < 5e6);

    let plan = Plan { warmup: Warmup::Steady(Duration::from_secs(8)), ..plan };
    let outcome =
        run(plan.clone(), Behaviour { warming: Some((millis(100), millis(5))), ..Behaviour::prompt(millis(4)) });
    assert_eq!((outcome.steady, outcome.measure_from, outcome.measured().len()), (false, 8, 5));
    assert!(load::report::text::report(&outcome).contains("still not steady"));

    let plan = Plan { warmup: Warmup::Fixed(millis(2500)), ..plan };
    assert_eq!(run(plan, Behaviour::prompt(millis(4))).measure_from, 3);
}

#[test]
fn a_server_that_asks_gets_name_and_password() {
    let mut plan = plan();
    plan.login = Some(("cassandra".into(), "secret".into()));
    let asks = Behaviour { login: Some("\0cassandra\0secret"), ..Behaviour::prompt(millis(4)) };
    assert_eq!(run(plan, asks).verdict, Verdict::Valid);
}

#[test]
fn version_5_carries_the_same_load() {
    let plan = Plan { version: wire::Version::V5, pace: open(1000.0), ..plan() };
    let outcome = run(plan, Behaviour::prompt(millis(1)));
    assert_eq!((outcome.verdict, outcome.total.operations), (Verdict::Valid, 5000));
}

#[test]
fn each_of_several_nodes_has_a_line() {
    let address = |node| SocketAddr::new(Sim::address_of(node), 9042);
    let hosts = vec![address(SERVER), address(OTHER_SERVER)];
    let outcome = run(Plan { hosts: hosts.clone(), pace: open(1000.0), ..plan() }, Behaviour::prompt(millis(1)));
    let counts: Vec<_> = outcome.hosts.iter().map(|host| (host.address, host.failed)).collect();
    assert_eq!(counts, hosts.iter().map(|host| (*host, 0)).collect::<Vec<_>>());
    assert_eq!(outcome.hosts.iter().map(|host| host.operations).sum::<u64>(), 5000);
    assert!(outcome.hosts.iter().all(|host| host.operations > 1000), "each serves a part");
    let text = load::report::text::report(&outcome);
    for host in hosts {
        let line = text.lines().find(|line| line.starts_with(&host.to_string())).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(line.split_whitespace().count(), 5, "{line}");
    }
    let alone = run(Plan { pace: open(1000.0), ..plan() }, Behaviour::prompt(millis(1)));
    assert!(alone.hosts.is_empty());
}

#[test]
fn reports_of_a_run_hold_its_figures() {
    let plan = Plan { pace: open(1000.0), ..plan() };
    let outcome = run(plan, Behaviour::prompt(millis(1)));
    let runs = [("a <title>".to_string(), outcome)];
    let log = load::report::hdrlog::document(&runs);
    assert!(log.starts_with("#[Histogram log format version 1.3]\n#[StartTime: "));
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    let mut counts = std::collections::BTreeMap::<String, u64>::new();
    let lines: String = log.lines().filter(|line| !line.starts_with('"')).map(|line| format!("{line}\n")).collect();
    for entry in IntervalLogIterator::new(lines.as_bytes()) {
        let Ok(LogEntry::Interval(interval)) = entry else { continue };
        let tag = interval.tag().expect("every line has a tag").as_str().to_string();
        let bytes = base64_bytes(interval.encoded_histogram());
        let mut deserializer = hdrhistogram::serialization::Deserializer::new();
        let histogram: hdrhistogram::Histogram<u64> = deserializer.deserialize(&mut bytes.as_slice()).expect("V2");
        *counts.entry(tag).or_default() += histogram.len();
    }
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("read-rt".to_string(), 5000), ("read-st".to_string(), 5000)]);

    let json: serde_json::Value = serde_json::from_str(&load::report::json::document(&runs)).expect("JSON");
    assert_eq!((json["verdict"].as_str(), json["operations"].as_u64()), (Some("VALID"), Some(5000)));
    assert_eq!(json["latency"]["read"]["response"]["count"], 5000);
    let samples = load::compare::read(&json.to_string()).expect("a report");
    assert!(load::compare::report(&samples, &samples).contains("no difference"));

    let csv = load::report::csv::document(&runs);
    let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert!(columns.len() == 6 && columns.iter().all(|count| *count == columns[0]), "{csv}");

    let page = load::report::html::page(&runs);
    assert!(page.contains("a &lt;title&gt;") && page.matches("<svg").count() == 3);
    for outside in ["http", "<script", "<link", "url(", "NaN", "inf"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

/// Base64 of RFC 4648 with padding.
fn base64_bytes(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte));
    let (mut bits, mut held, mut out) = (0u32, 0, Vec::new());
    for digit in digits {
        (bits, held) = (bits << 6 | digit as u32, held + 6);
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}

#[derive(clap::Parser)]
struct SessionsLine {
    #[command(flatten)]
    sessions: SessionArguments,
}

/// Runs `helenus bench sessions` with these options against a server of a millisecond.
fn sessions(options: &[&str]) -> Result<String, String> {
    // A simulated node has one address.
    let line = SessionsLine::parse_from(["sessions", "--one-source"].iter().chain(options));
    let latency = (Duration::from_micros(50), Duration::from_micros(60));
    let options =
        Options { network_latency: latency, buggify: false, clock_skew: Duration::ZERO, ..Options::default() };
    let mut sim = Sim::new(7, options);
    sim.start_node(SERVER, 1, |_| server::serve(Behaviour::prompt(millis(1))));
    sim.run_until(millis(1), || false);
    let reports = Rc::new(RefCell::new(Vec::new()));
    let (into, board) = (reports.clone(), Arc::new(Board::default()));
    sim.start_node(CLIENT, 2, move |shard| {
        let (into, board, settings) = (into.clone(), board.clone(), line.sessions.clone());
        async move {
            let host = SocketAddr::new(Sim::address_of(SERVER), 9042);
            let report = sessions::measure(settings, host, board, shard.0.into()).await;
            into.borrow_mut().push((shard.0, report));
        }
    });
    let stop = sim.run_until(Duration::from_secs(300), || reports.borrow().len() == 2);
    assert_eq!(stop, Stop::Condition, "it ends");
    let mut reports = std::mem::take(&mut *reports.borrow_mut());
    reports.sort_by_key(|(thread, _)| *thread);
    reports.into_iter().map(|(_, report)| report).collect::<Result<Vec<_>, _>>().map(|reports| reports.concat())
}

#[test]
fn busy_connections_are_measured_alone_and_beside_others() {
    let options = "--busy 20 --rate 100 --window 5s --rounds 2 --idle 30 --slow-readers 3 --slow-writers 4 --relogin 25 \
                   --connects 50 --within 2s --cycles 100ms --at-once 5";
    let report = sessions(&options.split(' ').collect::<Vec<_>>()).expect("a report");
    let count = |text: &str| report.lines().filter(|line| line.contains(text)).count();
    assert_eq!((count("busy connections alone: "), count("busy connections beside ")), (10, 10), "{report}");
    let hundred = |line: &str| (490..=510).any(|n| line.contains(&format!(": {n} requests")));
    let alone: Vec<&str> = report.lines().filter(|line| line.contains("alone: ")).collect();
    assert!(alone.iter().all(|line| hundred(line)), "100 a second for 5 s: {alone:?}");
    assert_eq!(count("opened 30 connections"), 2, "{report}");
    assert_eq!(count("25 sessions opened again at once"), 2, "{report}");
    assert_eq!(count("50 connections opened and closed in 1.96 s"), 2, "evenly over the time: {report}");
    assert_eq!(count(" sessions in 0.1"), 1, "{report}");
    // Opening 25 again is over before a request is due.
    assert_eq!(count("p50 is 1.00 times and p99 1.0"), 4, "nobody is disturbed: {report}");
}
