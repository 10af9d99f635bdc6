//! The repairs that this node leads, and has led lately: commands, their sessions, and the jobs of these, one for each
//! table.
//!
//! Invariants: at most [`COMMANDS_MAX`] commands are known, and the oldest that have ended are forgotten first; what
//! has ended does not change any more.

use md5::{Digest, Md5};
use runtime::metrics::Counter;
use runtime::sync::Condition;
use std::cell::RefCell;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Most commands that are known.
pub(crate) const COMMANDS_MAX: usize = 256;

/// How far something is: the steps that it has passed, under the names that Cassandra gives them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RepairSteps {
    /// Each step with its time, milliseconds since 1970. The first is `init`.
    pub passed: Vec<(&'static str, i64)>,
    /// What was said at the end: of the failure, or why it was left out; or of the success.
    pub end: Option<Result<String, String>>,
}

/// The steps that end something.
const ENDS: [&str; 3] = ["success", "failure", "skipped"];

impl RepairSteps {
    /// The name of the last step.
    pub fn status(&self) -> &'static str {
        self.passed.last().map_or("init", |(name, _)| name)
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        ENDS.contains(&self.status())
    }

    fn pass(&mut self, name: &'static str) {
        if !self.is_over() {
            self.passed.push((name, runtime::wall_micros().div_euclid(1000)));
        }
    }

    fn end(&mut self, name: &'static str, end: Option<Result<String, String>>) {
        if !self.is_over() {
            self.pass(name);
            self.end = end;
        }
    }
}

/// A command: the repair of some tables of a keyspace.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RepairState {
    /// Its number.
    pub command: u64,
    /// The keyspace.
    pub keyspace: String,
    /// `full`, `incremental` or `preview full`, as Cassandra has it.
    pub kind: String,
    /// The options, by the names of the columns of `system_views.repairs` without their beginning.
    pub flags: Vec<(&'static str, bool)>,
    /// The tables, data centres, hosts and ranges that were asked for, in the same way.
    pub lists: Vec<(&'static str, Vec<String>)>,
    /// How many jobs run at once.
    pub job_threads: i32,
    /// `PARALLEL`, `SEQUENTIAL` or `DATACENTER_AWARE`.
    pub parallelism: String,
    /// What is compared without being changed.
    pub preview_kind: String,
    /// The tables that are repaired.
    pub tables: Vec<String>,
    /// The other nodes.
    pub participants: Vec<String>,
    /// How far it is.
    pub steps: RepairSteps,
    /// Whether it is to end.
    pub is_cancelled: bool,
    /// The sessions that have begun.
    pub sessions: BTreeMap<Uuid, RepairSessionState>,
}

/// A session: ranges that have the same nodes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RepairSessionState {
    /// The ranges.
    pub ranges: Vec<String>,
    /// The other nodes.
    pub participants: Vec<String>,
    /// How far it is.
    pub steps: RepairSteps,
    /// The jobs by their tables.
    pub jobs: BTreeMap<String, RepairJobState>,
}

/// A job: a table of a session.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RepairJobState {
    /// Its id.
    pub id: Uuid,
    /// How far it is.
    pub steps: RepairSteps,
}

/// The repairs of a node. Kept by shard 0.
#[derive(Default)]
pub struct RepairStates {
    states: RefCell<BTreeMap<Uuid, RepairState>>,
    /// How many commands have ended well, and how many have failed.
    ended: [Counter; 2],
    cancelled: Condition,
}

impl RepairStates {
    /// What is known of all commands.
    pub fn all(&self) -> BTreeMap<Uuid, RepairState> {
        self.states.borrow().clone()
    }

    /// How many commands have ended well, and how many have failed.
    pub(crate) fn ended(&self) -> [u64; 2] {
        [self.ended[0].get(), self.ended[1].get()]
    }

    /// Has a command end that is under way. Returns whether there is such a command.
    pub fn cancel(&self, id: Uuid) -> bool {
        let mut states = self.states.borrow_mut();
        let running = states.get_mut(&id).filter(|state| !state.steps.is_over());
        let is_running = running.map(|state| state.is_cancelled = true).is_some();
        drop(states);
        self.cancelled.notify();
        is_running
    }

    /// Whether a command is to end.
    pub fn is_cancelled(&self, id: Uuid) -> bool {
        self.states.borrow().get(&id).is_some_and(|state| state.is_cancelled)
    }

    /// Waits until a command is to end.
    pub async fn cancellation(&self, id: Uuid) {
        self.cancelled.wait(|| self.is_cancelled(id).then_some(())).await;
    }

    /// How many commands are under way.
    pub fn running(&self) -> usize {
        self.states.borrow().values().filter(|state| !state.steps.is_over()).count()
    }

    /// A command begins.
    pub fn begin(&self, id: Uuid, mut state: RepairState) {
        let mut states = self.states.borrow_mut();
        while states.len() >= COMMANDS_MAX {
            let begun = |state: &RepairState| state.steps.passed.first().map(|(_, at)| *at);
            let over = states.iter().filter(|(_, state)| state.steps.is_over());
            let Some(oldest) = over.min_by_key(|(_, state)| begun(state)).map(|(id, _)| *id) else { return };
            states.remove(&oldest);
        }
        state.steps.pass("init");
        states.insert(id, state);
    }

    /// Changes what is known of a command.
    pub fn change(&self, id: Uuid, change: impl FnOnce(&mut RepairState)) {
        if let Some(state) = self.states.borrow_mut().get_mut(&id) {
            change(state);
        }
    }

