//! `repairs`, `repair_sessions` and `repair_jobs`: the repairs that this node leads and has led lately;
//! `repair_participates`: this node's part in them. Replicas answer requests about parts of ranges and know of no
//! repair, so a node has no row of those that others lead, and `repair_validations` is empty.

use super::VirtualRows;
use super::contents::{int, text};
use crate::shard_state::Shard;
use crate::shard_state::repairs::{RepairState, RepairSteps};
use model::value;
use uuid::Uuid;

/// The columns of a row.
type Columns = Vec<(String, Option<Vec<u8>>)>;

/// The bytes of a list, or of a set whose elements are in order.
fn list<T: AsRef<[u8]>>(elements: impl ExactSizeIterator<Item = T>) -> Vec<u8> {
    let mut out = (elements.len() as i32).to_be_bytes().to_vec();
    elements.for_each(|element| value::push_element(&mut out, Some(element.as_ref())));
    out
}

/// A set of texts.
fn set(elements: &[String]) -> Vec<u8> {
    let mut sorted = elements.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    list(sorted.iter())
}

fn uuid(id: Uuid) -> Option<Vec<u8>> {
    Some(id.as_bytes().to_vec())
}

/// The columns that tell how far something is.
fn steps(of: &RepairSteps, has_status: bool) -> Columns {
    let first = of.passed.first().map_or(0, |(_, at)| *at);
    let last = of.passed.last().map_or(first, |(_, at)| *at);
    let until = if of.is_over() { last } else { runtime::wall_micros().div_euclid(1000) };
    let millis = |at: i64| Some(at.to_be_bytes().to_vec());
    let mut columns: Columns = vec![
        ("completed".into(), Some(vec![u8::from(of.is_over())])),
        ("duration_millis".into(), millis((until - first).max(0))),
        ("last_updated_at".into(), millis(last)),
    ];
    if has_status {
        columns.push(("status".into(), text(of.status())));
    }
    match &of.end {
        Some(Ok(said)) => columns.push(("success_message".into(), text(said))),
        Some(Err(error)) => columns.push(("failure_cause".into(), text(error))),
        None => {}
    }
    columns.extend(of.passed.iter().map(|(name, at)| (format!("state_{name}_timestamp"), millis(*at))));
    columns
}

/// Adds the rows of one of the tables.
pub(super) fn fill(shard: &Shard, name: &str, rows: &mut VirtualRows<'_>) {
    let topology = shard.topology();
    let here = format!("/{}", topology.node(topology.here()).address);
    for (id, state) in shard.repairs().all() {
        let found: Vec<Columns> = match name {
            "repairs" => vec![repair(id, &state)],
            "repair_sessions" => sessions(id, &state),
            "repair_jobs" => jobs(id, &state),
            "repair_participates" => participation(id, &state, &here).into_iter().collect(),
            _ => Vec::new(),
        };
        found.into_iter().for_each(|columns| rows.push(columns.iter().map(|(name, value)| (&**name, value.clone()))));
    }
}

fn repair(id: Uuid, state: &RepairState) -> Columns {
    let mut columns: Columns = vec![
        ("id".into(), uuid(id)),
        ("command_id".into(), int(i32::try_from(state.command).unwrap_or(i32::MAX))),
        ("keyspace_name".into(), text(&state.keyspace)),
        ("options_job_threads".into(), int(state.job_threads)),
        ("options_parallelism".into(), text(&state.parallelism)),
        ("options_preview_kind".into(), text(&state.preview_kind)),
        ("type".into(), text(&state.kind)),
        ("sessions".into(), Some(list(state.sessions.keys().map(|id| *id.as_bytes())))),
    ];
    columns.extend(state.flags.iter().map(|(name, is)| (format!("options_{name}"), Some(vec![u8::from(*is)]))));
    columns.extend(state.lists.iter().map(|(name, names)| (format!("options_{name}"), Some(set(names)))));
    if !state.participants.is_empty() {
        let ranges = state.sessions.values().map(|session| list(session.ranges.iter()));
        let ranges = list(ranges.collect::<Vec<_>>().iter());
        columns.push(("participants".into(), Some(list(state.participants.iter()))));
        columns.push(("table_names".into(), Some(list(state.tables.iter()))));
        columns.push(("ranges".into(), Some(ranges.clone())));
        columns.push(("unfiltered_ranges".into(), Some(ranges)));
    }
    columns.extend(steps(&state.steps, true));
    columns
}

fn sessions(id: Uuid, state: &RepairState) -> Vec<Columns> {
    let row = |(session, of): (&Uuid, &crate::shard_state::repairs::RepairSessionState)| {
        let mut jobs: Vec<[u8; 16]> = of.jobs.values().map(|job| *job.id.as_bytes()).collect();
        jobs.sort_unstable();
        let mut columns: Columns = vec![
            ("id".into(), uuid(*session)),
            ("repair_id".into(), uuid(id)),
            ("keyspace_name".into(), text(&state.keyspace)),
            ("table_names".into(), Some(list(state.tables.iter()))),
            ("participants".into(), Some(list(of.participants.iter()))),
            ("ranges".into(), Some(list(of.ranges.iter()))),
            ("jobs".into(), Some(list(jobs.iter()))),
        ];
        columns.extend(steps(&of.steps, true));
        columns
    };
    state.sessions.iter().map(row).collect()
}

fn jobs(id: Uuid, state: &RepairState) -> Vec<Columns> {
    let mut rows = Vec::new();
    for (session, of) in &state.sessions {
        for (table, job) in &of.jobs {
            let mut columns: Columns = vec![
                ("id".into(), uuid(job.id)),
                ("repair_id".into(), uuid(id)),
                ("session_id".into(), uuid(*session)),
                ("keyspace_name".into(), text(&state.keyspace)),
                ("table_name".into(), text(table)),
                ("participants".into(), Some(list(of.participants.iter()))),
                ("ranges".into(), Some(list(of.ranges.iter()))),
            ];
            columns.extend(steps(&job.steps, true));
            rows.push(columns);
        }
    }
    rows
}

/// A command that has got as far as to ask nodes.
fn participation(id: Uuid, state: &RepairState, here: &str) -> Option<Columns> {
    let began = state.sessions.values().filter_map(|of| of.steps.passed.first()).map(|(_, at)| *at).min()?;
    let ranges: Vec<&String> = state.sessions.values().flat_map(|of| &of.ranges).collect();
    let tables: Vec<String> = state.tables.iter().map(|table| format!("{}.{table}", state.keyspace)).collect();
    let ended = state.steps.passed.last().filter(|_| state.steps.is_over());
    let of = RepairSteps {
        passed: [("init", began)].into_iter().chain(ended.copied()).collect(),
        end: state.steps.end.clone(),
    };
    let mut columns: Columns = vec![
        ("id".into(), uuid(id)),
        ("initiator".into(), text(here)),
        ("global".into(), Some(vec![1])),
        ("incremental".into(), Some(vec![u8::from(state.kind == "incremental")])),
        ("preview_kind".into(), text(&state.preview_kind)),
        ("ranges".into(), Some(list(ranges.iter()))),
        ("tables".into(), Some(set(&tables))),
        ("validations".into(), Some(list(std::iter::empty::<[u8; 16]>()))),
    ];
    columns.extend(steps(&of, false));
    Some(columns)
}
