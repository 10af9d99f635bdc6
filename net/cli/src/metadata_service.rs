//! Asks the metadata service of a cloud where this machine is, by blocking calls before any shard runs.

use cluster::snitch::cloud::{Method, Question};
use std::time::Duration;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Sends a question and waits for the answer, at most for `timeout`. Redirections are not followed.
///
/// # Errors
/// Cassandra's text for any status but 200; else what went wrong.
pub(crate) fn ask(question: &Question, timeout: Duration) -> Result<String, String> {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .max_redirects(0)
        .proxy(None)
        .http_status_as_error(false)
        .build();
    let agent = config.new_agent();
    let headers = &question.headers;
    let answer = match question.method {
        Method::Get => headers.iter().fold(agent.get(&question.url), |r, (name, value)| r.header(*name, value)).call(),
        Method::Put => {
            headers.iter().fold(agent.put(&question.url), |r, (name, value)| r.header(*name, value)).send_empty()
        }
    };
    let failed = |error: ureq::Error| format!("{}: {error}", question.url);
    let mut answer = answer.map_err(failed)?;
    if answer.status().as_u16() != 200 {
        let reason = answer.status().canonical_reason().unwrap_or_default();
        return Err(format!("HTTP response code: {} ({reason})", answer.status().as_u16()));
    }
    answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string().map_err(failed)
}

#[cfg(test)]
mod tests;
