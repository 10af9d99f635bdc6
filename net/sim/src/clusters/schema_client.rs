//! A client that changes the schema through one node, and the judge of what it is told.
//!
//! The comment of a table is the number of the change that wrote it, so what a table is like names the last change. A
//! table that is missing has none. CREATE wants it missing, ALTER and DROP want it there.

use crate::judges::linearizable::{Answer, Ending, Expected, Operation, Partition};
use model::ErrorCode;
use runtime::rng;
use server::client::{CallError, Client, Outcome, QueryOptions};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// The keyspace of the tables that change.
pub(super) const KEYSPACE: &str = "changes";
/// How many tables change.
pub(super) const TABLES: usize = 3;
/// Most changes of a table whose end is not known: each of them may have come at any time, so that more would have too
/// many orders to look at.
const OPEN_MAX: u64 = 5;
/// How long a client waits for one answer; longer than the node takes to give up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest pause between two changes of a client.
const PAUSE_MILLIS_MAX: u64 = 400;

/// What all clients of a run know together.
#[derive(Default)]
pub(super) struct Changes {
    tables: [Partition; TABLES],
    next: i64,
    /// Changes begun on each table, and changes whose end is not known.
    begun: [u64; TABLES],
    open: [u64; TABLES],
    /// Faults begun and ended so far, and faults under way.
    pub(super) fault_count: u64,
    pub(super) faults: u64,
    /// How often a change was looked for on another node at once.
    pub(super) looked_for: u64,
    /// Changes that were answered as made.
    pub(super) made: u64,
    /// Changes of which it is not known whether they were made.
    pub(super) unknown: u64,
    /// The first broken rule.
    pub(super) violation: Option<String>,
    /// Tells the clients to leave.
    pub(super) stop: bool,
    /// How many clients have left.
    pub(super) left: usize,
}

/// The knowledge that the tasks of one thread share.
pub(super) type SharedChanges = Rc<RefCell<Changes>>;

impl Changes {
    /// If nobody else changes the table and nothing is broken: what stays the same as long as that is so.
    fn quiet(&self, table: usize) -> Option<(u64, u64)> {
        (self.open[table] == 1 && self.faults == 0).then_some((self.begun[table], self.fault_count))
    }

    /// Checks what a table is like when nothing changes any more.
    pub(super) fn check_end(&mut self, table: usize, comment: Option<i64>) -> Result<(), String> {
        let partition = &mut self.tables[table];
        partition.settle().map_err(|error| format!("table t{table}: {error}"))?;
        partition.restarted();
        let id = partition.begin(Operation::default());
        let answer = Answer { applied: true, shown: vec![(0, comment)] };
        partition.finish(id, Ending::Answered(answer)).map_err(|error| format!("table t{table}: {error}"))
    }
}

/// Sends changes through the node at `server` until the run stops, and looks for some of them on one of `others`.
pub(super) async fn client(server: SocketAddr, others: Vec<SocketAddr>, changes: SharedChanges) {
    while !changes.borrow().stop {
        let connected = runtime::timeout(Duration::from_secs(5), Client::connect(server, None, 4)).await;
        let Some(Ok(mut client)) = connected else {
            runtime::sleep(Duration::from_millis(200)).await;
            continue;
        };
        while !changes.borrow().stop && change(&mut client, &others, &changes).await {
            runtime::sleep(Duration::from_millis(rng::below(PAUSE_MILLIS_MAX))).await;
        }
    }
    changes.borrow_mut().left += 1;
}

