//! Clients that write and read at random through CQL and tell the oracle what they saw.
//!
//! Tables: `plain (pk, a, b)`, `wide (pk, ck, a, b)`, shared by all clients, and `own<n> (pk, ck, a, b)` of client `n` alone,
//! which it also empties by TRUNCATE or by DROP and CREATE. Every write carries USING TIMESTAMP of its own id, so the
//! winner of each cell is known.

use crate::oracle::{CellKey, Fate, MARKER, Oracle, PartitionRows, Place, Violation, WriteId};
use model::ErrorCode;
use runtime::rng;
use server::client::{CallError, Client, Outcome, QueryOptions};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Partition keys in use: `0..PARTITIONS`.
pub const PARTITIONS: i64 = 8;
/// Clusterings in use: `0..ROWS`.
pub const ROWS: i64 = 6;
/// Value columns of every table: `a` and `b`.
const COLUMNS: u8 = 2;

/// Shared by the clients and the driver of a run.
#[derive(Default)]
pub struct World {
    /// What happened.
    pub oracle: Oracle,
    /// The first broken rule.
    pub violation: Option<String>,
    /// Clients finish their current request and leave.
    pub stop: bool,
    /// Clients that have left.
    pub left: usize,
    /// Statements answered.
    pub answered: u64,
    /// Whether what a read shows is durable (commit log modes `group` and `batch`).
    pub reads_are_durable: bool,
    /// No new requests: the driver is about to look at everything.
    pub paused: bool,
    /// Requests under way.
    pub busy: usize,
}

/// A world shared on one thread.
pub type SharedWorld = Rc<RefCell<World>>;

/// A table of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestTable {
    /// Its number in cell keys: 0 plain, 1 wide, 2 and up own.
    pub index: u8,
}

impl TestTable {
    /// Its name, with the keyspace.
    pub fn name(self) -> String {
        match self.index {
            0 => "s.plain".into(),
            1 => "s.wide".into(),
            n => format!("s.own{}", n - 2),
        }
    }

    /// CREATE TABLE IF NOT EXISTS.
    pub fn create(self) -> String {
        let key = if self.index == 0 { "pk bigint PRIMARY KEY" } else { "pk bigint, ck bigint" };
        let rest = if self.index == 0 { "" } else { ", PRIMARY KEY (pk, ck)" };
        format!("CREATE TABLE IF NOT EXISTS {} ({key}, a bigint, b bigint{rest})", self.name())
    }

    fn clusterings(self) -> Vec<i64> {
        if self.index == 0 { vec![0] } else { (0..ROWS).collect() }
    }

    fn row_of(self, pk: i64, ck: i64) -> String {
        if self.index == 0 { format!("pk = {pk}") } else { format!("pk = {pk} AND ck = {ck}") }
    }
}

/// A statement with what it does to cells.
struct WriteOp {
    text: String,
    effects: Vec<(CellKey, Option<WriteId>)>,
}

/// One modification of `table` in partition `pk` by write `id`. In a batch the timestamp stands outside.
fn random_write(table: TestTable, pk: i64, id: WriteId, batched: bool) -> WriteOp {
    let ck = if table.index == 0 { 0 } else { rng::below(ROWS as u64) as i64 };
    let name = table.name();
    let using = if batched { String::new() } else { format!(" USING TIMESTAMP {id}") };
    let cell = |ck, column| CellKey { table: table.index, pk, ck, column };
    let whole_row = |ck| (0..=COLUMNS).map(move |column| (cell(ck, column), None));
    let row = table.row_of(pk, ck);
    match rng::below(10) {
        0..=3 => {
            let key = if table.index == 0 { format!("{pk}") } else { format!("{pk}, {ck}") };
            let columns = if table.index == 0 { "pk" } else { "pk, ck" };
            WriteOp {
                text: format!("INSERT INTO {name} ({columns}, a, b) VALUES ({key}, {id}, {id}){using}"),
                effects: (0..=COLUMNS).map(|column| (cell(ck, column), Some(id))).collect(),
            }
        }
        4..=5 => {
            let column = 1 + rng::below(COLUMNS as u64) as u8;
            let letter = if column == 1 { "a" } else { "b" };
            WriteOp {
                text: format!("UPDATE {name}{using} SET {letter} = {id} WHERE {row}"),
                effects: vec![(cell(ck, column), Some(id))],
            }
        }
        6 => WriteOp { text: format!("DELETE a FROM {name}{using} WHERE {row}"), effects: vec![(cell(ck, 1), None)] },
        7 => WriteOp { text: format!("DELETE FROM {name}{using} WHERE {row}"), effects: whole_row(ck).collect() },
        8 if table.index != 0 => {
            let from = rng::below(ROWS as u64) as i64;
            let to = rng::below(ROWS as u64 + 1) as i64;
            WriteOp {
                text: format!("DELETE FROM {name}{using} WHERE pk = {pk} AND ck >= {from} AND ck < {to}"),
                effects: (from..to).flat_map(whole_row).collect(),
            }
        }
        _ => WriteOp {
            text: format!("DELETE FROM {name}{using} WHERE pk = {pk}"),
            effects: table.clusterings().into_iter().flat_map(whole_row).collect(),
        },
    }
}

