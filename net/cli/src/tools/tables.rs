//! The directory of a table on disk, for tools that are given keyspace and table.
//!
//! The data directory is `--data-dir DIR`, or `./data` without it. A table's directory is
//! `<keyspace>/<table>-<32 hex digits>` in the data directory or in its subdirectory `data`.

use super::files::Location;
use super::options::{Given, Known, Style, parse};
use super::{Failure, Output};
use runtime::blocking;
use sstable::{Component, Descriptor};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The data directory if there is no `--data-dir`.
pub(crate) const DATA_DIRECTORY: &str = "./data";

/// Parses a tool's command line into options, keyspace and table.
///
/// # Errors
/// The text says what is wrong with the command line; it is empty if help is asked for. [`usage`] prints either.
pub(crate) fn asked(known: &[Known], arguments: &[String]) -> Result<(Given, String, String), String> {
    let mut given = parse(known, Style::Gnu, arguments)?;
    if given.has("h") {
        return Err(String::new());
    }
    match <[String; 2]>::try_from(std::mem::take(&mut given.rest)) {
        Ok([keyspace, table]) => Ok((given, keyspace, table)),
        Err(rest) => Err(if rest.len() < 2 { "Missing arguments" } else { "Too many arguments" }.into()),
    }
}

/// Prints what was `wrong` with the command line, if anything, and how the tool is used. Returns the exit code.
pub(crate) fn usage(text: &str, wrong: &str, output: &mut Output<'_>) -> Result<u8, Failure> {
    if !wrong.is_empty() {
        writeln!(output.err, "{wrong}")?;
    }
    output.out.write_all(text.as_bytes())?;
    Ok(u8::from(!wrong.is_empty()))
}

/// Returns the directories of a table: several if it was dropped and created again.
///
/// # Errors
/// There is no such directory; the text is Cassandra's.
pub(crate) fn directories(data: &str, keyspace: &str, table: &str) -> Result<Vec<PathBuf>, Failure> {
    let is_table = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let id = name.strip_prefix(table).and_then(|rest| rest.strip_prefix('-'));
        id.is_some_and(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let mut found = Vec::new();
    for above in [Path::new(data).join(keyspace), Path::new(data).join("data").join(keyspace)] {
        if blocking::exists(&above) {
            let entries = blocking::list(&above)?;
            found.extend(entries.into_iter().filter(|(path, directory)| *directory && is_table(path)));
        }
    }
    if found.is_empty() {
        return Err(Failure(format!("Unknown keyspace/table {keyspace}.{table}")));
    }
    found.into_iter().map(|(path, _)| Ok(blocking::canonical(&path)?)).collect()
}

/// Returns the files of a table's directory by name, without those of its indexes and backups.
pub(crate) fn files(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = blocking::list(directory)?;
    Ok(entries.into_iter().filter(|(_, directory)| !directory).map(|(path, _)| path).collect())
}

/// Returns the SSTables in a table's directory that have a Data.db, by name.
pub(crate) fn sstables(directory: &Path) -> Result<Vec<Location>, Failure> {
    let of = |path: PathBuf| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let (descriptor, component) = Descriptor::parse(&name)?;
        (component == Some(Component::Data)).then(|| Location { directory: directory.to_path_buf(), descriptor })
    };
    Ok(files(directory)?.into_iter().filter_map(of).collect::<BTreeSet<_>>().into_iter().collect())
}
