//! `fqltool compare`: the results of several targets, as `replay` has stored them, side by side.

use super::Given;
use super::results::{Outcome, QUERIES, RESULTS, compare};
use server::query_log::logged::LoggedQuery;
use server::query_log::reader::LogReader;
use std::io::Write;
use std::path::Path;

/// Runs the command. Its last line tells how many requests there were and how many of them differ.
pub(super) fn run(given: &Given) -> Result<(), String> {
    let directory = given.value("queries").unwrap_or_default();
    let mut queries = LogReader::lines(Path::new(directory).join(QUERIES));
    let mut results: Vec<LogReader> =
        given.paths.iter().map(|path| LogReader::lines(Path::new(path).join(RESULTS))).collect();
    let mut out = std::io::stdout().lock();
    let (mut count, mut mismatches) = (0, 0);
    let next = |reader: &mut LogReader| reader.next_line(true).map_err(|error| error.to_string());
    while let Some(line) = next(&mut queries)? {
        let query = LoggedQuery::of_line(&line)?;
        let mut outcomes = Vec::with_capacity(results.len());
        for reader in &mut results {
            outcomes.push(next(reader)?.map(|line| Outcome::of_line(&line)).transpose()?);
        }
        let mut text = String::new();
        count += 1;
        mismatches += u64::from(compare(&given.paths, &query, &outcomes, &mut text));
        out.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
    }
    writeln!(out, "{count} queries compared, {mismatches} differ").map_err(|error| error.to_string())
}
