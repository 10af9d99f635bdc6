//! Random schemas and statements, side by side on Helenus and on real Cassandra.
//!
//! 1. A seed makes a script: user types, tables, statements with fixed timestamps, wrong ones among them.
//! 2. The script runs on a simulated node with one and with three shards, and on Cassandra.
//! 3. Every page of every answer must agree: rows, metadata, warnings, paging, error codes and texts.
//! 4. A script that shows a difference is shortened and printed as a case for `tests/cql`.
//!
//! `a_sample_agrees_with_itself` runs a sample on Helenus alone: one shard must answer as three do, and the pages of a
//! SELECT must hold what it answers unpaged.
//!
//! The comparison is ignored unless asked for: `just side-by-side`, or with `CASSANDRA` as `cql/cassandra.rs` says
//! `cargo test -p server --test side_by_side -- --ignored --nocapture random_statements_answer_as_cassandra_does`.
//! `side_by_side/settings.rs` lists the variables that set its size. `errors_of_the_generator` shows which of the
//! generated statements Cassandra refuses.
#![allow(clippy::print_stdout, reason = "reports seeds and cases")]

#[path = "cql/cassandra.rs"]
mod cassandra;
#[path = "side_by_side/conditional.rs"]
mod conditional;
#[path = "side_by_side/counter.rs"]
mod counter;
#[path = "side_by_side/define.rs"]
mod define;
#[path = "side_by_side/dice.rs"]
mod dice;
#[path = "side_by_side/index.rs"]
mod index;
#[path = "side_by_side/judge.rs"]
mod judge;
#[path = "side_by_side/minimise.rs"]
mod minimise;
#[path = "side_by_side/modify.rs"]
mod modify;
#[path = "cql/node.rs"]
mod node;
#[path = "side_by_side/restrict.rs"]
mod restrict;
#[path = "side_by_side/schema.rs"]
mod schema;
#[path = "side_by_side/script.rs"]
mod script;
#[path = "side_by_side/select.rs"]
mod select;
#[path = "side_by_side/selector.rs"]
mod selector;
#[path = "side_by_side/session.rs"]
mod session;
#[path = "side_by_side/settings.rs"]
mod settings;
#[path = "side_by_side/types.rs"]
mod types;
#[path = "side_by_side/value.rs"]
mod value;

use cassandra::Cassandra;
use model::Partitioner;
use script::{KEYSPACE, Step};
use session::{Reply, Session};
use settings::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};

const NATIVE_PORT: u16 = 9042;
/// How many statements a script has.
const SCRIPT_STATEMENTS: usize = 120;
/// How many scripts the sample without Cassandra has.
const SAMPLE: u64 = 12;
/// For how many kinds of differences a run looks for a short script.
const REPORTED_MAX: usize = 40;
/// How many examples of one kind a run prints.
const EXAMPLES_MAX: usize = 3;

/// How Helenus refuses what it lacks.
const NOT_YET: [&str; 3] = ["does not support", "not supported yet", "Unlogged batches only"];

/// The replies to each step: pages, or the answer to PREPARE and then pages.
type Answers = Vec<Vec<Reply>>;

async fn play(steps: &[Step], address: SocketAddr) -> Answers {
    let mut session = Session::connect(address).await.expect("a connection");
    for text in [
        format!("DROP KEYSPACE IF EXISTS {KEYSPACE}"),
        format!("CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"),
        format!("USE {KEYSPACE}"),
    ] {
        let replies = session.play(&Step { text, ..Step::default() }, None).await;
        assert!(!matches!(replies[0], Reply::Error { .. } | Reply::Broken(_)), "{replies:?}");
    }
    let mut answers = Answers::new();
    for step in steps {
        answers.push(session.play(step, step.page_size).await);
    }
    answers
}

fn on_server(steps: &[Step], address: IpAddr) -> Answers {
    let steps = steps.to_vec();
    let answers = runtime::uring::run(runtime::uring::Options::default(), move |_| {
        let steps = steps.clone();
        async move { play(&steps, SocketAddr::new(address, NATIVE_PORT)).await }
    });
    answers.expect("a ring").remove(0)
}

/// The answers of a simulated node, or the text of its panic.
fn on_simulated_node(steps: &[Step], partitioner: &str, shards: usize) -> Result<Answers, String> {
    let steps = steps.to_vec();
    let run = catch_unwind(AssertUnwindSafe(|| {
        node::with_simulated_nodes(partitioner, &[shards], move |address| {
            let steps = steps.clone();
            async move { play(&steps, address).await }
        })
    }));
    run.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default()
    })
}

/// A step to which the servers answer differently.
struct Difference {
    at: usize,
    /// The difference without what varies from script to script, so that one mistake is reported once.
    kind: String,
    judge: String,
    ours: String,
}

/// What Helenus and Cassandra answered to a script.
struct Both {
    judge: Answers,
    /// The answers with one shard and with three.
    ours: [Result<Answers, String>; 2],
}

