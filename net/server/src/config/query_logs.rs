//! Options of the audit log and of the log of full queries.

use super::given::Given;
use super::{ConfigError, error};
use crate::query_log::options::{AuditLogger, AuditOptions, Filter, FullQueryOptions, LogFiles, RollCycle};

/// The options of one of the logs, which have the same names in both.
struct Names {
    archive_command: &'static str,
    roll_cycle: &'static str,
    block: &'static str,
    max_queue_weight: &'static str,
    max_log_size: &'static str,
    max_archive_retries: &'static str,
}

const AUDIT: Names = Names {
    archive_command: "audit_logging_options.archive_command",
    roll_cycle: "audit_logging_options.roll_cycle",
    block: "audit_logging_options.block",
    max_queue_weight: "audit_logging_options.max_queue_weight",
    max_log_size: "audit_logging_options.max_log_size",
    max_archive_retries: "audit_logging_options.max_archive_retries",
};

const FULL: Names = Names {
    archive_command: "full_query_logging_options.archive_command",
    roll_cycle: "full_query_logging_options.roll_cycle",
    block: "full_query_logging_options.block",
    max_queue_weight: "full_query_logging_options.max_queue_weight",
    max_log_size: "full_query_logging_options.max_log_size",
    max_archive_retries: "full_query_logging_options.max_archive_retries",
};

impl Given {
    pub(super) fn audit_log(&self) -> Result<AuditOptions, ConfigError> {
        const LOGGER: &str = "audit_logging_options.logger";
        let default = AuditOptions::default();
        let filter = |included, excluded, default: Filter| {
            Ok::<Filter, ConfigError>(Filter {
                included: self.text(included)?.unwrap_or(default.included),
                excluded: self.text(excluded)?.unwrap_or(default.excluded),
            })
        };
        let logger = match self.text("audit_logging_options.logger.class_name")? {
            None => default.logger,
            Some(class) => match AuditLogger::named(&class) {
                Some(logger) => logger,
                None => return error(format!("{LOGGER}: {class} is not BinAuditLogger or FileAuditLogger")),
            },
        };
        let directory = self.text("audit_logging_options.audit_logs_dir")?;
        let options = AuditOptions {
            enabled: self.flag("audit_logging_options.enabled")?.unwrap_or(default.enabled),
            logger,
            files: LogFiles {
                directory: directory.map_or(default.files.directory, Into::into),
                ..self.log_files(&AUDIT)?
            },
            keyspaces: filter(
                "audit_logging_options.included_keyspaces",
                "audit_logging_options.excluded_keyspaces",
                default.keyspaces,
            )?,
            categories: filter(
                "audit_logging_options.included_categories",
                "audit_logging_options.excluded_categories",
                default.categories,
            )?,
            users: filter(
                "audit_logging_options.included_users",
                "audit_logging_options.excluded_users",
                default.users,
            )?,
            allow_nodetool_archive_command: self
                .flag("audit_logging_options.allow_nodetool_archive_command")?
                .unwrap_or_default(),
        };
        let named = |text| format!("audit_logging_options.included_categories, excluded_categories: {text}");
        options.check().map_err(named).or_else(error)?;
        Ok(options)
    }

    pub(super) fn full_query_log(&self) -> Result<FullQueryOptions, ConfigError> {
        let directory = self.text("full_query_logging_options.log_dir")?.unwrap_or_default();
        Ok(FullQueryOptions {
            files: LogFiles { directory: directory.into(), ..self.log_files(&FULL)? },
            allow_nodetool_archive_command: self
                .flag("full_query_logging_options.allow_nodetool_archive_command")?
                .unwrap_or_default(),
        })
    }

    fn log_files(&self, names: &Names) -> Result<LogFiles, ConfigError> {
        let default = LogFiles::default();
        let roll_cycle = match self.text(names.roll_cycle)? {
            None => default.roll_cycle,
            Some(name) => match RollCycle::named(&name) {
                Some(cycle) => cycle,
                None => return error(format!("{}: {name} is not MINUTELY, HOURLY or DAILY", names.roll_cycle)),
            },
        };
        let number = |name, least| self.number(name, least, i64::MAX as u64);
        Ok(LogFiles {
            archive_command: self.text(names.archive_command)?.unwrap_or_default(),
            roll_cycle,
            block: self.flag(names.block)?.unwrap_or(default.block),
            max_queue_weight: number(names.max_queue_weight, 1)?.unwrap_or(default.max_queue_weight),
            max_log_size: number(names.max_log_size, 1)?.unwrap_or(default.max_log_size),
            max_archive_retries: self
                .number(names.max_archive_retries, 0, i32::MAX as u64)?
                .map_or(default.max_archive_retries, |retries| retries as u32),
            directory: default.directory,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn options_of_the_logs_are_read() {
        let read = |text: &str| Config::read(text, &[]).map_err(|error| error.0);
        let config = read("").expect("valid");
        assert_eq!((config.audit_log, config.full_query_log), Default::default());
        let file = "audit_logging_options:\n  enabled: true\n  logger:\n    - class_name: FileAuditLogger\n\
                    \x20 audit_logs_dir: /a\n  roll_cycle: daily\n  block: false\n  included_users: a,b\n\
                    \x20 excluded_keyspaces: ''\n  excluded_categories: QUERY\n  max_archive_retries: 0\n\
                    full_query_logging_options:\n  log_dir: /f\n  max_log_size: 5\n  archive_command: mv %path /x\n";
        let config = read(file).expect("valid");
        let audit = config.audit_log;
        assert_eq!(
            (audit.enabled, audit.logger, audit.files.roll_cycle),
            (true, AuditLogger::NodeLog, RollCycle::Daily)
        );
        assert_eq!((audit.files.block, audit.files.max_archive_retries), (false, 0));
        assert_eq!((audit.users.included.as_str(), audit.keyspaces.excluded.as_str()), ("a,b", ""));
        let full = config.full_query_log.files;
        assert_eq!((full.directory.to_str(), full.max_log_size), (Some("/f"), 5));
        assert_eq!(full.archive_command, "mv %path /x");
        for (option, text) in [
            ("roll_cycle: YEARLY", "is not MINUTELY, HOURLY or DAILY"),
            ("logger: Other", "is not BinAuditLogger or FileAuditLogger"),
            ("included_categories: NOPE", "AuditLogEntryCategory.NOPE"),
            ("max_queue_weight: 0", "is not a number from 1"),
        ] {
            let refused = read(&format!("audit_logging_options:\n  {option}\n")).expect_err(option);
            assert!(refused.contains(text), "{refused}");
        }
    }
}
