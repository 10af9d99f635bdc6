//! The options of a repair, from nodetool's and as they are told.

use super::plan::RingPart;
use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use model::Partitioner;
use std::fmt;

/// The order in which replicas of a range are asked.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Parallelism {
    /// One after the other.
    Sequential,
    /// All at once.
    #[default]
    Parallel,
    /// The data centres at once, in each one replica after the other.
    DataCenterAware,
}

impl Parallelism {
    /// Cassandra's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Parallelism::Sequential => "sequential",
            Parallelism::Parallel => "parallel",
            Parallelism::DataCenterAware => "dc_parallel",
        }
    }
}

/// What is compared without being changed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum PreviewKind {
    /// Nothing: the repair is made.
    #[default]
    None,
    /// All data.
    All,
    /// What no incremental repair has repaired.
    Unrepaired,
    /// What incremental repairs have repaired.
    Repaired,
}

impl PreviewKind {
    /// Cassandra's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            PreviewKind::None => "NONE",
            PreviewKind::All => "ALL",
            PreviewKind::Unrepaired => "UNREPAIRED",
            PreviewKind::Repaired => "REPAIRED",
        }
    }
}

/// The options of a repair of one keyspace.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct RepairOptions {
    pub(crate) parallelism: Parallelism,
    pub(crate) primary_range: bool,
    pub(crate) incremental: bool,
    pub(crate) job_threads: usize,
    pub(crate) tables: Vec<String>,
    pub(crate) data_centers: Vec<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) preview: PreviewKind,
    /// The sub-range that was asked for.
    pub(super) range: Option<RingPart>,
    pub(crate) pull: bool,
    pub(crate) force: bool,
    pub(crate) optimise_streams: bool,
    pub(crate) ignore_unreplicated: bool,
    /// Whether what rounds of Paxos have left unfinished is finished first.
    pub(crate) repair_paxos: bool,
    /// Whether nothing else is done.
    pub(crate) paxos_only: bool,
    /// How many times as long as a part of a range took the repair rests behind it.
    pub(crate) rest: u32,
}

/// Most job threads.
const JOB_THREADS_MAX: usize = 4;

impl RepairOptions {
    /// The options of a request for the repair of some tables. `here` is the name of this node's data centre.
    pub(crate) fn of(
        request: &Request,
        tables: &[String],
        here: &str,
        partitioner: Partitioner,
    ) -> Result<RepairOptions, CommandError> {
        let list = |option: &str| -> Vec<String> {
            let given = request.options.iter().filter(|(name, _)| name == option);
            given.flat_map(|(_, value)| value.split(',')).map(|part| part.trim().to_owned()).collect()
        };
        if request.has("-tr") {
            return Err(CommandError::Failed("repair --trace is not supported".into()));
        }
        let is_full = request.has("-full");
        let preview = match () {
            () if request.has("-vd") => PreviewKind::Repaired,
            () if request.has("-prv") && is_full => PreviewKind::All,
            () if request.has("-prv") => PreviewKind::Unrepaired,
            () => PreviewKind::None,
        };
        let is_paxos_only = request.has("-paxos-only") && preview == PreviewKind::None;
        let job_threads = match request.option("-j") {
            None => 1,
            Some(text) => match text.parse::<i32>() {
                Ok(threads) => threads,
                Err(_) => return usage(format!("job_threads: can not convert \"{text}\" to a int")),
            },
        };
        let mut data_centers = list("-dc");
        if request.has("-local") {
            data_centers = vec![here.to_owned()];
        }
        let hosts = list("-hosts");
        let range = match (request.option("-st"), request.option("-et")) {
            (None, None) => None,
            (start, end) => {
                let token = |text: Option<&str>| partitioner.parse_token(text.unwrap_or_default());
                let (after, until) = (token(start), token(end));
                let part = RingPart {
                    after: after.map_err(CommandError::Failed)?,
                    until: until.map_err(CommandError::Failed)?,
                };
                if part.after == part.until {
                    return Err(CommandError::Failed("Start and end tokens must be different.".into()));
                }
                Some(part)
            }
        };
        let options = RepairOptions {
            parallelism: match () {
                () if request.has("-seq") => Parallelism::Sequential,
                () if request.has("-dcpar") => Parallelism::DataCenterAware,
                () => Parallelism::Parallel,
            },
            primary_range: request.has("-pr"),
            incremental: !is_full && !is_paxos_only,
            job_threads: usize::try_from(job_threads).unwrap_or(0),
            tables: tables.to_vec(),
            data_centers,
            hosts,
            preview,
            range,
            pull: request.has("-pl"),
            force: request.has("-force"),
            // What it asks for is always so: of replicas with the same content, one gives its rows.
            optimise_streams: request.has("-os"),
            ignore_unreplicated: request.has("-iuk"),
            repair_paxos: !request.has("-skip-paxos") && preview == PreviewKind::None,
            paxos_only: is_paxos_only,
            rest: 0,
        };
        options.check(job_threads, here)?;
        Ok(options)
    }

