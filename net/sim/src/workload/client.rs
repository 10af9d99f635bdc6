//! Clients that write and read at random through CQL and tell the oracle what they saw.
//!
//! Every write carries USING TIMESTAMP of its own number, so the winner of each cell is known. Besides they change the
//! schema under their own traffic: comments and idle columns of shared tables, column `c` of their own one.

use crate::judges::history::{Effects, Fate, History, Violation, WriteId};
use crate::workload::counters::{self, Counters};
use crate::workload::indexes;
use crate::workload::reads::{self, Scan};
use crate::workload::registers::{self, Registers};
use crate::workload::tables::column::C;
use crate::workload::tables::{CREATE_TYPE, PARTITIONS, TestTable};
use crate::workload::writes::{self, Manner, TIMESTAMP_STEP};
use model::ErrorCode;
use runtime::rng;
use server::client::{CallError, Client, Outcome, QueryOptions};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Most partitions of one batch.
const BATCH_PARTITIONS_MAX: u64 = 3;
/// Longest pause of a client, so that what has a time to live dies under way.
const NAP_SECONDS_MAX: u64 = 4;

/// What the clients of a run do.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Work {
    /// Everything that there is.
    #[default]
    Everything,
    /// Conditional changes and SERIAL reads alone: many decisions in a short time.
    Registers,
}

/// Shared by the clients and the driver of a run.
#[derive(Default)]
pub struct World {
    /// What the clients do.
    pub work: Work,
    /// What happened.
    pub history: History,
    /// What was counted.
    pub counters: Counters,
    /// The first broken rule.
    pub violation: Option<String>,
    /// Clients finish their current request and leave.
    pub stop: bool,
    /// Clients that have left.
    pub left: usize,
    /// Statements answered.
    pub answered: u64,
    /// Reads checked.
    pub reads_checked: u64,
    /// Those of them of whole tables through indexes.
    pub index_reads: u64,
    /// Commands of the operator that were carried out, by name.
    pub commands: BTreeMap<String, u64>,
    /// Whether what a read shows is durable (commit log modes `group` and `batch`).
    pub reads_are_durable: bool,
    /// No new requests: the driver is about to look at everything.
    pub paused: bool,
    /// Names of snapshots that were taken and not cleared.
    pub snapshots: Vec<String>,
    /// Requests under way.
    pub busy: usize,
    /// Whether a client's own table has column `c`; nothing if nobody can tell.
    pub(crate) columns_c: BTreeMap<u8, Option<bool>>,
    /// What conditional changes did.
    pub registers: Registers,
}

impl World {
    /// See [`History::restarted`].
    pub fn restarted(&mut self, now: u64, may_lose_since: Option<u64>) {
        self.history.restarted(now, may_lose_since);
        self.counters.restarted(now, may_lose_since);
        self.registers.restarted();
    }

    /// Whether column `c` of an own table is there for sure.
    pub fn has_c(&self, table: TestTable) -> bool {
        // A table begins with it.
        self.columns_c.get(&table.index).copied().unwrap_or(Some(true)) == Some(true)
    }
}

/// A world shared on one thread.
pub type SharedWorld = Rc<RefCell<World>>;