    /// A command has passed a step.
    pub fn pass(&self, id: Uuid, step: &'static str) {
        self.change(id, |state| state.steps.pass(step));
    }

    /// A command has ended with what was said; sessions that it leaves behind have failed.
    pub fn end(&self, id: Uuid, step: &'static str, said: Result<String, String>) {
        self.change(id, |state| {
            for session in state.sessions.values_mut() {
                session.steps.end("failure", said.clone().err().map(Err));
            }
            let ended = &self.ended[usize::from(said.is_err())];
            if !state.steps.is_over() && step != "skipped" {
                ended.increment();
            }
            state.steps.end(step, Some(said));
        });
    }

    /// A session of some ranges begins, with its jobs.
    pub fn begin_session(&self, id: Uuid, session: Uuid, ranges: &[String], participants: &[String]) {
        self.change(id, |state| {
            let mut begun = RepairSessionState {
                ranges: ranges.to_vec(),
                participants: participants.to_vec(),
                ..RepairSessionState::default()
            };
            ["init", "start", "jobs_start"].into_iter().for_each(|step| begun.steps.pass(step));
            for table in &state.tables {
                let mut job = RepairJobState { id: job_id(session, table), ..RepairJobState::default() };
                job.steps.pass("init");
                begun.jobs.insert(table.clone(), job);
            }
            state.sessions.insert(session, begun);
        });
    }

    /// A job has passed a step.
    pub fn pass_job(&self, id: Uuid, session: Uuid, table: &str, step: &'static str) {
        self.job(id, session, table, |steps| steps.pass(step));
    }

    /// A job has ended.
    pub fn end_job(&self, id: Uuid, session: Uuid, table: &str, done: Result<(), String>) {
        self.job(id, session, table, |steps| match done {
            Ok(()) => steps.end("success", None),
            Err(error) => steps.end("failure", Some(Err(error))),
        });
    }

    /// A session has ended.
    pub fn end_session(&self, id: Uuid, session: Uuid, done: Result<(), String>) {
        self.change(id, |state| {
            let Some(session) = state.sessions.get_mut(&session) else { return };
            match done {
                Ok(()) => session.steps.end("success", None),
                Err(error) => session.steps.end("failure", Some(Err(error))),
            }
        });
    }

    fn job(&self, id: Uuid, session: Uuid, table: &str, change: impl FnOnce(&mut RepairSteps)) {
        self.change(id, |state| {
            let found = state.sessions.get_mut(&session).and_then(|session| session.jobs.get_mut(table));
            if let Some(job) = found {
                change(&mut job.steps);
            }
        });
    }
}

/// The id of a job, made of its session and table.
fn job_id(session: Uuid, table: &str) -> Uuid {
    let hash = Md5::new().chain_update(session.as_bytes()).chain_update(table);
    uuid::Builder::from_md5_bytes(hash.finalize().into()).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::NodeId;
    use runtime::sim::{Options, Sim};

    /// Runs a test where there is a clock.
    fn run(test: impl Fn() + 'static) {
        let mut sim = Sim::new(1, Options::default());
        sim.start_node(NodeId(1), 1, move |_| {
            test();
            std::future::ready(())
        });
        assert_eq!(sim.run_until(std::time::Duration::from_secs(1), || false), runtime::sim::Stop::Idle);
    }

    #[test]
    fn commands_that_have_ended_give_way_to_new_ones() {
        run(old_commands);
    }

    #[test]
    fn what_has_ended_does_not_change() {
        run(over);
    }

    fn old_commands() {
        let states = RepairStates::default();
        let id = |number: usize| Uuid::from_u128(number as u128);
        (0..COMMANDS_MAX).for_each(|number| states.begin(id(number), RepairState::default()));
        states.begin(id(COMMANDS_MAX), RepairState::default());
        assert!(!states.all().contains_key(&id(COMMANDS_MAX)), "all are under way");
        states.end(id(7), "success", Ok("done".into()));
        states.begin(id(COMMANDS_MAX), RepairState::default());
        let known = states.all();
        assert!(known.contains_key(&id(COMMANDS_MAX)) && !known.contains_key(&id(7)));
        assert_eq!((known.len(), states.running()), (COMMANDS_MAX, COMMANDS_MAX));
    }

    fn over() {
        let (states, id, session) = (RepairStates::default(), Uuid::from_u128(1), Uuid::from_u128(2));
        states.begin(id, RepairState { tables: vec!["t".into(), "u".into()], ..RepairState::default() });
        states.begin_session(id, session, &["(1,2]".into()], &["/127.0.0.1:7000".into()]);
        states.pass_job(id, session, "t", "start");
        assert!(states.cancel(id) && !states.cancel(session));
        states.end_job(id, session, "t", Ok(()));
        states.end_job(id, session, "t", Err("late".into()));
        states.end(id, "failure", Err("down".into()));
        states.end_session(id, session, Ok(()));
        states.pass(id, "repair_start");
        let state = &states.all()[&id];
        assert_eq!((state.steps.status(), state.steps.end.clone()), ("failure", Some(Err("down".into()))));
        let of = &state.sessions[&session];
        assert_eq!(
            (of.steps.status(), of.jobs["t"].steps.status(), of.jobs["t"].steps.end.clone()),
            ("failure", "success", None)
        );
        assert!(!states.cancel(id), "it is over");
        assert_eq!(states.ended(), [0, 1]);
        assert_ne!(of.jobs["t"].id, of.jobs["u"].id);
    }
}
