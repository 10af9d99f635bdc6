//! Archives (tar in Zstandard), unpacked into memory.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// Files by table and name.
pub(crate) type Files = BTreeMap<(String, String), Vec<u8>>;

pub(crate) fn unpack(path: &str) -> Files {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let compressed = std::fs::read(path).expect("an archive");
    let mut decoder = zstd::stream::read::Decoder::with_buffer(&compressed[..]).expect("zstd");
    decoder.window_log_max(27).expect("a window");
    let mut bytes = Vec::new();
    decoder.read_to_end(&mut bytes).expect("zstd");
    let mut files = Files::new();
    let mut rest = &bytes[..];
    while rest.len() >= 512 && rest[0] != 0 {
        let (head, tail) = rest.split_at(512);
        let text =
            |field: &[u8]| field.iter().take_while(|byte| **byte != 0).map(|byte| *byte as char).collect::<String>();
        let len = usize::from_str_radix(text(&head[124..136]).trim(), 8).expect("a length");
        let name = text(&head[..100]);
        let (table, file) = name.split_once('/').expect("a table");
        files.insert((table.to_owned(), file.to_owned()), tail[..len].to_vec());
        rest = &tail[len.next_multiple_of(512).min(tail.len())..];
    }
    files
}

/// A directory with the SSTables of a format, one directory per table.
pub(crate) fn lay_out(format: &str, tables: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for ((table, file), bytes) in unpack(&format!("../../storage/sstable/tests/golden/{format}.tar.zst")) {
        if tables.is_empty() || tables.contains(&table.as_str()) {
            let path = directory.path().join(&table);
            std::fs::create_dir_all(&path).expect("a directory");
            std::fs::write(path.join(file), bytes).expect("written");
        }
    }
    directory
}

/// What the binary prints, and its exit code.
pub(crate) fn helenus(arguments: &[&str]) -> (String, String, i32) {
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_helenus")).args(arguments).output().expect("runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(done.stdout), text(done.stderr), done.status.code().expect("an exit code"))
}