    /// Fails as Cassandra does for options that do not go together.
    fn check(&self, job_threads: i32, here: &str) -> Result<(), CommandError> {
        let failed = |text: String| Err(CommandError::Failed(text));
        if job_threads < 1 {
            return failed(format!("Invalid number of job threads {job_threads}"));
        }
        if self.job_threads > JOB_THREADS_MAX {
            return failed(format!("Too many job threads. Max is {JOB_THREADS_MAX}"));
        }
        if !self.data_centers.is_empty() && !self.hosts.is_empty() {
            return failed("Cannot combine -dc and -hosts options.".into());
        }
        let is_local = self.data_centers == [here] && self.hosts.is_empty();
        let is_restricted = !self.data_centers.is_empty() || !self.hosts.is_empty();
        if self.primary_range && is_restricted && !is_local {
            return failed("Primary range repair should be performed on all nodes in the cluster.".into());
        }
        if !self.data_centers.is_empty() && !self.data_centers.iter().any(|center| center == here) {
            let asked = self.data_centers.join(", ");
            return failed(format!(
                "the local data center must be part of the repair; requested [{asked}] but DC is {here}"
            ));
        }
        if self.pull && self.hosts.len() != 2 {
            return failed(
                "Pull repair can only be performed between two hosts. Please specify two hosts, one of which must be \
                 this host."
                    .into(),
            );
        }
        if self.pull && self.range.is_none() {
            return failed(
                "Token ranges must be specified when performing pull repair. Please specify at least one token range \
                 which both hosts have in common."
                    .into(),
            );
        }
        Ok(())
    }
}

/// The options as the first line of a repair tells them, with so many ranges.
pub(crate) struct Told<'o> {
    pub(crate) options: &'o RepairOptions,
    pub(crate) ranges: usize,
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RepairOptions { parallelism, primary_range, incremental, job_threads, preview, .. } = self.options;
        let (parallelism, preview) = (parallelism.name(), preview.name());
        let list = |names: &[String]| names.join(", ");
        let o = self.options;
        write!(
            f,
            "parallelism: {parallelism}, primary range: {primary_range}, incremental: {incremental}, job threads: \
             {job_threads}, ColumnFamilies: [{}], dataCenters: [{}], hosts: [{}], previewKind: {preview}, # of ranges: \
             {}, pull repair: {}, force repair: {}, optimise streams: {}, ignore unreplicated keyspaces: {}, \
             repairPaxos: {}, paxosOnly: {}",
            list(&o.tables),
            list(&o.data_centers),
            list(&o.hosts),
            self.ranges,
            o.pull,
            o.force,
            o.optimise_streams,
            o.ignore_unreplicated,
            o.repair_paxos,
            o.paxos_only,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(given: &[(&str, &str)]) -> Result<RepairOptions, String> {
        let options = given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let request = Request { command: "repair".into(), options, arguments: Vec::new() };
        RepairOptions::of(&request, &["t".into()], "dc1", Partitioner::Murmur3).map_err(|error| match error {
            CommandError::Failed(text) => format!("error: {text}"),
            CommandError::Usage(text) => format!("nodetool: {text}"),
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn options_are_told_as_cassandra_tells_them() {
        let options = options(&[("-full", ""), ("-pr", ""), ("-local", ""), ("-j", "2")]).expect("options");
        assert_eq!(
            Told { options: &options, ranges: 16 }.to_string(),
            "parallelism: parallel, primary range: true, incremental: false, job threads: 2, ColumnFamilies: [t], \
             dataCenters: [dc1], hosts: [], previewKind: NONE, # of ranges: 16, pull repair: false, force repair: \
             false, optimise streams: false, ignore unreplicated keyspaces: false, repairPaxos: true, paxosOnly: false"
        );
    }

    #[test]
    fn options_that_do_not_go_together_are_refused_in_cassandras_words() {
        let hosts = ("-hosts", "127.0.0.1");
        for (given, text) in [
            (
                &[("-dc", "nope")][..],
                "error: the local data center must be part of the repair; requested [nope] but DC is dc1",
            ),
            (&[("-dc", "dc1"), hosts], "error: Cannot combine -dc and -hosts options."),
            (&[("-pr", ""), hosts], "error: Primary range repair should be performed on all nodes in the cluster."),
            (&[("-j", "9")], "error: Too many job threads. Max is 4"),
            (&[("-j", "0")], "error: Invalid number of job threads 0"),
            (&[("-j", "x")], "nodetool: job_threads: can not convert \"x\" to a int"),
            (&[("-tr", "")], "error: repair --trace is not supported"),
            (&[("-st", "5"), ("-et", "5")], "error: Start and end tokens must be different."),
            (
                &[("-st", "1")],
                "error: Invalid token for Murmur3Partitioner. Got  but expected a long value (unsigned 8 bytes integer).",
            ),
        ] {
            assert_eq!(options(given).expect_err("refused"), text);
        }
        assert!(options(&[("-j", "4")]).is_ok());
    }
}