impl Both {
    fn of(steps: &[Step], address: IpAddr, partitioner: &str) -> Both {
        let ours = [1, 3].map(|shards| on_simulated_node(steps, partitioner, shards));
        Both { judge: on_server(steps, address), ours }
    }

    /// Whether Helenus answers differently on purpose.
    fn is_better(&self, at: usize, statement: &str) -> bool {
        self.ours.iter().flatten().any(|answers| {
            judge::is_better(statement, &answers[at]) && !judge::agree(statement, &self.judge[at], &answers[at])
        })
    }

    /// The steps to which the servers answer differently, with both answers as text from the first difference on.
    fn differences(&self, steps: &[Step]) -> Vec<Difference> {
        let mut found = Vec::new();
        for (at, judge) in self.judge.iter().enumerate() {
            let statement = &*steps[at].text;
            for ours in &self.ours {
                let difference = match ours {
                    Err(panic) if at + 1 == self.judge.len() => {
                        let (kind, ours) = (format!("panic {panic}"), panic.clone());
                        Difference { at, kind, judge: judge::show(judge), ours }
                    }
                    Err(_) => continue,
                    Ok(answers) if judge::agree(statement, judge, &answers[at]) || judge::is_no_guide(judge) => {
                        continue;
                    }
                    Ok(answers) if judge::is_better(statement, &answers[at]) => continue,
                    Ok(answers) => {
                        let (judge, ours) = judge::from_difference(statement, judge, &answers[at]);
                        let kind = format!("{} / {}", judge::kind_of(judge), judge::kind_of(ours));
                        Difference { at, kind, judge: judge::show(judge), ours: judge::show(ours) }
                    }
                };
                found.push(difference);
                break;
            }
        }
        found
    }
}

/// Helenus answers the same whatever the number of shards and the size of pages, under every partitioner.
#[test]
fn a_sample_agrees_with_itself() {
    let without = BTreeSet::new();
    for seed in 0..SAMPLE {
        let mut steps = Vec::new();
        for step in script::script(seed, SCRIPT_STATEMENTS / 2, &without) {
            let unpaged = step.page_size.is_some().then(|| Step { page_size: None, ..step.clone() });
            steps.push(step);
            steps.extend(unpaged);
        }
        let partitioner = Partitioner::ALL[seed as usize % 4].class_name();
        let [one, three] = [1, 3].map(|shards| on_simulated_node(&steps, partitioner, shards).expect("no panic"));
        for (at, step) in steps.iter().enumerate() {
            let words = || format!("seed {seed}: {step:?}\n  {}\n  {}", judge::show(&one[at]), judge::show(&three[at]));
            assert!(judge::agree(&step.text, &one[at], &three[at]), "one and three shards differ: {}", words());
            if step.page_size.is_none() {
                continue;
            }
            let (paged, unpaged) = (judge::whole(&one[at]), judge::whole(&one[at + 1]));
            if let (Some(paged), Some(unpaged)) = (paged, unpaged) {
                assert_eq!(paged, unpaged, "paged and unpaged differ: {}\n  {}", words(), judge::show(&one[at + 1]));
            }
        }
    }
}

#[test]
#[ignore = "needs Cassandra: just side-by-side"]
fn random_statements_answer_as_cassandra_does() {
    let settings = Settings::from_environment();
    let cassandra = Cassandra::start();
    let kinds = compare(cassandra.address(), &settings);
    cassandra.stop();
    assert!(kinds.is_empty(), "{} kinds of differences: {kinds:#?}", kinds.len());
}

/// Examines the generator itself: prints what Cassandra refuses, how often, and an example of each kind.
#[test]
#[ignore = "needs Cassandra: just side-by-side-errors"]
fn errors_of_the_generator() {
    let settings = Settings::from_environment();
    let cassandra = Cassandra::start();
    count_errors(cassandra.address(), &settings);
    cassandra.stop();
}

fn count_errors(address: IpAddr, settings: &Settings) {
    let mut kinds: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let (mut seed, mut statements) = (settings.first_seed, 0);
    while statements < settings.statements {
        let steps = script::script(seed, SCRIPT_STATEMENTS, &settings.without);
        for (step, replies) in steps.iter().zip(on_server(&steps, address)) {
            statements += 1;
            if let Some(Reply::Error { code, text }) = replies.last() {
                let entry = kinds.entry(judge::kind_of(&replies)).or_default();
                entry.0 += 1;
                entry.1 = format!("{seed}: {code:#06x} {text} <- {}", step.text);
            }
        }
        seed += 1;
    }
    let mut sorted: Vec<_> = kinds.values().collect();
    sorted.sort();
    for (count, example) in sorted {
        println!("{count:5} {example}");
    }
    let errors: usize = kinds.values().map(|(count, _)| count).sum();
    println!("{statements} statements, {errors} errors");
    assert!(errors as u64 * 2 < statements, "most of what the generator makes is refused");
}

