//! Commands about the audit log and the log of full queries. Texts are Cassandra's.

use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::admin::text_table::TextTable;
use crate::node_state::NodeState;
use crate::query_log::options::{AuditLogger, AuditOptions, Filter, FullQueryOptions, LogFiles, RollCycle};

/// `enableauditlog`: what is not given is as the configuration has it.
pub(crate) async fn enable_audit(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let configured = node.config.audit_log.clone();
    let archives = configured.allow_nodetool_archive_command;
    let files = files_of(request, configured.files, archives, "audit log", "audit_logging_options")?;
    let filter = |included: &str, excluded: &str, configured: Filter| Filter {
        included: request.option(included).map_or(configured.included, str::to_owned),
        excluded: request.option(excluded).map_or(configured.excluded, str::to_owned),
    };
    let logger = match request.option("--logger") {
        None => configured.logger,
        Some(class) => match AuditLogger::named(class) {
            Some(logger) => logger,
            None => return Err(CommandError::Failed(format!("org.apache.cassandra.audit.{class}"))),
        },
    };
    let options = AuditOptions {
        enabled: true,
        logger,
        files,
        keyspaces: filter("--included-keyspaces", "--excluded-keyspaces", configured.keyspaces),
        categories: filter("--included-categories", "--excluded-categories", configured.categories),
        users: filter("--included-users", "--excluded-users", configured.users),
        allow_nodetool_archive_command: archives,
    };
    options.check().map_err(CommandError::Failed)?;
    node.clients.set_audit(Some(options)).await.map_err(CommandError::Failed)
}

/// `disableauditlog`.
pub(crate) async fn disable_audit(node: &NodeState) -> Result<(), CommandError> {
    node.clients.set_audit(None).await.map_err(CommandError::Failed)
}

/// `getauditlog`: the log that is kept, or what the configuration says of it.
pub(crate) fn show_audit(node: &NodeState, out: &mut String) -> Result<(), CommandError> {
    let kept = node.clients.query_logs().0;
    let is_on = kept.is_some();
    let options = kept.unwrap_or_else(|| node.config.audit_log.clone());
    let mut table = TextTable::new(1);
    table.row(["enabled", &is_on.to_string()]);
    table.row(["logger", options.logger.class()]);
    table.row(["audit_logs_dir", &options.files.directory.display().to_string()]);
    put_files(&mut table, &options.files);
    for (name, list) in [
        ("included_keyspaces", &options.keyspaces.included),
        ("excluded_keyspaces", &options.keyspaces.excluded),
        ("included_categories", &options.categories.included),
        ("excluded_categories", &options.categories.excluded),
        ("included_users", &options.users.included),
        ("excluded_users", &options.users.excluded),
    ] {
        table.row([name, list]);
    }
    table.print(out);
    Ok(())
}

/// `enablefullquerylog`.
pub(crate) async fn enable_full(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    if node.clients.query_logs().1.is_some() {
        return usage("Binlog is already configured");
    }
    let configured = node.config.full_query_log.clone();
    let archives = configured.allow_nodetool_archive_command;
    let mut files = files_of(request, configured.files, archives, "full query log", "full_query_logging_options")?;
    if let Some(path) = request.option("--path") {
        files.directory = path.into();
    }
    if files.directory.as_os_str().is_empty() {
        return usage("path was null");
    }
    let options = FullQueryOptions { files, allow_nodetool_archive_command: archives };
    node.clients.set_full(Some(options)).await.map_err(CommandError::Failed)
}

/// `disablefullquerylog`, and `resetfullquerylog`, which removes the files too.
pub(crate) async fn disable_full(node: &NodeState, removes_files: bool) -> Result<(), CommandError> {
    let kept = node.clients.query_logs().1.unwrap_or_else(|| node.config.full_query_log.clone());
    node.clients.set_full(None).await.map_err(CommandError::Failed)?;
    let directories = [kept.files.directory, node.config.full_query_log.files.directory.clone()];
    for directory in directories.into_iter().filter(|directory| removes_files && !directory.as_os_str().is_empty()) {
        let removed =
            runtime::calculate(move || runtime::blocking::remove_oldest(&directory, "fql", ".jsonl", 0)).await;
        removed.and_then(|removed| removed).map_err(|error| CommandError::Failed(error.to_string()))?;
    }
    Ok(())
}

/// `getfullquerylog`.
pub(crate) fn show_full(node: &NodeState, out: &mut String) -> Result<(), CommandError> {
    let kept = node.clients.query_logs().1;
    let is_on = kept.is_some();
    let files = kept.unwrap_or_else(|| node.config.full_query_log.clone()).files;
    let mut table = TextTable::new(1);
    table.row(["enabled", &is_on.to_string()]);
    table.row(["log_dir", &files.directory.display().to_string()]);
    put_files(&mut table, &files);
    table.print(out);
    Ok(())
}

fn put_files(table: &mut TextTable, files: &LogFiles) {
    table.row(["archive_command", &files.archive_command]);
    table.row(["roll_cycle", files.roll_cycle.name()]);
    table.row(["block", &files.block.to_string()]);
    table.row(["max_log_size", &files.max_log_size.to_string()]);
    table.row(["max_queue_weight", &files.max_queue_weight.to_string()]);
    table.row(["max_archive_retries", &files.max_archive_retries.to_string()]);
}

/// The options about files that a command gives, over those of the configuration.
fn files_of(
    request: &Request,
    configured: LogFiles,
    archives: bool,
    log: &str,
    group: &str,
) -> Result<LogFiles, CommandError> {
    let mut files = configured;
    if let Some(command) = request.option("--archive-command") {
        if !archives {
            return Err(CommandError::Failed(format!(
                "Can't enable {log} archiving via nodetool unless {group}.allow_nodetool_archive_command is set to true"
            )));
        }
        files.archive_command = command.to_owned();
    }
    if let Some(word) = request.option("--blocking") {
        files.block = match word.to_ascii_lowercase().as_str() {
            "true" => true,
            "false" => false,
            _ => return usage(format!("Invalid [{word}]. Blocking only accepts 'true' or 'false'.")),
        };
    }
    if let Some(name) = request.option("--roll-cycle") {
        let Some(cycle) = RollCycle::named(name) else {
            return Err(CommandError::Failed(format!("unrecognized roll cycle {name}")));
        };
        files.roll_cycle = cycle;
    }
    let number = |option: &str| match request.option(option) {
        None => Ok(None),
        Some(text) => match text.parse::<u64>() {
            Ok(number) if number > 0 || option == "--max-archive-retries" => Ok(Some(number)),
            _ => usage(format!("{option}: {text} is not a number of at least 1")),
        },
    };
    if let Some(bytes) = number("--max-log-size")? {
        files.max_log_size = bytes;
    }
    if let Some(bytes) = number("--max-queue-weight")? {
        files.max_queue_weight = bytes;
    }
    if let Some(retries) = number("--max-archive-retries")? {
        files.max_archive_retries = retries.min(u64::from(u32::MAX)) as u32;
    }
    Ok(files)
}
