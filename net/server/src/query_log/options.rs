//! Options of the audit log and of the log of full queries.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// How often a new file is begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RollCycle {
    /// Every minute.
    Minutely,
    /// Every hour.
    #[default]
    Hourly,
    /// Every day.
    Daily,
}

impl RollCycle {
    const ALL: [RollCycle; 3] = [RollCycle::Minutely, RollCycle::Hourly, RollCycle::Daily];

    /// The cycle with this name, in any case.
    pub fn named(name: &str) -> Option<RollCycle> {
        RollCycle::ALL.into_iter().find(|cycle| cycle.name().eq_ignore_ascii_case(name))
    }

    /// Cassandra's name.
    pub fn name(self) -> &'static str {
        match self {
            RollCycle::Minutely => "MINUTELY",
            RollCycle::Hourly => "HOURLY",
            RollCycle::Daily => "DAILY",
        }
    }
}

/// Where lines of a log go, and how many of them are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFiles {
    /// The directory.
    pub directory: PathBuf,
    /// A command that is run with each file that is done, in which `%path` stands for the file; empty for none.
    pub archive_command: String,
    /// How often a new file is begun.
    pub roll_cycle: RollCycle,
    /// Whether requests wait while too many lines are not written; else lines are dropped.
    pub block: bool,
    /// Bytes of lines that may wait to be written.
    pub max_queue_weight: u64,
    /// Bytes of files that are kept, if there is no command that archives them.
    pub max_log_size: u64,
    /// How often the command is tried again for a file.
    pub max_archive_retries: u32,
}

impl Default for LogFiles {
    fn default() -> LogFiles {
        LogFiles {
            directory: PathBuf::new(),
            archive_command: String::new(),
            roll_cycle: RollCycle::default(),
            block: true,
            max_queue_weight: 256 << 20,
            max_log_size: 16 << 30,
            max_archive_retries: 10,
        }
    }
}

/// What of something is logged: all but what is excluded, or only what is included of that.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// As it was given: names with commas between them.
    pub included: String,
    /// The same.
    pub excluded: String,
}

impl Filter {
    /// Whether something with this name is logged. What has no name is.
    pub fn admits(&self, name: Option<&str>) -> bool {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return true };
        let included = names_of(&self.included);
        !names_of(&self.excluded).contains(name) && (included.is_empty() || included.contains(name))
    }
}

/// The names in a list with commas.
pub fn names_of(list: &str) -> BTreeSet<&str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// Where entries of the audit log go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AuditLogger {
    /// To files of the log's own (`BinAuditLogger`, whose files are JSON lines here).
    #[default]
    Files,
    /// To the node's log (`FileAuditLogger`).
    NodeLog,
}

impl AuditLogger {
    /// The logger of a class, with or without its package.
    pub fn named(class: &str) -> Option<AuditLogger> {
        let name = class.rsplit('.').next().unwrap_or(class);
        [AuditLogger::Files, AuditLogger::NodeLog].into_iter().find(|logger| logger.class() == name)
    }

    /// The class that Cassandra has for it.
    pub fn class(self) -> &'static str {
        match self {
            AuditLogger::Files => "BinAuditLogger",
            AuditLogger::NodeLog => "FileAuditLogger",
        }
    }
}

/// Categories of entries of the audit log.
pub const CATEGORIES: [&str; 8] = ["QUERY", "DML", "DDL", "DCL", "OTHER", "AUTH", "ERROR", "PREPARE"];

/// `audit_logging_options`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditOptions {
    /// Whether the log is kept from the start.
    pub enabled: bool,
    /// Where entries go.
    pub logger: AuditLogger,
    /// The files.
    pub files: LogFiles,
    /// By keyspace.
    pub keyspaces: Filter,
    /// By category.
    pub categories: Filter,
    /// By role.
    pub users: Filter,
    /// Whether nodetool may name a command that archives files.
    pub allow_nodetool_archive_command: bool,
}

impl Default for AuditOptions {
    fn default() -> AuditOptions {
        let excluded = "system,system_schema,system_virtual_schema".to_owned();
        AuditOptions {
            enabled: false,
            logger: AuditLogger::default(),
            files: LogFiles { directory: "audit".into(), ..LogFiles::default() },
            keyspaces: Filter { excluded, ..Filter::default() },
            categories: Filter::default(),
            users: Filter::default(),
            allow_nodetool_archive_command: false,
        }
    }
}

impl AuditOptions {
    /// Checks the names of categories. The text is Cassandra's.
    pub fn check(&self) -> Result<(), String> {
        let given = names_of(&self.categories.included).into_iter().chain(names_of(&self.categories.excluded));
        match given.into_iter().find(|name| !CATEGORIES.contains(name)) {
            Some(name) => Err(format!("No enum constant org.apache.cassandra.audit.AuditLogEntryCategory.{name}")),
            None => Ok(()),
        }
    }
}

/// `full_query_logging_options`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FullQueryOptions {
    /// The files.
    pub files: LogFiles,
    /// Whether nodetool may name a command that archives files.
    pub allow_nodetool_archive_command: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_exclude_before_they_include() {
        let filter = |included: &str, excluded: &str| Filter { included: included.into(), excluded: excluded.into() };
        assert!(filter("", "").admits(Some("a")));
        assert!(filter("a, b", "").admits(Some("b")));
        assert!(!filter("a,b", "b").admits(Some("b")));
        assert!(!filter("a", "").admits(Some("c")));
        assert!(filter("a", "b").admits(None), "what belongs to no keyspace");
    }

    #[test]
    fn categories_are_checked() {
        let of = |included: &str| AuditOptions {
            categories: Filter { included: included.into(), ..Filter::default() },
            ..AuditOptions::default()
        };
        assert_eq!(of("QUERY,DML").check(), Ok(()));
        let text = "No enum constant org.apache.cassandra.audit.AuditLogEntryCategory.NOPE";
        assert_eq!(of("QUERY,NOPE").check(), Err(text.into()));
    }
}
