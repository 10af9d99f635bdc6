//! Reads the command lines of cassandra-stress: `write n=100000 -rate threads=8 -node 127.0.0.1 -pop seq=1..100000`.
//!
//! Supported are the commands write, read, mixed, counter_write and counter_read, and those of their options that have
//! an effect here. Other options are refused by name; none is ignored. As in cassandra-stress, `fixed=` is an open
//! loop, and `throttle=` a closed one that is slowed down and has no response time. The tools differ in that:
//! * `threads` counts requests under way, over `connectionsPerHost` connections (8), because no thread waits for an
//!   answer here;
//! * without `no-warmup` a run warms up until it is steady, at most [`WARMUP_MAX`];
//! * keys and values are this tool's own: neither tool can check data that the other has written.

use crate::arguments::{DEFAULT_PORT, consistency, duration, resolve};
use crate::keys::Distribution;
use crate::plan::{Length, Pace, Plan, Warmup, WorkloadName};
use crate::report::Files;
use crate::schedule::Arrivals;
use std::time::Duration;
use wire::Version;

/// The commands of cassandra-stress that are supported.
pub const COMMANDS: [&str; 5] = ["write", "read", "mixed", "counter_write", "counter_read"];

/// Longest warm-up of a run without `no-warmup`.
pub const WARMUP_MAX: Duration = Duration::from_secs(30);
/// Keys when neither `n=` nor `-pop` says how many, as in cassandra-stress.
const KEYS: u64 = 1_000_000;
/// Requests under way when a write with `n=` has no `-rate`, as in cassandra-stress.
const THREADS: usize = 200;

/// What a command line asks for.
pub struct Stress {
    /// The run to make.
    pub plan: Plan,
    /// The files to write.
    pub files: Files,
}

/// Settings collected while the words are read, because some depend on others that come later.
#[derive(Default)]
struct Seen {
    count: Option<u64>,
    time: Option<Duration>,
    no_warmup: bool,
    ratio: Option<Vec<(String, f64)>>,
    truncate: bool,
    threads: Option<usize>,
    pace: Option<Pace>,
    nodes: Option<String>,
    port: Option<u16>,
    keys: Option<(u64, u64, Distribution)>,
    no_wrap: bool,
    connections: Option<usize>,
    user: Option<String>,
    password: Option<String>,
}

/// Reads the words of a command line, the command first. `plan` gives the defaults. The error names the word that was
/// not understood.
pub fn parse(words: &[String], mut plan: Plan) -> Result<Stress, String> {
    let Some((command, words)) = words.split_first() else { return Err("a command is needed".into()) };
    let mut seen = Seen::default();
    let mut files = Files::default();
    let mut words = words.iter().map(String::as_str).peekable();
    while let Some(word) = words.next_if(|word| !word.starts_with('-')) {
        command_word(command, word, &mut seen, &mut plan)?;
    }
    while let Some(option) = words.next() {
        let mut any = false;
        while let Some(word) = words.next_if(|word| !word.starts_with('-')) {
            any = true;
            option_word(option, word, &mut seen, &mut plan, &mut files)?;
        }
        if !any {
            return Err(format!("{option} stands alone: nothing is known that it could mean"));
        }
    }
    finish(command, seen, &mut plan)?;
    plan.check()?;
    Ok(Stress { plan, files })
}

fn command_word(command: &str, word: &str, seen: &mut Seen, plan: &mut Plan) -> Result<(), String> {
    if word == "no-warmup" {
        seen.no_warmup = true;
        return Ok(());
    }
    if let Some(inner) = call(word, "ratio") {
        if command != "mixed" {
            return Err(format!("{word}: only mixed has a ratio"));
        }
        let weight = |pair: &str| match pair.trim().split_once('=') {
            Some((name @ ("write" | "read"), weight)) => {
                weight.parse::<f64>().map(|weight| (name.to_string(), weight)).map_err(|_| format!("{word}: {weight}"))
            }
            _ => Err(format!("{word}: {pair} is not write=WEIGHT or read=WEIGHT")),
        };
        seen.ratio = Some(inner.split(',').map(weight).collect::<Result<_, _>>()?);
        return Ok(());
    }
    match word.split_once('=') {
        Some(("n", count)) => seen.count = Some(amount(count).ok_or_else(|| format!("{word}: {count} is no count"))?),
        Some(("duration", time)) => seen.time = Some(duration(time)?),
        Some(("cl", level)) => plan.consistency = consistency(level)?,
        Some(("serial-cl", level)) => {
            let level = consistency(level)?;
            if !level.is_serial() {
                return Err(format!("{word}: SERIAL or LOCAL_SERIAL is needed"));
            }
            plan.serial = Some(level);
        }
        Some(("truncate", "never")) => seen.truncate = false,
        Some(("truncate", "once" | "always")) => seen.truncate = true,
        _ => return Err(format!("{command} {word}: not understood")),
    }
    Ok(())
}

