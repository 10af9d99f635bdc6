//! The operator: sends nodetool's commands for flushes, compactions, snapshots and imports while clients use the node.
//!
//! An import brings back a snapshot of the same table that was taken shortly before. All its cells are in the history
//! with their timestamps, so reads must show what they would show without it, whatever was written, deleted, compacted
//! or lost in between. Tombstones must not be purged between a snapshot and its import, so `gc_grace_seconds` is longer
//! than that time. Nothing is imported into tables that clients truncate or drop: deleted rows would rightly come back.

use super::tables::{PARTITIONS, TestTable};
use super::world::SharedWorld;
use runtime::rng;
use server::admin::{self, protocol::Request};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

/// Longest wait between two commands.
const PAUSE_MICROS_MAX: u64 = 60_000;
/// Oldest snapshot that is imported. This age and the time that an import may take add up to less than the tables'
/// `gc_grace_seconds`.
const SNAPSHOT_AGE_MAX: Duration = Duration::from_secs(2);
/// Longest that an import may take.
const IMPORT_AGE_MAX: Duration = Duration::from_secs(4);
/// Longest that a command may take, virtual time.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of the kind of command that imports.
const IMPORT: u64 = 8;
/// The kinds of the first commands. A run has few commands, and chance alone would miss these kinds in many runs.
const EARLY: [u64; 5] = [5, 6, IMPORT, 7, 9];

/// Sends one command after another until the world stops. A refused command breaks a rule; a broken connection means
/// that a crash interrupted the command.
pub async fn operate(address: IpAddr, clients: u8, world: SharedWorld) {
    let mut asked = 0;
    let mut fresh: Option<(String, runtime::Instant)> = None;
    while !world.borrow().stop {
        runtime::sleep(Duration::from_micros(rng::below(PAUSE_MICROS_MAX))).await;
        if world.borrow().paused {
            continue;
        }
        let request = {
            let world = world.borrow();
            let kind = EARLY.get(asked).copied().unwrap_or_else(|| rng::below(10));
            let table = TestTable { index: rng::below(2 + u64::from(clients)) as u8 };
            match kind {
                IMPORT => None,
                _ => Some(command(kind, table, world.snapshots.first())),
            }
        };
        asked += 1;
        let request = match request {
            Some(request) => request,
            None => {
                let recent = fresh.take().filter(|(_, taken)| runtime::now().since(*taken) < SNAPSHOT_AGE_MAX);
                let Some((tag, taken)) = recent else { continue };
                let Some(request) = import(address, &tag).await else { continue };
                if runtime::now().since(taken) > SNAPSHOT_AGE_MAX {
                    continue;
                }
                request
            }
        };
        let asked_at = runtime::now();
        if request.command == "clearsnapshot" {
            // Once the request is sent, the node may have deleted the snapshot, even if no answer comes.
            world.borrow_mut().snapshots.retain(|tag| Some(tag.as_str()) != request.option("-t"));
            fresh = fresh.filter(|(tag, _)| Some(tag.as_str()) != request.option("-t"));
        }
        let answer = runtime::timeout(PATIENCE, admin::ask(address, &request)).await;
        let mut world = world.borrow_mut();
        // An import that a crash interrupted is undone by the next start, however late the operator learns of it.
        let answered = matches!(answer, Some(Ok(_)));
        if request.command == "import" && answered && runtime::now().since(asked_at) > IMPORT_AGE_MAX {
            world.violation.get_or_insert(format!("{request:?} took too long for the model"));
            return;
        }
        match answer {
            Some(Ok(answer)) if answer.exit == 0 => {
                if request.command == "snapshot" {
                    fresh = request.option("-t").map(|tag| (tag.to_owned(), asked_at));
                }
                *world.commands.entry(request.command.clone()).or_default() += 1;
                let tag = request.option("-t").map(str::to_owned);
                world.snapshots.extend(tag.filter(|_| request.command == "snapshot"));
            }
            // A client's own table is missing while it is dropped and created again; the node may be stopping.
            Some(Ok(answer))
                if ["Unknown keyspace/cf", "closing", "stopping"].iter().any(|text| answer.err.contains(text)) => {}
            Some(Ok(answer)) => {
                world.violation.get_or_insert(format!("{request:?} was refused: {}{}", answer.out, answer.err));
                return;
            }
            Some(Err(_)) => {}
            None => {
                world.violation.get_or_insert(format!("{request:?} was not answered"));
                return;
            }
        }
    }
}

/// A request to import a snapshot of a shared table; `None` if the table has no SSTable whose path tells its directory.
async fn import(address: IpAddr, tag: &str) -> Option<Request> {
    let table = TestTable { index: rng::below(2) as u8 };
    let (keyspace, name) = table.keyspace_and_name();
    let key = rng::below(PARTITIONS as u64).to_string();
    let arguments = vec![keyspace.clone(), name.clone(), key];
    let find = Request { command: "getsstables".into(), options: Vec::new(), arguments };
    let found = runtime::timeout(PATIENCE, admin::ask(address, &find)).await?.ok()?;
    let directory = Path::new(found.out.lines().next()?).parent()?.join("snapshots").join(tag);
    let options = [("-cd", 1), ("-e", 2), ("-l", 2), ("-q", 4)];
    let options = options.into_iter().filter(|(_, one_in)| rng::below(*one_in) == 0);
    let options = options.map(|(name, _)| (name.to_owned(), String::new())).collect();
    let arguments = vec![keyspace, name, directory.to_string_lossy().into_owned()];
    Some(Request { command: "import".into(), options, arguments })
}

/// Random options of `compact`: compact everything into one or several SSTables, one partition, or a range of tokens.
fn compact_options() -> Vec<(String, String)> {
    let option = |name: &str, value: String| (name.to_owned(), value);
    let token = || (rng::below(u64::MAX) as i64).to_string();
    match rng::below(8) {
        0 => vec![option("-s", String::new())],
        1 => vec![option("--partition", rng::below(PARTITIONS as u64).to_string())],
        2 => vec![option("-st", token()), option("-et", token())],
        _ => Vec::new(),
    }
}

fn command(kind: u64, table: TestTable, oldest_snapshot: Option<&String>) -> Request {
    let (keyspace, name) = table.keyspace_and_name();
    let tagged = |tag: String| vec![("-t".to_owned(), tag)];
    let (command, options, arguments) = match kind {
        0 => ("flush", Vec::new(), vec![keyspace]),
        1..=5 => ("flush", Vec::new(), vec![keyspace, name]),
        6 => ("snapshot", tagged(format!("tag{}", rng::below(u64::MAX))), vec![keyspace]),
        7 if oldest_snapshot.is_some() => {
            ("clearsnapshot", tagged(oldest_snapshot.cloned().unwrap_or_default()), vec![keyspace])
        }
        _ => ("compact", compact_options(), vec![keyspace, name]),
    };
    Request { command: command.into(), options, arguments }
}