/// Several modifications of one partition, over both shared tables, as one batch: later ones win their cells.
fn random_batch(pk: i64, id: WriteId) -> WriteOp {
    let mut effects: Vec<(CellKey, Option<WriteId>)> = Vec::new();
    let mut texts = Vec::new();
    for _ in 0..2 + rng::below(4) {
        let table = TestTable { index: rng::below(2) as u8 };
        let op = random_write(table, pk, id, true);
        texts.push(format!("{};", op.text));
        // All have one timestamp: a deletion wins over a value, whatever the order.
        for (cell, value) in op.effects {
            match effects.iter_mut().find(|(other, _)| *other == cell) {
                Some(entry) if value.is_none() => entry.1 = None,
                Some(_) => {}
                None => effects.push((cell, value)),
            }
        }
    }
    let kind = if rng::below(2) == 0 { "BATCH" } else { "UNLOGGED BATCH" };
    WriteOp { text: format!("BEGIN {kind} USING TIMESTAMP {id} {} APPLY BATCH", texts.join(" ")), effects }
}

fn fate_of(result: &Result<Outcome, CallError>) -> Fate {
    match result {
        Ok(_) => Fate::Acknowledged,
        Err(CallError::Failure { code, .. }) => match *code {
            code if code == ErrorCode::Invalid as u16
                || code == ErrorCode::Overloaded as u16
                || code == ErrorCode::Unavailable as u16
                || code == ErrorCode::Unprepared as u16
                || code == ErrorCode::IsBootstrapping as u16 =>
            {
                Fate::Failed
            }
            _ => Fate::Unknown,
        },
        Err(CallError::Broken(_)) => Fate::Unknown,
    }
}

/// One client: connects, works until the connection breaks, connects again, until the world stops.
pub async fn client(number: u8, servers: Vec<SocketAddr>, world: SharedWorld) {
    while !world.borrow().stop {
        let address = servers[rng::below(servers.len() as u64) as usize];
        let version = if rng::below(2) == 0 { 4 } else { 5 };
        let connected = runtime::timeout(Duration::from_secs(5), Client::connect(address, None, version)).await;
        let Some(Ok(mut client)) = connected else {
            runtime::sleep(Duration::from_millis(20 + rng::below(50))).await;
            continue;
        };
        let own = TestTable { index: 2 + number };
        if client.query(&own.create(), &QueryOptions::default()).await.is_err() {
            continue;
        }
        while !world.borrow().stop {
            if world.borrow().paused {
                runtime::sleep(Duration::from_millis(1)).await;
                continue;
            }
            world.borrow_mut().busy += 1;
            let went = step(number, &mut client, &world).await;
            world.borrow_mut().busy -= 1;
            match went {
                Ok(()) => {}
                Err(Broken::Rule(violation)) => {
                    world.borrow_mut().violation.get_or_insert(violation.0);
                    return;
                }
                Err(Broken::Connection) => break,
            }
            if rng::below(4) == 0 {
                runtime::sleep(Duration::from_micros(rng::below(3000))).await;
            }
        }
    }
    world.borrow_mut().left += 1;
}

enum Broken {
    Connection,
    Rule(Violation),
}

impl From<Violation> for Broken {
    fn from(violation: Violation) -> Broken {
        Broken::Rule(violation)
    }
}

async fn step(number: u8, client: &mut Client, world: &SharedWorld) -> Result<(), Broken> {
    let own = TestTable { index: 2 + number };
    let table = match rng::below(5) {
        0 | 1 => TestTable { index: 0 },
        2 | 3 => TestTable { index: 1 },
        _ => own,
    };
    let pk = rng::below(PARTITIONS as u64) as i64;
    match rng::below(100) {
        0..=44 => {
            let id = world.borrow().oracle.next_id();
            write(client, world, random_write(table, pk, id, false)).await
        }
        45..=59 => {
            let id = world.borrow().oracle.next_id();
            write(client, world, random_batch(pk, id)).await
        }
        60..=95 => read_partition(client, world, table, pk).await,
        96..=97 => scan(client, world, table).await,
        _ => empty(client, world, own).await,
    }
}

async fn write(client: &mut Client, world: &SharedWorld, op: WriteOp) -> Result<(), Broken> {
    if op.effects.is_empty() {
        return Ok(());
    }
    let id = world.borrow_mut().oracle.begin(op.effects, runtime::now().0);
    let result = client.query(&op.text, &QueryOptions::default()).await;
    let mut world = world.borrow_mut();
    world.answered += 1;
    world.oracle.finish(id, fate_of(&result), runtime::now().0)?;
    match result {
        Err(CallError::Broken(_)) => Err(Broken::Connection),
        // A client's own table is missing between a DROP and the CREATE that a crash prevented.
        Err(CallError::Failure { code, text }) if code >= ErrorCode::Syntax as u16 && !op.text.contains("s.own") => {
            Err(Broken::Rule(Violation(format!("{} was refused: {code:#06x} {text}", op.text))))
        }
        _ => Ok(()),
    }
}

