//! `profileload` and `toppartitions`: which partitions this node reads and writes most, sampled for a while. Texts and
//! tables are Cassandra's.
//!
//! Samplers that do not exist here are refused by name: the longest reads, SSTables of reads, contention.

use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::admin::text_table::TextTable;
use crate::node_state::NodeState;
use model::{Schema, TableId};
use shard::metrics::{SampleRequest, SampledKey, Samples};
use shard::{Shard, TableAnswer, TableVerb};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// How long is sampled unless the operator says so, milliseconds.
const DURATION_MILLIS: u64 = 10_000;
/// How many keys each sampler keeps unless the operator says so.
const CAPACITY: usize = 256;
/// How many are shown of these.
const TOP: usize = 10;

/// A sampler: its name, the title of its table, the name of its values, and whether they have errors.
struct Sampler {
    name: &'static str,
    title: &'static str,
    value: &'static str,
    has_errors: bool,
    of: fn(&Samples) -> &[SampledKey],
}

/// In the order in which Cassandra shows them.
const SAMPLERS: [Sampler; 5] = [
    Sampler {
        name: "READS",
        title: "Frequency of reads by partition:",
        value: "Count",
        has_errors: true,
        of: |samples| &samples.reads,
    },
    Sampler {
        name: "WRITES",
        title: "Frequency of writes by partition:",
        value: "Count",
        has_errors: true,
        of: |samples| &samples.writes,
    },
    Sampler {
        name: "READ_ROW_COUNT",
        title: "Partitions read with the most rows:",
        value: "Rows",
        has_errors: false,
        of: |samples| &samples.rows,
    },
    Sampler {
        name: "READ_TOMBSTONE_COUNT",
        title: "Partitions read with the most tombstones:",
        value: "Tombstones",
        has_errors: false,
        of: |samples| &samples.tombstones,
    },
    Sampler {
        name: "WRITE_SIZE",
        title: "Max mutation size by partition:",
        value: "Bytes",
        has_errors: false,
        of: |samples| &samples.write_sizes,
    },
];

/// Samples for as long as the request says, and prints what was found.
pub(crate) async fn profile(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    for (option, what) in [("-i", "--interval"), ("-l", "--list"), ("-t", "--stop")] {
        if request.has(option) {
            return usage(format!("{what}: sampling in the background is not supported"));
        }
    }
    let (named, duration) = match request.arguments.as_slice() {
        [] => (None, DURATION_MILLIS),
        [duration] => (None, number(duration)?),
        [keyspace, table] => (Some((keyspace, table)), DURATION_MILLIS),
        [keyspace, table, duration] => (Some((keyspace, table)), number(duration)?),
        _ => {
            return usage(
                "Invalid arguments, either [keyspace table/* duration] or [keyspace table/*] or [duration] or no \
                 args.\nOptionally, use * to represent all tables under the keyspace.",
            );
        }
    };
    let given = |option: &str, default: usize| match request.option(option) {
        Some(text) => number(text),
        None => Ok(default),
    };
    let (capacity, top) = (given("-s", CAPACITY)?, given("-k", TOP)?);
    if top >= capacity {
        return usage("TopK count (-k) option must be smaller then the summary capacity (-s)");
    }
    let samplers = chosen(request.option("-a").unwrap_or("all"))?;
    let schema = node.shard.schema();
    let tables = match named {
        None => None,
        Some((keyspace, table)) => Some(tables_of(&schema, keyspace, table)?),
    };
    let sampling = UnderWay { shard: node.shard.clone(), id: runtime::rng::u64(), has_ended: Cell::new(false) };
    let request = SampleRequest { id: sampling.id, tables, capacity };
    node.shard.on_every_shard(TableVerb::BeginSampling(request)).await?;
    runtime::sleep(Duration::from_millis(duration)).await;
    let mut samples = Samples::default();
    for answer in node.shard.on_every_shard(TableVerb::EndSampling(sampling.id)).await? {
        if let TableAnswer::Samples(of_core) = answer {
            samples.add(*of_core);
        }
    }
    sampling.has_ended.set(true);
    let schema = node.shard.schema();
    samplers.iter().for_each(|sampler| show(&schema, sampler, &samples, top, out));
    Ok(())
}

/// A sampling that ends on every core when this is dropped, if it has not: the client may go away before its end, or a
/// core may have no room for it.
struct UnderWay {
    shard: Shard,
    id: u64,
    has_ended: Cell<bool>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        // The tasks of a node that has stopped are dropped too.
        if self.has_ended.get() || runtime::now_if_running().is_none() {
            return;
        }
        let (shard, id) = (self.shard.clone(), self.id);
        runtime::spawn(async move {
            let _ = shard.on_every_shard(TableVerb::EndSampling(id)).await;
        });
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, CommandError> {
    text.parse().map_err(|_| CommandError::Usage(format!("For input string: \"{text}\"")))
}

/// The samplers with these names, in their order.
fn chosen(names: &str) -> Result<Vec<&'static Sampler>, CommandError> {
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    if names.iter().any(|name| name.eq_ignore_ascii_case("all")) {
        return Ok(SAMPLERS.iter().collect());
    }
    let known: Vec<&str> = SAMPLERS.iter().map(|sampler| sampler.name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.iter().any(|known| known.eq_ignore_ascii_case(name))) {
        return usage(format!("'{unknown}' sampler is not available from: [{}]", known.join(", ")));
    }
    let is_named = |sampler: &&Sampler| names.iter().any(|name| name.eq_ignore_ascii_case(sampler.name));
    Ok(SAMPLERS.iter().filter(is_named).collect())
}

/// The table with this name, or all of the keyspace for `*`.
fn tables_of(schema: &Schema, keyspace: &str, name: &str) -> Result<Arc<[TableId]>, CommandError> {
    let tables = schema.keyspace(keyspace).into_iter().flat_map(|keyspace| keyspace.tables.values());
    let found: Arc<[TableId]> =
        tables.filter(|table| name == "*" || table.name == name).map(|table| table.id).collect();
    match found.is_empty() {
        true => Err(CommandError::ToStderr(format!("ColumnFamilyStore for {keyspace}/{name} not found.\n"))),
        false => Ok(found),
    }
}

fn show(schema: &Schema, sampler: &Sampler, samples: &Samples, top: usize, out: &mut String) {
    out.push_str(sampler.title);
    out.push('\n');
    let mut table = TextTable::new(1);
    let errors = sampler.has_errors.then_some("+/-");
    table.row(["  ", "Table", "Partition", sampler.value].into_iter().chain(errors));
    let mut shown = 0;
    for sampled in (sampler.of)(samples).iter().take(top) {
        let Some(of) = schema.table_by_id(sampled.table) else { continue };
        let count = sampled.count.to_string();
        let error = sampler.has_errors.then(|| sampled.error.to_string());
        let cells = ["  ".to_owned(), of.full_name(), of.key_text(&sampled.key), count];
        table.row(cells.into_iter().chain(error));
        shown += 1;
    }
    match shown {
        0 => out.push_str("   Nothing recorded during sampling period...\n"),
        _ => table.print(out),
    }
    out.push('\n');
}