/// Runs scripts until enough statements were compared. Returns the kinds of differences and how often each was found.
fn compare(address: IpAddr, settings: &Settings) -> BTreeMap<String, usize> {
    let mut seed = settings.first_seed;
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let (mut compared, mut no_guide, mut errors) = (0, 0, 0);
    let (mut found, mut applied, mut refusals) = (0, 0, 0);
    while compared < settings.statements {
        let all = script::script(seed, SCRIPT_STATEMENTS, &settings.without);
        if settings.prints_scripts {
            println!("{}", minimise::as_case(&format!("seed {seed}"), &all));
        }
        seed += 1;
        // A schema that Helenus lacks leaves nothing to compare.
        let Some(mut steps) = without_missing(all, &settings.partitioner, &mut refused) else { continue };
        let seed = seed - 1;
        let both = loop {
            let both = Both::of(&steps, address, &settings.partitioner);
            // What a write did that failed inside Cassandra is not known, so it is not made at all; nor is one that
            // Helenus alone refuses, on purpose.
            let unknown: Vec<bool> = (steps.iter().zip(&both.judge).enumerate())
                .map(|(at, (step, replies))| {
                    let unknown = judge::is_no_guide(replies) || both.is_better(at, &step.text);
                    unknown && !step.text.starts_with("SELECT")
                })
                .collect();
            if !unknown.contains(&true) {
                break both;
            }
            no_guide += unknown.iter().filter(|unknown| **unknown).count();
            let mut unknown = unknown.into_iter();
            steps.retain(|_| unknown.next() == Some(false));
        };
        compared += steps.len() as u64;
        no_guide += both.judge.iter().filter(|replies| judge::is_no_guide(replies)).count();
        errors += both.judge.iter().flatten().filter(|reply| matches!(reply, Reply::Error { .. })).count();
        for rows in both.judge.iter().flatten().filter_map(Reply::rows) {
            match rows.applied() {
                Some(true) => applied += 1,
                Some(false) => refusals += 1,
                None => found += usize::from(!rows.rows.is_empty()),
            }
        }
        for difference in both.differences(&steps) {
            let count = kinds.entry(difference.kind.clone()).or_default();
            *count += 1;
            if *count <= EXAMPLES_MAX && kinds.len() <= REPORTED_MAX {
                report(seed, difference, &steps, address, settings);
            }
        }
        println!(
            "== seed {seed}: {compared} statements, {errors} answered by errors, {found} pages with rows, {applied} conditional changes \
             applied and {refusals} not, {no_guide} without guide, {} kinds of differences",
            kinds.len()
        );
    }
    println!("refused by Helenus as missing: {refused:#?}");
    kinds
}

/// The steps without those that Helenus refuses because it lacks something. `None` if it lacks a part of the schema.
fn without_missing(steps: Vec<Step>, partitioner: &str, refused: &mut BTreeMap<String, usize>) -> Option<Vec<Step>> {
    let Ok(answers) = on_simulated_node(&steps, partitioner, 1) else { return Some(steps) };
    let mut kept = Vec::new();
    for (step, replies) in steps.into_iter().zip(answers) {
        match replies.last() {
            Some(Reply::Error { text, .. }) if NOT_YET.iter().any(|words| text.contains(words)) => {
                *refused.entry(text.clone()).or_default() += 1;
                if step.text.starts_with("CREATE") {
                    return None;
                }
            }
            _ => kept.push(step),
        }
    }
    Some(kept)
}

/// Prints a difference with the shortest script that shows it; with `HELENUS_SIDE_QUICK` only with its schema.
fn report(seed: u64, difference: Difference, steps: &[Step], address: IpAddr, settings: &Settings) {
    let kind = difference.kind.clone();
    if settings.prints_at_once {
        let schema = steps[..difference.at].iter().filter(|step| step.text.starts_with("CREATE"));
        let steps: Vec<Step> = schema.chain([&steps[difference.at]]).cloned().collect();
        let case = minimise::as_case(&format!("seed {seed}"), &steps);
        println!(
            "-- seed {seed}: {kind}\n{case}  Cassandra:\n    {}\n  Helenus:\n    {}\n",
            difference.judge, difference.ours
        );
        return;
    }
    let short = minimise::minimise(&steps[..=difference.at], |steps| {
        let last = Both::of(steps, address, &settings.partitioner).differences(steps).pop();
        last.is_some_and(|last| last.at + 1 == steps.len() && last.kind == kind)
    });
    let mut found = Both::of(&short, address, &settings.partitioner).differences(&short);
    if let Some(first) = found.first().filter(|first| first.at + 1 < short.len()) {
        println!("-- seed {seed}: {kind}: follows from {}", short[first.at].text);
        return;
    }
    let Difference { judge, ours, .. } = found.pop().unwrap_or(difference);
    let case = minimise::as_case(&format!("seed {seed}"), &short);
    println!("-- seed {seed}: {kind}\n{case}  Cassandra:\n    {judge}\n  Helenus:\n    {ours}\n");
}
