//! An operator at work: asks the node for flushes, compactions and snapshots while clients use it.

use crate::tables::TestTable;
use crate::workload::SharedWorld;
use runtime::rng;
use server::admin::{self, protocol::Request};
use std::net::IpAddr;
use std::time::Duration;

/// Longest wait between two commands.
const PAUSE_MICROS_MAX: u64 = 60_000;
/// Longest that a command may take, virtual time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Commands one after the other until the world stops. A command that the node refuses breaks a rule; one that it does
/// not answer was cut off by a crash.
pub async fn operate(address: IpAddr, clients: u8, world: SharedWorld) {
    let mut asked = 0;
    while !world.borrow().stop {
        runtime::sleep(Duration::from_micros(rng::below(PAUSE_MICROS_MAX))).await;
        if world.borrow().paused {
            continue;
        }
        let request = {
            let world = world.borrow();
            // Each kind comes early, whatever the seed.
            let kind = if asked < 3 { 5 + asked } else { rng::below(10) };
            command(kind, TestTable { index: rng::below(2 + u64::from(clients)) as u8 }, world.snapshots.first())
        };
        asked += 1;
        if request.command == "clearsnapshot" {
            // It may be gone from now on.
            world.borrow_mut().snapshots.retain(|tag| Some(tag.as_str()) != request.option("-t"));
        }
        let answer = runtime::timeout(PATIENCE, admin::ask(address, &request)).await;
        let mut world = world.borrow_mut();
        match answer {
            Some(Ok(answer)) if answer.exit == 0 => {
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
        _ => ("compact", Vec::new(), vec![keyspace, name]),
    };
    Request { command: command.into(), options, arguments }
}