fn option_word(option: &str, word: &str, seen: &mut Seen, plan: &mut Plan, files: &mut Files) -> Result<(), String> {
    let unknown = || format!("{option} {word}: not understood");
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{option} {word}: {text} is no number"));
    let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    match (option, name, value) {
        ("-rate", "threads", Some(value)) => seen.threads = Some(number(value)? as usize),
        ("-rate", "fixed" | "throttle", Some(value)) => {
            let digits =
                value.strip_suffix("/s").ok_or_else(|| format!("{option} {word}: a rate such as 1000/s is needed"))?;
            let rate = amount(digits).ok_or_else(|| format!("{option} {word}: {digits} is no number"))? as f64;
            if seen.pace.is_some() {
                return Err(format!("{option} {word}: there is a rate already"));
            }
            seen.pace = Some(match name {
                "fixed" => Pace::Open { rate, arrivals: Arrivals::Constant },
                _ => Pace::Throttled { rate },
            });
        }
        ("-node", hosts, None) => seen.nodes = Some(hosts.to_string()),
        ("-port", "native", Some(value)) => {
            seen.port = Some(value.parse().map_err(|_| format!("{option} {word}: {value} is no port"))?);
        }
        ("-pop", "seq", Some(range)) => {
            let (first, last) =
                bounds(range).ok_or_else(|| format!("{option} {word}: a range such as 1..1000 is needed"))?;
            seen.keys = Some((first, last, Distribution::Sequential));
        }
        ("-pop", "dist", Some(text)) => seen.keys = Some(distribution(text)?),
        ("-pop", "no-wrap", None) => seen.no_wrap = true,
        ("-col", "n", Some(text)) => plan.data.columns = fixed(text).ok_or_else(unknown)? as usize,
        ("-col", "size", Some(text)) => plan.data.value_bytes = fixed(text).ok_or_else(unknown)? as usize,
        ("-mode", "native" | "cql3" | "prepared", None) => {}
        ("-mode", "protocolVersion", Some("4" | "v4" | "V4")) => plan.version = Version::V4,
        ("-mode", "protocolVersion", Some("5" | "v5" | "V5")) => plan.version = Version::V5,
        ("-mode", "connectionsPerHost", Some(value)) => seen.connections = Some(number(value)?.max(1) as usize),
        ("-mode", "user", Some(value)) => seen.user = Some(value.to_string()),
        ("-mode", "password", Some(value)) => seen.password = Some(value.to_string()),
        ("-mode", "compression", Some("none" | "NONE")) => {}
        ("-schema", "keyspace", Some(value)) => plan.data.keyspace = value.to_string(),
        ("-schema", _, _) => plan.data.replication = replication(call(word, "replication").ok_or_else(unknown)?, word)?,
        ("-log", "hdrfile", Some(value)) => files.hdr = Some(value.into()),
        ("-log", "interval", Some(value)) => plan.window = duration(value)?,
        ("-graph", "file", Some(value)) => files.html = Some(value.into()),
        ("-errors", "ignore", None) => plan.errors_max = 1.0,
        _ => return Err(unknown()),
    }
    Ok(())
}

/// Completes the settings that depend on each other.
fn finish(command: &str, seen: Seen, plan: &mut Plan) -> Result<(), String> {
    let (workload, ratio) = match command {
        "write" => (WorkloadName::Standard, vec![("write".to_string(), 1.0)]),
        "read" => (WorkloadName::Standard, vec![("read".to_string(), 1.0)]),
        "mixed" => (WorkloadName::Standard, vec![("write".to_string(), 1.0), ("read".to_string(), 1.0)]),
        "counter_write" => (WorkloadName::Counter, vec![("write".to_string(), 1.0)]),
        "counter_read" => (WorkloadName::Counter, vec![("read".to_string(), 1.0)]),
        _ => return Err(format!("{command} is no command: {}", COMMANDS.join(", "))),
    };
    plan.data.workload = workload;
    plan.data.ratio = seen.ratio.unwrap_or(ratio);
    plan.data.truncate = seen.truncate;
    let writes = command.ends_with("write");
    let last = seen.count.unwrap_or(KEYS).max(1);
    let default = if writes { Distribution::Sequential } else { Distribution::Gaussian { deviations: 3.0 } };
    let (first, last, distribution) = seen.keys.unwrap_or((1, last, default));
    (plan.data.first_key, plan.data.keys, plan.data.distribution) = (first, last - first + 1, distribution);
    plan.length = match (seen.count, seen.time) {
        (Some(_), Some(_)) => return Err("n= and duration= exclude each other".into()),
        (Some(count), None) => Length::Operations(count),
        (None, Some(time)) => Length::Time(time),
        (None, None) if seen.no_wrap => Length::Operations(plan.data.keys),
        (None, None) => return Err("n= or duration= is needed: there is no target uncertainty here".into()),
    };
    if seen.no_wrap {
        let fits = matches!(plan.length, Length::Operations(count) if count <= plan.data.keys);
        if distribution != Distribution::Sequential || !fits || !seen.no_warmup {
            return Err(
                "-pop no-wrap: needs seq=, no-warmup, and n= of at most as many operations as there are keys".into()
            );
        }
    }
    plan.warmup = if seen.no_warmup { Warmup::None } else { Warmup::Steady(WARMUP_MAX) };
    plan.pace = seen.pace.unwrap_or(Pace::Closed);
    plan.in_flight = match seen.threads {
        Some(0) => return Err("-rate threads=0: at least 1".into()),
        Some(threads) => threads,
        None if writes && seen.count.is_some() => THREADS,
        None => return Err("-rate threads=N is needed: the number of threads is not searched for; see sweep".into()),
    };
    plan.connections = seen.connections.unwrap_or(8).min(plan.in_flight);
    let port = seen.port.unwrap_or(DEFAULT_PORT);
    let nodes = seen.nodes.unwrap_or_else(|| "127.0.0.1".into());
    plan.hosts = nodes.split(',').map(|node| resolve(node, port)).collect::<Result<_, _>>()?;
    plan.login = match (seen.user, seen.password) {
        (Some(user), Some(password)) => Some((user, password)),
        (None, None) => None,
        _ => return Err("-mode user= and password= need each other".into()),
    };
    Ok(())
}

