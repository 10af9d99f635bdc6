//! Archives (tar in Zstandard), unpacked into memory.

#[path = "../../../../storage/sstable/tests/golden/unpack.rs"]
mod golden;

use std::path::Path;

pub(crate) use golden::Tables;

/// The files of an archive, by table and name. The path is relative to this crate.
pub(crate) fn unpack(path: &str) -> Tables {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    golden::by_table(&std::fs::read(path).expect("an archive"))
}

/// Unpacks the SSTables of a format into a directory, with a directory per table.
pub(crate) fn lay_out(format: &str, tables: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (table, files) in unpack(&format!("../../storage/sstable/tests/golden/{format}.tar.zst")) {
        if tables.is_empty() || tables.contains(&table.as_str()) {
            let path = directory.path().join(&table);
            std::fs::create_dir_all(&path).expect("a directory");
            files.iter().for_each(|(file, bytes)| std::fs::write(path.join(file), bytes).expect("written"));
        }
    }
    directory
}

/// Runs the binary. Returns what it printed and its exit code.
pub(crate) fn helenus(arguments: &[&str]) -> (String, String, i32) {
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_helenus")).args(arguments).output().expect("runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(done.stdout), text(done.stderr), done.status.code().expect("an exit code"))
}
