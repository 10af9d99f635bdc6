//! Where log lines go: to standard error, and to the file that `--log-file` names.
//!
//! The lines of the file look as those of Cassandra's `system.log`, which tools read:
//! `INFO  [shard-0] 2026-11-23 15:00:00,123 service.rs:130 - Startup complete`. Times are in UTC. The file is opened at
//! its end and never rotated.

use crate::arguments::LogFormat;
use runtime::machine::{LogFile, thread_name, wall_millis};
use std::fmt;
use std::io::{self, IsTerminal};
use std::path::Path;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// What is logged if the environment does not say.
const DEFAULT_FILTER: &str = "info,openraft=error";

/// Logs from now on. Fails if the file cannot be opened.
pub(crate) fn begin(format: LogFormat, file: Option<&Path>) -> io::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let stderr = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    let mut layers = vec![match format {
        LogFormat::Text => stderr.boxed(),
        LogFormat::Json => stderr.json().boxed(),
    }];
    if let Some(path) = file {
        let file = LogFile::open(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).event_format(SystemLog);
        layers.push(layer.with_writer(move || file.clone()).boxed());
    }
    tracing_subscriber::registry().with(layers).with(filter).init();
    Ok(())
}

/// The format of Cassandra's `system.log`.
struct SystemLog;

impl<S, N> FormatEvent<S, N> for SystemLog
where
    S: Subscriber + for<'l> LookupSpan<'l>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let file = metadata.file().and_then(|path| path.rsplit('/').next()).unwrap_or("unknown");
        let source = (file, metadata.line().unwrap_or_default());
        out.write_str(&head(*metadata.level(), &thread_name(), wall_millis(), source))?;
        context.field_format().format_fields(out.by_ref(), event)?;
        out.write_str("\n")
    }
}

/// What precedes the text of a line.
fn head(level: Level, thread: &str, millis: i64, (file, line): (&str, u32)) -> String {
    let date = model::text::instant::format(millis.div_euclid(1000) * 1000);
    let date = date.trim_end_matches('Z').replace('T', " ");
    format!("{level:<5} [{thread}] {date},{:03} {file}:{line} - ", millis.rem_euclid(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_as_cassandras() {
        let at = 1_795_446_000_123;
        assert_eq!(
            head(Level::INFO, "main", at, ("service.rs", 7)),
            "INFO  [main] 2026-11-23 15:00:00,123 service.rs:7 - "
        );
        assert_eq!(
            head(Level::ERROR, "shard-0", at - 123, ("node.rs", 12)),
            "ERROR [shard-0] 2026-11-23 15:00:00,000 node.rs:12 - "
        );
    }
}