pub(crate) fn fate_of(result: &Result<Outcome, CallError>) -> Fate {
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

/// Why a client gives up its connection, or the run.
pub(crate) enum Broken {
    Connection,
    Rule(Violation),
}

impl From<Violation> for Broken {
    fn from(violation: Violation) -> Broken {
        Broken::Rule(violation)
    }
}

/// One client: connects, works until the connection breaks, connects again, until the world stops.
pub async fn client(number: u8, servers: Vec<SocketAddr>, world: SharedWorld) {
    let mut scan = None;
    while !world.borrow().stop {
        let address = servers[rng::below(servers.len() as u64) as usize];
        let version = if rng::below(2) == 0 { 4 } else { 5 };
        let connected = runtime::timeout(Duration::from_secs(5), Client::connect(address, None, version)).await;
        let Some(Ok(mut client)) = connected else {
            runtime::sleep(Duration::from_millis(20 + rng::below(50))).await;
            continue;
        };
        if client.query(&TestTable::own(number).create(), &QueryOptions::default()).await.is_err() {
            continue;
        }
        for index in indexes::create_all(TestTable::own(number)) {
            // Whoever finds none goes without.
            let _ = client.query(&index, &QueryOptions::default()).await;
        }
        while !world.borrow().stop {
            if world.borrow().paused {
                runtime::sleep(Duration::from_millis(1)).await;
                continue;
            }
            world.borrow_mut().busy += 1;
            let went = step(number, &mut client, &world, &mut scan).await;
            world.borrow_mut().busy -= 1;
            match went {
                Ok(()) => {}
                Err(Broken::Rule(violation)) => {
                    world.borrow_mut().violation.get_or_insert(violation.0);
                    return;
                }
                Err(Broken::Connection) => break,
            }
            match rng::below(400) {
                0 => runtime::sleep(Duration::from_secs(1 + rng::below(NAP_SECONDS_MAX))).await,
                1..=100 => runtime::sleep(Duration::from_micros(rng::below(3000))).await,
                _ => {}
            }
        }
    }
    world.borrow_mut().left += 1;
}

async fn step(number: u8, client: &mut Client, world: &SharedWorld, scan: &mut Option<Scan>) -> Result<(), Broken> {
    if world.borrow().work == Work::Registers || rng::below(5) == 0 {
        return registers::step(client, world).await;
    }
    let own = TestTable::own(number);
    let table = match rng::below(6) {
        0 => TestTable::PLAIN,
        1..=3 => TestTable::WIDE,
        _ => own,
    };
    let wide = if table.is_wide() { table } else { TestTable::WIDE };
    let pk = rng::below(PARTITIONS as u64) as i64;
    match rng::below(200) {
        0..=69 => modify(client, world, table, pk).await,
        70..=84 => counters::step(client, world).await,
        85..=109 => batch(client, world, pk).await,
        110..=169 => reads::partition(client, world, table, pk, false).await,
        170..=181 => reads::derived(client, world, wide, pk).await,
        182..=183 => reads::groups(client, world, wide).await,
        184..=187 => indexes::read(client, world, table).await,
        188..=193 => {
            let mut going = scan.take().unwrap_or_else(|| Scan::new(table));
            let done = going.next(client, world).await;
            if !matches!(done, Ok(true)) {
                *scan = Some(going);
            }
            done.map(|_| ())
        }
        194..=196 => alter(client, world, own, number).await,
        _ => empty(client, world, own, scan).await,
    }
}

async fn modify(client: &mut Client, world: &SharedWorld, table: TestTable, pk: i64) -> Result<(), Broken> {
    let (id, op) = {
        let world = world.borrow();
        let id = world.history.next_id();
        let manner = Manner { batched: false, has_c: table.is_own() && world.has_c(table) };
        (id, writes::random(table, pk, id, &world.history, manner))
    };
    if op.is_empty() {
        return Ok(());
    }
    write(client, world, &op.text, vec![op.effects(id)], op.ttl).await
}

async fn batch(client: &mut Client, world: &SharedWorld, pk: i64) -> Result<(), Broken> {
    let several = 1 + rng::below(BATCH_PARTITIONS_MAX) as i64;
    let pks: Vec<i64> = (0..several).map(|offset| (pk + offset) % PARTITIONS).collect();
    let (id, op) = {
        let history = &world.borrow().history;
        let id = history.next_id();
        (id, writes::random_batch(&pks, id, history))
    };
    let parts = pks.iter().enumerate().map(|(at, pk)| op.effects_on(*pk, id + at as WriteId)).collect();
    write(client, world, &op.text, parts, None).await
}

/// Sends a write that has a part in each of some partitions.
async fn write(
    client: &mut Client,
    world: &SharedWorld,
    text: &str,
    parts: Vec<Effects>,
    ttl: Option<u64>,
) -> Result<(), Broken> {
    let ids: Vec<WriteId> = {
        let history = &mut world.borrow_mut().history;
        let ids: Vec<WriteId> =
            parts.into_iter().map(|effects| history.begin(effects, ttl, runtime::now().0)).collect();
        if ids.len() > 1 {
            history.bind_together(ids.clone());
        }
        ids
    };
    let prepared = if rng::below(4) == 0 { client.prepare(text).await.ok() } else { None };
    let result = match &prepared {
        Some(prepared) => client.execute(prepared, &QueryOptions::default()).await,
        None => client.query(text, &QueryOptions::default()).await,
    };
    let mut world = world.borrow_mut();
    world.answered += 1;
    for id in ids {
        world.history.finish(id, fate_of(&result), runtime::now().0)?;
    }
    match result {
        Err(CallError::Broken(_)) => Err(Broken::Connection),
        Err(CallError::Failure { text: why, .. }) if why.starts_with("Helenus does not support") => Ok(()),
        // A statement prepared before a change of the schema.
        Err(CallError::Failure { code, .. }) if code == ErrorCode::Unprepared as u16 => Ok(()),
        // A client's own table is missing between a DROP and the CREATE that a crash prevented.
        Err(CallError::Failure { code, text: why }) if code >= ErrorCode::Syntax as u16 && !text.contains("s.own") => {
            Err(Broken::Rule(Violation(format!("{text} was refused: {code:#06x} {why}"))))
        }
        _ => Ok(()),
    }
}

/// Changes the schema under the traffic: a comment or an idle column of a shared table, or column `c` of the own one.
async fn alter(client: &mut Client, world: &SharedWorld, own: TestTable, number: u8) -> Result<(), Broken> {
    let shared = if rng::below(2) == 0 { TestTable::PLAIN } else { TestTable::WIDE }.name();
    let idle = format!("idle{number}");
    let text = match rng::below(7) {
        6 => indexes::any_change(if rng::below(2) == 0 { TestTable::PLAIN } else { TestTable::WIDE }),
        0 => format!("ALTER TABLE {shared} WITH comment = '{}'", rng::below(1000)),
        1 => format!("ALTER TABLE {shared} ADD IF NOT EXISTS {idle} int"),
        2 => format!("ALTER TABLE {shared} DROP IF EXISTS {idle}"),
        _ => return alter_own(client, world, own).await,
    };
    let result = client.query(&text, &QueryOptions::default()).await;
    world.borrow_mut().answered += 1;
    match result {
        Err(CallError::Broken(_)) => Err(Broken::Connection),
        Err(CallError::Failure { code, text: why }) if code >= ErrorCode::Syntax as u16 => {
            Err(Violation(format!("{text} was refused: {code:#06x} {why}")).into())
        }
        _ => Ok(()),
    }
}

/// Drops column `c`, with everything written to it so far, or adds it again.
async fn alter_own(client: &mut Client, world: &SharedWorld, own: TestTable) -> Result<(), Broken> {
    let drops = world.borrow().has_c(own);
    let (text, id) = if drops {
        let history = &mut world.borrow_mut().history;
        let mut effects = Effects::new();
        for pk in 0..PARTITIONS {
            effects.extend(own.clusterings().into_iter().map(|ck| (own.cell(pk, ck, C, 0), None)));
        }
        let id = history.begin(effects, None, runtime::now().0);
        let timestamp = id * TIMESTAMP_STEP;
        (format!("ALTER TABLE {} DROP c USING TIMESTAMP {timestamp}", own.name()), Some(id))
    } else {
        (format!("ALTER TABLE {} ADD IF NOT EXISTS c bigint", own.name()), None)
    };
    world.borrow_mut().columns_c.insert(own.index, None);
    let result = client.query(&text, &QueryOptions::default()).await;
    let mut world = world.borrow_mut();
    world.answered += 1;
    let fate = fate_of(&result);
    if let Some(id) = id {
        world.history.finish(id, fate, runtime::now().0)?;
    }
    let known = match fate {
        Fate::Acknowledged => Some(!drops),
        Fate::Failed => Some(drops),
        Fate::InFlight | Fate::Unknown => None,
    };
    world.columns_c.insert(own.index, known);
    if matches!(result, Err(CallError::Broken(_))) { Err(Broken::Connection) } else { Ok(()) }
}

/// Empties the client's own table.
async fn empty(
    client: &mut Client,
    world: &SharedWorld,
    own: TestTable,
    scan: &mut Option<Scan>,
) -> Result<(), Broken> {
    // Its pages would show rows from before.
    if scan.as_ref().is_some_and(|scan| scan.is_of(own)) {
        *scan = None;
    }
    let drops = rng::below(3) == 0;
    let text = if drops { format!("DROP TABLE IF EXISTS {}", own.name()) } else { format!("TRUNCATE {}", own.name()) };
    if drops {
        world.borrow_mut().columns_c.insert(own.index, None);
    }
    let result = client.query(&text, &QueryOptions::default()).await;
    let fate = fate_of(&result);
    {
        let mut world = world.borrow_mut();
        world.answered += 1;
        world.history.emptied(own.index, fate);
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
        if fate == Fate::Acknowledged {
            world.borrow_mut().columns_c.insert(own.index, Some(true));
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
    client.query(CREATE_TYPE, &options).await?;
    client.query(registers::CREATE, &options).await?;
    counters::create(client).await?;
    for index in 0..2 + clients {
        client.query(&TestTable { index }.create(), &options).await?;
        if index < 2 {
            for index in indexes::create_all(TestTable { index }) {
                client.query(&index, &options).await?;
            }
        }
    }
    Ok(())
}

/// Reads every partition of every table once; for the moments when no client works.
pub async fn check_all(client: &mut Client, clients: u8, world: &SharedWorld) -> Result<(), String> {
    let tables = if world.borrow().work == Work::Registers { 0 } else { 2 + clients };
    for index in 0..tables {
        for pk in 0..PARTITIONS {
            match reads::partition(client, world, TestTable { index }, pk, true).await {
                Ok(()) => {}
                Err(Broken::Connection) => return Err("the connection broke".into()),
                Err(Broken::Rule(violation)) => {
                    world.borrow_mut().violation.get_or_insert(violation.0);
                }
            }
        }
        match indexes::check_all(client, world, TestTable { index }).await {
            Ok(()) => {}
            Err(Broken::Connection) => return Err("the connection broke".into()),
            Err(Broken::Rule(violation)) => {
                world.borrow_mut().violation.get_or_insert(violation.0);
            }
        }
    }
    match registers::check_all(client, world).await {
        Ok(()) => {}
        Err(Broken::Connection) => return Err("the connection broke".into()),
        Err(Broken::Rule(violation)) => {
            world.borrow_mut().violation.get_or_insert(violation.0);
        }
    }
    match counters::check_all(client, world).await {
        Ok(()) => {}
        Err(Broken::Connection) => return Err("the connection broke".into()),
        Err(Broken::Rule(violation)) => {
            world.borrow_mut().violation.get_or_insert(violation.0);
        }
    }
    let broken = world.borrow().history.check_groups();
    if let Err(violation) = broken {
        world.borrow_mut().violation.get_or_insert(violation.0);
    }
    Ok(())
}
