//! A table's directory on disk, for tools that are given keyspace and table.
//!
//! The data directory is `--data-dir DIR`, else `./data`; a table is `<keyspace>/<table>-<32 hex digits>` in it or in
//! its directory `data`.

use super::files::Location;
use super::options::{Given, Known, Style, parse};
use super::{Failure, Output};
use runtime::blocking;
use sstable::{Component, Descriptor};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The data directory without `--data-dir`.
pub(crate) const DATA_DIRECTORY: &str = "./data";

/// The options, keyspace and table of a tool's command line.
///
/// # Errors
/// What is wrong with it; nothing if it asks for help. [`usage`] answers both.
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

/// Prints how a tool is used, after what was wrong; its exit code.
pub(crate) fn usage(text: &str, wrong: &str, output: &mut Output<'_>) -> Result<u8, Failure> {
    if !wrong.is_empty() {
        writeln!(output.err, "{wrong}")?;
    }
    output.out.write_all(text.as_bytes())?;
    Ok(u8::from(!wrong.is_empty()))
}

/// The directories of a table: several if it was dropped and made again.
///
/// # Errors
/// There is none: Cassandra's text.
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

/// The files of a table's directory by name, those of indexes and backups not included.
pub(crate) fn files(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = blocking::list(directory)?;
    Ok(entries.into_iter().filter(|(_, directory)| !directory).map(|(path, _)| path).collect())
}

/// The SSTables of a table's directory that have data, by name.
pub(crate) fn sstables(directory: &Path) -> Result<Vec<Location>, Failure> {
    let of = |path: PathBuf| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let (descriptor, component) = Descriptor::parse(&name)?;
        (component == Some(Component::Data)).then(|| Location { directory: directory.to_path_buf(), descriptor })
    };
    Ok(files(directory)?.into_iter().filter_map(of).collect::<BTreeSet<_>>().into_iter().collect())
}
