//! Commands about compaction: `getcompactionthroughput`.

use super::Refused;
use super::protocol::Request;
use crate::config::Config;
use std::fmt::Write;

/// MiB per second that compactions of the node may write; 0: without a limit.
fn configured(config: &Config) -> u64 {
    let text = config.settings.get("compaction_throughput").cloned().flatten().unwrap_or_default();
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_default()
}

/// `getcompactionthroughput`.
pub(crate) fn throughput(config: &Config, request: &Request, out: &mut String) -> Result<(), Refused> {
    let mebibytes = configured(config);
    let _ = match request.has("-d") {
        true => writeln!(out, "Current compaction throughput: {mebibytes}.0 MiB/s"),
        false => writeln!(out, "Current compaction throughput: {mebibytes} MB/s"),
    };
    Ok(())
}