/// The text between the parentheses of `name(...)`.
fn call<'a>(word: &'a str, name: &str) -> Option<&'a str> {
    let rest = word.get(..name.len()).filter(|start| start.eq_ignore_ascii_case(name)).map(|_| &word[name.len()..])?;
    rest.strip_prefix('(')?.strip_suffix(')')
}

/// Parses `100`, `10k`, `2M`, `1B`.
fn amount(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "b" => 1_000_000_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Parses `1..1000`, where the first is at most the last.
fn bounds(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.split_once("..")?;
    let (first, last) = (amount(first.trim())?, amount(last.trim())?);
    (first <= last).then_some((first, last))
}

/// Parses `FIXED(5)` or `5`.
fn fixed(text: &str) -> Option<u64> {
    call(text, "fixed").unwrap_or(text).parse().ok()
}

fn distribution(text: &str) -> Result<(u64, u64, Distribution), String> {
    let wrong =
        || format!("-pop dist={text}: UNIFORM(1..N), GAUSSIAN(1..N), GAUSSIAN(1..N,DEVIATIONS) or FIXED(N) is needed");
    if let Some(inner) = call(text, "uniform") {
        let (first, last) = bounds(inner).ok_or_else(wrong)?;
        return Ok((first, last, Distribution::Uniform));
    }
    if let Some(inner) = call(text, "fixed") {
        let key = amount(inner).ok_or_else(wrong)?;
        return Ok((key, key, Distribution::Uniform));
    }
    let inner = ["gaussian", "gauss", "normal", "norm"].iter().find_map(|name| call(text, name)).ok_or_else(wrong)?;
    let (range, deviations) = inner.split_once(',').unwrap_or((inner, "3"));
    let (first, last) = bounds(range).ok_or_else(wrong)?;
    let deviations = deviations.trim().parse::<f64>().ok().filter(|d| *d > 0.0 && d.is_finite()).ok_or_else(wrong)?;
    Ok((first, last, Distribution::Gaussian { deviations }))
}

/// Turns `factor=3` or `strategy=NetworkTopologyStrategy,dc1=3` into a CQL map.
fn replication(inner: &str, word: &str) -> Result<String, String> {
    let (mut strategy, mut factors) = ("SimpleStrategy", Vec::new());
    for pair in inner.split(',') {
        let (name, value) =
            pair.trim().split_once('=').ok_or_else(|| format!("-schema {word}: {pair} is no NAME=VALUE"))?;
        let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        if !plain(name) || !plain(value) {
            return Err(format!("-schema {word}: {pair} holds characters that no name has"));
        }
        match name {
            "strategy" => strategy = value,
            "factor" | "replication_factor" => factors.push(("replication_factor", value)),
            name => factors.push((name, value)),
        }
    }
    if factors.is_empty() {
        return Err(format!("-schema {word}: a factor is needed"));
    }
    let factors: String = factors.iter().map(|(name, value)| format!(", '{name}': '{value}'")).collect();
    Ok(format!("{{'class': '{strategy}'{factors}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::default_plan;
    use model::Consistency;

    fn parsed(line: &str) -> Result<Stress, String> {
        parse(&line.split(' ').map(String::from).collect::<Vec<_>>(), default_plan())
    }

    fn plan(line: &str) -> Plan {
        parsed(line).unwrap_or_else(|error| panic!("{line}: {error}")).plan
    }

    #[test]
    fn a_write_as_in_the_manual() {
        let plan =
            plan("write n=100000 cl=QUORUM no-warmup -rate threads=10 -node 127.0.0.2,127.0.0.3 -pop seq=1..100k");
        assert_eq!(plan.length, Length::Operations(100_000));
        assert_eq!((plan.consistency, plan.warmup, plan.pace), (Consistency::Quorum, Warmup::None, Pace::Closed));
        assert_eq!((plan.in_flight, plan.connections), (10, 8));
        assert_eq!((0..8).map(|at| plan.depth_of(at)).collect::<Vec<_>>(), [2, 2, 1, 1, 1, 1, 1, 1]);
        let hosts: Vec<String> = plan.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["127.0.0.2:9042", "127.0.0.3:9042"]);
        let data = plan.data;
        assert_eq!((data.first_key, data.keys, data.distribution), (1, 100_000, Distribution::Sequential));
        assert_eq!((data.workload, data.ratio), (WorkloadName::Standard, vec![("write".to_string(), 1.0)]));
    }

    #[test]
    fn a_mix_with_a_rate() {
        let line = "mixed ratio(write=1,read=3) duration=30s -rate threads=4 fixed=1000/s -pop dist=UNIFORM(1..1M)";
        let plan = plan(line);
        assert_eq!(plan.pace, Pace::Open { rate: 1000.0, arrivals: Arrivals::Constant });
        assert_eq!(plan.length, Length::Time(Duration::from_secs(30)));
        assert_eq!(plan.warmup, Warmup::Steady(WARMUP_MAX));
        assert_eq!(plan.data.ratio, [("write".to_string(), 1.0), ("read".to_string(), 3.0)]);
        assert_eq!((plan.data.keys, plan.data.distribution), (1_000_000, Distribution::Uniform));
        assert_eq!(plan.connections, 4);
    }

    #[test]
    fn the_other_options() {
        let stress = parsed(
            "read n=10 -rate threads=1 throttle=5/s -mode native cql3 user=u password=p protocolVersion=5 -port native=9999 \
             -col n=FIXED(3) size=fixed(100) -schema replication(strategy=NetworkTopologyStrategy,dc1=3) keyspace=ks \
             -log hdrfile=x.hdr interval=2s -graph file=x.html -errors ignore",
        )
        .expect("understood");
        let plan = stress.plan;
        assert_eq!(plan.pace, Pace::Throttled { rate: 5.0 });
        assert_eq!(plan.login, Some(("u".to_string(), "p".to_string())));
        assert_eq!((plan.version, plan.hosts[0].port(), plan.errors_max), (Version::V5, 9999, 1.0));
        assert_eq!((plan.data.columns, plan.data.value_bytes, plan.data.keyspace.as_str()), (3, 100, "ks"));
        assert_eq!(plan.data.replication, "{'class': 'NetworkTopologyStrategy', 'dc1': '3'}");
        assert_eq!(plan.data.distribution, Distribution::Gaussian { deviations: 3.0 });
        assert_eq!(plan.window, Duration::from_secs(2));
        assert!(stress.files.hdr.is_some() && stress.files.html.is_some());
        assert_eq!(self::plan("counter_write n=5").in_flight, THREADS);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (line, part) in [
            ("write", "n="),
            ("write n=x", "n=x"),
            ("write n=5 duration=1s", "exclude"),
            ("write n=5 err<0.02", "err<0.02"),
            ("write n=5 ratio(read=1)", "ratio"),
            ("mixed n=5 ratio(scan=1) -rate threads=1", "scan"),
            ("read n=5", "-rate"),
            ("read n=5 -rate threads=0", "threads=0"),
            ("read n=5 -rate threads=1 fixed=10", "fixed=10"),
            ("read n=5 -rate threads=1 auto", "auto"),
            ("write n=5 -pop contents=SORTED", "contents"),
            ("write n=5 -pop dist=EXP(1..5)", "EXP"),
            ("write n=5 -pop seq=9..1", "seq=9..1"),
            ("write n=5 -pop seq=1..3 no-wrap", "no-wrap"),
            ("write n=5 -mode thrift", "thrift"),
            ("write n=5 -mode user=u", "password"),
            ("write n=5 -mode unprepared", "unprepared"),
            ("write n=5 -schema compaction(strategy=X)", "compaction"),
            ("write n=5 -schema replication(factor=1',x)", "replication"),
            ("write n=5 -tokenrange no-wrap", "-tokenrange"),
            ("write n=5 -rate", "-rate"),
            ("write n=5 cl=MANY", "MANY"),
            ("write n=0", "operations"),
        ] {
            let error = parsed(line).err().unwrap_or_else(|| panic!("{line} is accepted"));
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
