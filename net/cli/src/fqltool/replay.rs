//! `fqltool replay`: runs logged requests again, one after the other, on one or more servers.
//!
//! 1. Requests come in the order in which they began. Those of other keyspaces than `--keyspace` names, those that
//!    change the schema unless they are asked for, and those that set a password, which the log does not have, are left
//!    out.
//! 2. Each goes to every target, with the consistency, values and times of its line; a write that had no timestamp gets
//!    the time at which it began, so that all targets write the same. All pages of a result are fetched.
//! 3. What the targets have answered is compared; with `--results` it is stored too.
//!
//! Invariants: one request is under way at a time; the rows of a result that are kept are bounded; passwords of
//! targets are shown nowhere.

use super::Given;
use super::results::{Outcome, QUERIES, RESULTS, compare, shown};
use load::arguments::{DEFAULT_PORT, resolve};
use load::encryption::Ssl;
use load::session::{Address, Session};
use model::{BatchEntry, BatchStatement, QueryParameters};
use runtime::blocking::{append, exists};
use server::query_log::logged::{LoggedQuery, LoggedStatements};
use server::query_log::reader::LogReader;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::Version;
use wire::client::Response;
use wire::request::{Batch, Request};

/// Rows of a page, if the request had no pages of its own.
const PAGE_ROWS: i32 = 5000;
/// Bytes of the cells of a result that are kept for comparison; more fail the request.
const RESULT_BYTES_MAX: usize = 256 << 20;
/// How many requests there are between two lines about the progress, as in Cassandra's tool.
const PROGRESS: u64 = 5000;

/// What was asked for.
#[derive(Clone)]
pub(super) struct Settings {
    paths: Vec<PathBuf>,
    targets: Vec<Target>,
    keyspace: Option<String>,
    with_definitions: bool,
    results: Option<PathBuf>,
    queries: Option<PathBuf>,
    ssl: Option<Ssl>,
}

/// A server.
#[derive(Clone, PartialEq, Eq)]
struct Target {
    /// The text without a password.
    name: String,
    login: Option<(String, String)>,
}

impl Target {
    /// Reads `[user:password@]host[:port]`.
    fn of(text: &str) -> Result<Target, String> {
        let (login, name) = match text.rsplit_once('@') {
            None => (None, text),
            Some((login, name)) => {
                let (user, password) = login.split_once(':').ok_or("a target with a user needs a password too")?;
                (Some((user.to_owned(), password.to_owned())), name)
            }
        };
        Ok(Target { name: name.to_owned(), login })
    }
}

impl Settings {
    /// Reads the options of the command.
    pub(super) fn of(given: &Given) -> Result<Settings, String> {
        let results = given.value("results").map(PathBuf::from);
        if let Some(path) = results.as_ref().filter(|path| runtime::blocking::list(path).is_err()) {
            return Err(format!("The results path ({}) should be an existing directory", path.display()));
        }
        let queries = given.value("store-queries").map(PathBuf::from);
        if queries.is_some() && results.is_none() {
            return Err("--store-queries requires --results".into());
        }
        let file = |name: &str| given.value(name).map(PathBuf::from);
        let ssl = Ssl { trust: file("ssl-trust"), certificate: file("ssl-certificate"), key: file("ssl-key") };
        if ssl != Ssl::default() && !given.has("ssl") {
            return Err("--ssl-trust, --ssl-certificate and --ssl-key need --ssl".into());
        }
        let settings = Settings {
            paths: given.paths.iter().map(PathBuf::from).collect(),
            targets: given.values("target").map(Target::of).collect::<Result<_, _>>()?,
            keyspace: given.value("keyspace").map(str::to_owned),
            with_definitions: given.has("replay-ddl-statements"),
            results,
            queries,
            ssl: given.has("ssl").then_some(ssl),
        };
        // What is there already would be mixed up with what comes.
        match settings.files().into_iter().flatten().chain(settings.query_file()).find(|path| exists(path)) {
            Some(path) => Err(format!("{} exists already", path.display())),
            None => Ok(settings),
        }
    }

    /// The file of the results of each target.
    fn files(&self) -> Vec<Option<PathBuf>> {
        let file = |target: &Target| self.results.as_ref().map(|path| path.join(&target.name).join(RESULTS));
        self.targets.iter().map(file).collect()
    }

    fn query_file(&self) -> Option<PathBuf> {
        self.queries.as_ref().map(|path| path.join(QUERIES))
    }

