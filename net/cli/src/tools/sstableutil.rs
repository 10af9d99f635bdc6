//! `sstableutil`: lists the files of a table.
//!
//! It does not clean up: a node removes what an interrupted compaction or flush left behind when it starts. Files count
//! as temporary if they belong to an SSTable without a TOC.txt.

use super::options::{Known, flag};
use super::tables::{DATA_DIRECTORY, asked, directories, files, usage};
use super::{Failure, Output};
use sstable::{Component, Descriptor};
use std::collections::BTreeSet;

const OPTIONS: &[Known] = &[
    flag("c", "cleanup"),
    flag("d", "debug"),
    flag("h", "help"),
    flag("o", "oplog"),
    Known { short: "t", long: "type", values_max: 1 },
    flag("v", "verbose"),
    Known { short: "", long: "data-dir", values_max: 1 },
];
const USAGE: &str = "\
usage: sstableutil [options] <keyspace> <column_family>
--
List sstable files for the provided table.
--
Options are:
 -c,--cleanup      clean-up any outstanding transactions
 -d,--debug        display stack traces
 -h,--help         display this help message
 -o,--oplog        include operation logs
 -t,--type <arg>   all (list all files, final or temporary), tmp (list
                   temporary files only), final (list final files only),
 -v,--verbose      verbose output
";

/// Runs the tool and returns its exit code.
pub(crate) fn run(arguments: &[String], output: &mut Output<'_>) -> Result<u8, Failure> {
    let (given, keyspace, table) = match asked(OPTIONS, arguments) {
        Ok(asked) => asked,
        Err(wrong) => return usage(USAGE, &wrong, output),
    };
    let directories = directories(given.value("data-dir").unwrap_or(DATA_DIRECTORY), &keyspace, &table)?;
    if given.has("c") {
        return Err(Failure("-c is not supported: the node removes what was left behind when it starts".into()));
    }
    writeln!(output.out, "Listing files...")?;
    let kind = given.value("t").unwrap_or("all");
    for directory in directories {
        let files = files(&directory)?;
        let name = |path: &std::path::Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parsed: Vec<_> = files.iter().map(|path| (path, Descriptor::parse(&name(path)))).collect();
        let is_whole = |(_, found): &&(_, Option<(Descriptor, Option<Component>)>)| {
            found.as_ref().is_some_and(|(_, component)| *component == Some(Component::Toc))
        };
        let whole: BTreeSet<&Descriptor> =
            parsed.iter().filter(is_whole).filter_map(|(_, found)| found.as_ref().map(|(found, _)| found)).collect();
        for (path, found) in &parsed {
            let is_final = found.as_ref().is_some_and(|(descriptor, _)| whole.contains(descriptor));
            let is_log = name(path).ends_with(".log");
            let shown = match kind {
                _ if is_log => given.has("o"),
                _ if found.is_none() => false,
                "tmp" => !is_final,
                "final" => is_final,
                _ => true,
            };
            if shown {
                writeln!(output.out, "{}", path.display())?;
            }
        }
    }
    Ok(0)
}