/// Sends one change. Returns whether the connection can be used again.
async fn change(client: &mut Client, others: &[SocketAddr], changes: &SharedChanges) -> bool {
    let table = rng::below(TABLES as u64) as usize;
    let (text, id, after, quiet) = {
        let mut changes = changes.borrow_mut();
        if changes.open[table] >= OPEN_MAX {
            return true;
        }
        changes.next += 1;
        changes.begun[table] += 1;
        changes.open[table] += 1;
        let number = changes.next;
        let name = format!("{KEYSPACE}.t{table}");
        let (text, expected, after) = match rng::below(4) {
            0 | 1 => (
                format!("CREATE TABLE {name} (k int PRIMARY KEY, v int) WITH comment = '{number}'"),
                Expected::Value(None),
                Some(number),
            ),
            2 => (format!("ALTER TABLE {name} WITH comment = '{number}'"), Expected::Some, Some(number)),
            _ => (format!("DROP TABLE {name}"), Expected::Some, None),
        };
        let operation = Operation { expects: vec![(0, expected)], writes: vec![(0, after)] };
        let quiet = changes.quiet(table);
        (text, changes.tables[table].begin(operation), after, quiet)
    };
    let result = runtime::timeout(ANSWER_TIMEOUT, client.query(&text, &QueryOptions::default())).await;
    let ending = ending_of(result.as_ref());
    let is_made = matches!(ending, Ending::Answered(_));
    {
        let mut changes = changes.borrow_mut();
        match &ending {
            Ending::Answered(_) => changes.made += 1,
            Ending::Unknown => changes.unknown += 1,
            Ending::Failed => {}
        }
        // What may still come disturbs every later look at the table.
        changes.open[table] -= u64::from(!matches!(ending, Ending::Unknown));
        if let Err(error) = changes.tables[table].finish(id, ending) {
            changes.violation.get_or_insert(format!("{text}: {error}"));
        }
    }
    if is_made
        && let Some(quiet) = quiet
        && !others.is_empty()
    {
        let other = others[rng::below(others.len() as u64) as usize];
        let seen = runtime::timeout(ANSWER_TIMEOUT, served(other)).await.flatten();
        let mut changes = changes.borrow_mut();
        if let Some(seen) = seen
            && changes.begun[table] == quiet.0
            && changes.fault_count == quiet.1
        {
            changes.looked_for += 1;
            if seen.comments[table] != after {
                let found = seen.comments[table];
                let text = format!("{text} was answered, and {other} served {found:?} instead of {after:?}");
                changes.violation.get_or_insert(text);
            }
        }
    }
    !matches!(result, None | Some(Err(CallError::Broken(_))))
}

/// What an answer says of a change. That a table is there or missing may be old news where a node is cut off, so a
/// refusal only says that nothing was changed.
fn ending_of(result: Option<&Result<Outcome, CallError>>) -> Ending {
    match result {
        Some(Ok(_)) => Ending::Answered(Answer { applied: true, shown: Vec::new() }),
        Some(Err(CallError::Failure { code, .. })) if *code >= ErrorCode::Syntax as u16 => Ending::Failed,
        _ => Ending::Unknown,
    }
}

/// What a node serves: the version of its schema, and the comment of each table that changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Served {
    version: Vec<u8>,
    pub(super) comments: [Option<i64>; TABLES],
}

/// Asks a node what it serves; `None` if it does not answer.
pub(super) async fn served(server: SocketAddr) -> Option<Served> {
    let mut client = Client::connect(server, None, 4).await.ok()?;
    let options = QueryOptions::default();
    let local = client.query("SELECT schema_version FROM system.local", &options).await.ok()?;
    let version = local.rows.first()?.first()?.clone()?;
    let text = format!("SELECT table_name, comment FROM system_schema.tables WHERE keyspace_name = '{KEYSPACE}'");
    let mut comments = [None; TABLES];
    for row in client.query(&text, &options).await.ok()?.rows {
        let [Some(name), Some(comment)] = row.as_slice() else { return None };
        let name = std::str::from_utf8(name).ok()?.strip_prefix('t')?;
        *comments.get_mut(name.parse::<usize>().ok()?)? = std::str::from_utf8(comment).ok()?.parse().ok();
    }
    Some(Served { version, comments })
}