    /// Whether a request is run again; else what is said about that, if anything.
    fn wants(&self, query: &LoggedQuery) -> Result<(), Option<String>> {
        let text = || query.single().map_or("", |statement| statement.text.as_str());
        if let (Some(wanted), Some(keyspace)) = (&self.keyspace, &query.keyspace)
            && wanted != keyspace
        {
            return Err(None);
        }
        if !self.with_definitions && query.is_definition() {
            return Err(Some(format!("Excluding DDL statement from replaying: {}", text())));
        }
        if query.lacks_password() {
            return Err(Some(format!("Excluding statement whose password was not logged: {}", text())));
        }
        Ok(())
    }
}

/// Runs the command. Its last line tells how many requests were run, and how many of them failed or differ.
pub(super) fn run(settings: Settings) -> Result<(), String> {
    let options = runtime::uring::Options { shards: 1, cpus: Vec::new(), spin: Duration::ZERO, helpers: 1 };
    let done = runtime::uring::run(options, move |_| replay(settings.clone()));
    let done = done.map_err(|error| format!("the runtime did not start: {error}"))?;
    done.into_iter().next().unwrap_or_else(|| Err("nothing ran".into()))
}

/// A server with the connection to it, if there is one.
struct Server {
    address: Address,
    session: Option<Session>,
}

async fn replay(settings: Settings) -> Result<(), String> {
    let ssl = settings.ssl.as_ref().map(Ssl::context).transpose()?;
    let names: Vec<String> = settings.targets.iter().map(|target| target.name.clone()).collect();
    let (files, query_file) = (settings.files(), settings.query_file());
    let mut servers = Vec::new();
    for Target { name, login } in &settings.targets {
        let host = resolve(name, DEFAULT_PORT)?;
        let address = Address { host, source: None, login: login.clone(), ssl: ssl.clone(), version: Version::V5 };
        let session = Some(Session::open(&address).await?);
        servers.push(Server { address, session });
    }
    let mut lines = LogReader::full(settings.paths.clone());
    let (mut count, mut failed, mut differ) = (0, 0, 0);
    let began = runtime::now();
    while let Some(line) = lines.next_line(true).map_err(|error| error.to_string())? {
        let query = LoggedQuery::of_line(&line)?;
        if let Err(said) = settings.wants(&query) {
            said.map_or(Ok(()), |said| print(&format!("{said}\n")))?;
            continue;
        }
        let mut outcomes = Vec::with_capacity(servers.len());
        for server in &mut servers {
            outcomes.push(Some(server.run(&query).await));
        }
        count += 1;
        failed += u64::from(outcomes.iter().flatten().any(|outcome| matches!(outcome, Outcome::Failed(_))));
        let mut told = String::new();
        differ += u64::from(compare(&names, &query, &outcomes, &mut told));
        print(&told)?;
        store(query_file.as_deref(), &line)?;
        for (file, outcome) in files.iter().zip(outcomes.iter().flatten()) {
            store(file.as_deref(), &outcome.line())?;
        }
        if count % PROGRESS == 0 {
            let rate = count as f64 / runtime::now().since(began).as_secs_f64();
            print(&format!("{count} queries, rate = {rate:.2}\n"))?;
        }
    }
    print(&format!("{count} queries replayed, {failed} failed, {differ} differ\n"))
}

fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| format!("standard output: {error}"))
}

fn store(file: Option<&Path>, line: &str) -> Result<(), String> {
    let Some(file) = file else { return Ok(()) };
    append(file, format!("{line}\n").as_bytes()).map_err(|error| format!("{}: {error}", file.display()))
}

impl Server {
    /// Runs a request and fetches all of its result. A connection that has broken is made anew for the next request.
    async fn run(&mut self, query: &LoggedQuery) -> Outcome {
        let session = match &mut self.session {
            Some(session) => session,
            None => match Session::open(&self.address).await {
                Ok(session) => self.session.insert(session),
                Err(text) => return Outcome::Failed(text),
            },
        };
        match outcome_of(session, query).await {
            Ok(outcome) => outcome,
            Err(text) => {
                self.session = None;
                Outcome::Failed(text)
            }
        }
    }
}

/// What a server answers. The error is one of the connection, which is of no use any more.
async fn outcome_of(session: &mut Session, query: &LoggedQuery) -> Result<Outcome, String> {
    let (mut rows, mut bytes) = (Vec::new(), 0);
    let mut state: Option<Vec<u8>> = None;
    loop {
        let answer = match session.exchange(&request_of(query, state.as_deref())).await? {
            Response::Rows(answer) => answer,
            Response::Error { text, .. } => return Ok(Outcome::Failed(text)),
            _ => return Ok(Outcome::Rows { columns: Vec::new(), rows: Vec::new() }),
        };
        let column = |column: &model::ColumnSpec| (column.name.to_string(), column.cql_type.class_name());
        let columns = answer.columns.iter().map(column).collect();
        bytes += answer.rows.iter().flatten().flatten().map(Vec::len).sum::<usize>();
        if bytes > RESULT_BYTES_MAX {
            return Ok(Outcome::Failed(format!("The result of {} is too large", shown(query))));
        }
        rows.extend(answer.rows);
        state = answer.paging_state;
        if state.is_none() {
            return Ok(Outcome::Rows { columns, rows });
        }
    }
}