fn value_of(bytes: &Option<Vec<u8>>) -> Option<i64> {
    Some(i64::from_be_bytes(bytes.as_deref()?.try_into().ok()?))
}

/// Reads one partition whole, forward or backward, and checks it.
async fn read_partition(client: &mut Client, world: &SharedWorld, table: TestTable, pk: i64) -> Result<(), Broken> {
    let order = if table.index != 0 && rng::below(3) == 0 { " ORDER BY ck DESC" } else { "" };
    let columns = if table.index == 0 { "pk, a, b" } else { "ck, a, b" };
    let text = format!("SELECT {columns} FROM {} WHERE pk = {pk}{order}", table.name());
    let started = runtime::now().0;
    let result = client.query(&text, &QueryOptions::default()).await;
    let ended = runtime::now().0;
    world.borrow_mut().answered += 1;
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(CallError::Broken(_)) => return Err(Broken::Connection),
        Err(CallError::Failure { .. }) => return Ok(()),
    };
    let mut previous: Option<i64> = None;
    let mut rows = PartitionRows::new();
    for row in &outcome.rows {
        let ck = if table.index == 0 { 0 } else { value_of(&row[0]).unwrap_or(-1) };
        let sorted = previous.is_none_or(|previous| if order.is_empty() { previous < ck } else { previous > ck });
        if !sorted {
            return Err(Violation(format!("{text}: rows out of order at {ck}")).into());
        }
        previous = Some(ck);
        rows.insert(ck, row[1..].iter().map(value_of).collect());
    }
    let mut world = world.borrow_mut();
    let learn = world.reads_are_durable;
    let cks = table.clusterings();
    let place = Place { table: table.index, pk, cks: &cks, columns: COLUMNS };
    world.oracle.check_partition(&place, &rows, (started, ended), learn)?;
    Ok(())
}

/// Reads a whole table page by page. Every page's rows are checked loosely: each key at most once.
async fn scan(client: &mut Client, world: &SharedWorld, table: TestTable) -> Result<(), Broken> {
    let columns = if table.index == 0 { "pk, a, b" } else { "pk, ck, a" };
    let text = format!("SELECT {columns} FROM {}", table.name());
    let mut seen = std::collections::BTreeSet::new();
    let mut options = QueryOptions { page_size: Some(1 + rng::below(7) as i32), ..QueryOptions::default() };
    loop {
        let outcome = match client.query(&text, &options).await {
            Ok(outcome) => outcome,
            Err(CallError::Broken(_)) => return Err(Broken::Connection),
            Err(CallError::Failure { .. }) => return Ok(()),
        };
        world.borrow_mut().answered += 1;
        for row in &outcome.rows {
            let key = (value_of(&row[0]), if table.index == 0 { None } else { value_of(&row[1]) });
            if !seen.insert(key) {
                return Err(Violation(format!("{text}: row {key:?} came twice")).into());
            }
        }
        match outcome.paging_state {
            Some(state) => options.paging_state = Some(state),
            None => return Ok(()),
        }
    }
}

/// Empties the client's own table.
async fn empty(client: &mut Client, world: &SharedWorld, own: TestTable) -> Result<(), Broken> {
    let drops = rng::below(3) == 0;
    let text = if drops { format!("DROP TABLE IF EXISTS {}", own.name()) } else { format!("TRUNCATE {}", own.name()) };
    let result = client.query(&text, &QueryOptions::default()).await;
    let fate = fate_of(&result);
    {
        let mut world = world.borrow_mut();
        world.answered += 1;
        world.oracle.emptied(own.index, fate);
    }
    if matches!(result, Err(CallError::Broken(_))) {
        return Err(Broken::Connection);
    }
    if drops {
        // Also mends a table that a crash between DROP and CREATE left missing.
        loop {
            match client.query(&own.create(), &QueryOptions::default()).await {
                Ok(_) => break,
                Err(CallError::Broken(_)) => return Err(Broken::Connection),
                Err(CallError::Failure { .. }) => runtime::sleep(Duration::from_millis(5)).await,
            }
        }
    }
    Ok(())
}

/// Creates what is missing of the workload's schema.
pub async fn create_schema(client: &mut Client, clients: u8) -> Result<(), CallError> {
    let options = QueryOptions::default();
    client
        .query(
            "CREATE KEYSPACE IF NOT EXISTS s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            &options,
        )
        .await?;
    for index in 0..2 + clients {
        client.query(&TestTable { index }.create(), &options).await?;
    }
    Ok(())
}

/// Reads every partition of every table once; for the moments when no client works.
pub async fn check_all(client: &mut Client, clients: u8, world: &SharedWorld) -> Result<(), String> {
    for index in 0..2 + clients {
        for pk in 0..PARTITIONS {
            match read_partition(client, world, TestTable { index }, pk).await {
                Ok(()) => {}
                Err(Broken::Connection) => return Err("the connection broke".into()),
                Err(Broken::Rule(violation)) => {
                    world.borrow_mut().violation.get_or_insert(violation.0);
                }
            }
        }
    }
    Ok(())
}

/// The marker column, named for readers of violations.
pub const MARKER_COLUMN: u8 = MARKER;
