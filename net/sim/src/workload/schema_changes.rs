//! Changes of the schema while clients read and write: comments, unused columns and indexes of shared tables; column
//! `c` of a client's own table, which is also truncated, dropped and created again.

use super::indexes;
use super::requests::{StepError, check_answer, fate_of};
use super::tables::column::C;
use super::tables::{PARTITIONS, TestTable};
use super::world::SharedWorld;
use super::writes::TIMESTAMP_STEP;
use crate::judges::history::{Effects, Fate};
use runtime::rng;
use server::client::{CallError, Client, QueryOptions};
use std::time::Duration;

/// Changes a comment, an unused column or an index of a shared table, or column `c` of the client's own table.
pub(crate) async fn alter(
    client: &mut Client,
    world: &SharedWorld,
    own: TestTable,
    number: u8,
) -> Result<(), StepError> {
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
    check_answer(&text, result)
}

/// Drops column `c`, with everything written to it so far, or adds it again if it is missing.
async fn alter_own(client: &mut Client, world: &SharedWorld, own: TestTable) -> Result<(), StepError> {
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
    let has_c = match fate {
        Fate::Acknowledged => Some(!drops),
        Fate::Failed => Some(drops),
        Fate::InFlight | Fate::Unknown => None,
    };
    world.columns_c.insert(own.index, has_c);
    if matches!(result, Err(CallError::Broken(_))) { Err(StepError::Disconnected) } else { Ok(()) }
}

/// Truncates the client's own table, or drops it and creates it again.
pub(crate) async fn empty(client: &mut Client, world: &SharedWorld, own: TestTable) -> Result<(), StepError> {
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
        return Err(StepError::Disconnected);
    }
    if drops {
        // A table that is missing because of a crash between DROP and CREATE is created here too.
        loop {
            match client.query(&own.create(), &QueryOptions::default()).await {
                Ok(_) => break,
                Err(CallError::Broken(_)) => return Err(StepError::Disconnected),
                Err(CallError::Failure { .. }) => runtime::sleep(Duration::from_millis(5)).await,
            }
        }
        if fate == Fate::Acknowledged {
            world.borrow_mut().columns_c.insert(own.index, Some(true));
        }
    }
    Ok(())
}