/// The request of a line; `state`: where the next page begins.
fn request_of<'q>(query: &'q LoggedQuery, state: Option<&'q [u8]>) -> Request<'q> {
    let parameters = QueryParameters {
        serial_consistency: query.serial_consistency,
        timestamp: query.timestamp.or(query.began.checked_mul(1000)),
        keyspace: query.keyspace.as_deref(),
        now_in_seconds: query.now_in_seconds,
        ..QueryParameters::new(query.consistency)
    };
    match &query.statements {
        LoggedStatements::Single(statement, names) => Request::Query {
            text: &statement.text,
            parameters: QueryParameters {
                values: statement.values.iter().map(|value| value.bound()).collect(),
                names: names.as_ref().map(|names| names.iter().map(String::as_str).collect()),
                page_size: Some(query.page_size.unwrap_or(PAGE_ROWS)),
                paging_state: state,
                ..parameters
            },
        },
        LoggedStatements::Batch(kind, statements) => {
            let entry = |statement: &'q server::query_log::logged::LoggedStatement| BatchEntry {
                statement: BatchStatement::Text(&statement.text),
                values: statement.values.iter().map(|value| value.bound()).collect(),
            };
            Request::Batch(Batch { kind: *kind, entries: statements.iter().map(entry).collect(), parameters })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(options: &[(&'static str, &str)]) -> Result<Settings, String> {
        let options = options.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Settings::of(&Given { options, paths: vec!["log".into()] })
    }

    fn query(text: &str, keyspace: Option<&str>) -> LoggedQuery {
        let line = serde_json::json!({
            "version": 1, "type": "single-query", "protocol-version": 5, "query-start-time": 7, "keyspace": keyspace,
            "consistency": "QUORUM", "query": text, "values": [],
        });
        LoggedQuery::of_line(&line.to_string()).expect("a line")
    }

    #[test]
    fn targets_and_options_are_checked() {
        let target = |text| Target::of(text).map(|target| (target.name, target.login));
        let login = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(target("127.0.0.1:9043"), Ok(("127.0.0.1:9043".into(), None)));
        assert_eq!(target("joe:p@ss:w@h"), Ok(("h".into(), login("joe", "p@ss:w"))));
        assert!(target("joe@h").is_err());
        let refused = |options: &[(&'static str, &str)]| settings(options).err().expect("refused");
        assert!(refused(&[("target", "h"), ("results", "/dev/null/x")]).contains("should be an existing directory"));
        assert!(refused(&[("target", "h"), ("store-queries", "q")]).contains("requires --results"));
        assert!(refused(&[("target", "h"), ("ssl-trust", "x")]).contains("need --ssl"));
    }

    #[test]
    fn some_requests_are_left_out() {
        let of = |options: &[(&'static str, &str)]| settings(&[&[("target", "h")], options].concat()).expect("valid");
        let read = |keyspace| query("SELECT * FROM t", keyspace);
        assert_eq!(of(&[]).wants(&read(Some("k"))), Ok(()));
        assert_eq!(of(&[("keyspace", "k")]).wants(&read(Some("k"))), Ok(()));
        assert_eq!(of(&[("keyspace", "k")]).wants(&read(None)), Ok(()));
        assert_eq!(of(&[("keyspace", "k")]).wants(&read(Some("other"))), Err(None));
        let drop = query("DROP TABLE k.t", None);
        let said = "Excluding DDL statement from replaying: DROP TABLE k.t".to_owned();
        assert_eq!(of(&[]).wants(&drop), Err(Some(said)));
        assert_eq!(of(&[("replay-ddl-statements", "")]).wants(&drop), Ok(()));
        assert!(matches!(of(&[]).wants(&query("ALTER ROLE a WITH PASSWORD = '*******'", None)), Err(Some(_))));
    }

    #[test]
    fn writes_without_a_timestamp_get_the_time_of_their_request() {
        let query = query("INSERT INTO t (a) VALUES (1)", Some("k"));
        let Request::Query { text, parameters } = request_of(&query, None) else { panic!("no QUERY") };
        assert_eq!(
            (text, parameters.timestamp, parameters.keyspace),
            ("INSERT INTO t (a) VALUES (1)", Some(7000), Some("k"))
        );
        assert_eq!((parameters.page_size, parameters.consistency.name()), (Some(PAGE_ROWS), "QUORUM"));
    }
}
