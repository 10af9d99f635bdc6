//! When this node has last repaired a table, from the history that repairs leave in `system_distributed`: an
//! operator's repair counts as well, and a restart forgets nothing.

use model::value::TupleElements;
use model::{Consistency, Failure, QueryParameters, Table};
use shard::{Response, Session, Shard};
use std::collections::BTreeSet;
use uuid::Uuid;

/// Most rows of the history of a table that are looked at, the youngest first.
const ROWS_MAX: usize = 1000;
/// Most repairs of a table that are looked at.
const REPAIRS_MAX: usize = 32;

/// Cells of rows, in their order.
type Rows = Vec<Vec<Option<Vec<u8>>>>;

async fn rows(shard: &Shard, text: &str) -> Result<Rows, Failure> {
    let answer = shard.query(&Session::internal(), text, &QueryParameters::new(Consistency::One)).await?;
    let Response::Rows(rows) = answer.response else { return Ok(Rows::new()) };
    let cells: Vec<Option<Vec<u8>>> =
        TupleElements::new(&rows.block.bytes).map(|cell| cell.map(<[u8]>::to_vec)).collect();
    Ok(cells.chunks(rows.columns.len().max(1)).map(<[_]>::to_vec).collect())
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// When the last repair of a table began that this node has led and that has repaired all of `ranges`; milliseconds
/// since 1970, `None` if nothing is known of one.
///
/// # Errors
/// The history cannot be read.
pub(super) async fn last_repair(shard: &Shard, table: &Table, ranges: &[String]) -> Result<Option<i64>, Failure> {
    let topology = shard.topology();
    let here = topology.node(topology.here()).address;
    let found = rows(
        shard,
        &format!(
            "SELECT parent_id, coordinator, coordinator_port FROM system_distributed.repair_history WHERE keyspace_name \
             = {} AND columnfamily_name = {} ORDER BY id DESC LIMIT {ROWS_MAX}",
            quoted(&table.keyspace),
            quoted(&table.name)
        ),
    )
    .await?;
    let coordinator = match here.ip() {
        std::net::IpAddr::V4(address) => address.octets().to_vec(),
        std::net::IpAddr::V6(address) => address.octets().to_vec(),
    };
    let port = i32::from(here.port()).to_be_bytes();
    let mut seen = BTreeSet::new();
    for row in found {
        let [Some(parent), Some(address), Some(of_port)] = &row[..] else { continue };
        let Ok(parent) = Uuid::from_slice(parent) else { continue };
        if *address != coordinator || of_port[..] != port || !seen.insert(parent) {
            continue;
        }
        if seen.len() > REPAIRS_MAX {
            break;
        }
        if let Some(began) = repaired(shard, parent, ranges).await? {
            return Ok(Some(began));
        }
    }
    Ok(None)
}

/// When a repair began, if it has repaired all of `ranges`.
async fn repaired(shard: &Shard, parent: Uuid, ranges: &[String]) -> Result<Option<i64>, Failure> {
    let text = format!(
        "SELECT started_at, successful_ranges FROM system_distributed.parent_repair_history WHERE parent_id = {parent}"
    );
    let found = rows(shard, &text).await?;
    let Some([Some(started_at), Some(successful)]) = found.first().map(Vec::as_slice) else { return Ok(None) };
    let successful: BTreeSet<&[u8]> = model::value::elements(successful, false).collect();
    let is_whole = ranges.iter().all(|range| successful.contains(range.as_bytes()));
    let began = <[u8; 8]>::try_from(&started_at[..]).map(i64::from_be_bytes).ok();
    Ok(began.filter(|_| is_whole))
}
