//! Unpacks archives (tar in Zstandard) of SSTables that Cassandra wrote. The tests of other crates include this file.

use std::collections::BTreeMap;
use std::io::Read;

/// Files by name.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;
/// Tables by name.
pub(crate) type Tables = BTreeMap<String, Files>;

/// Unpacks an archive that has a directory for each table.
pub(crate) fn by_table(compressed: &[u8]) -> Tables {
    let mut tables = Tables::new();
    for (name, bytes) in unpack(compressed) {
        let (table, file) = name.split_once('/').expect("a table");
        tables.entry(table.to_owned()).or_default().insert(file.to_owned(), bytes);
    }
    tables
}

/// Returns the files of an archive by name.
pub(crate) fn unpack(compressed: &[u8]) -> Files {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(compressed).expect("zstd");
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
        // A long name is split in two.
        let folder = if head[257..263] == *b"ustar\0" { text(&head[345..500]) } else { String::new() };
        let name = if folder.is_empty() { text(&head[..100]) } else { format!("{folder}/{}", text(&head[..100])) };
        files.insert(name, tail[..len].to_vec());
        rest = &tail[len.next_multiple_of(512).min(tail.len())..];
    }
    files
}
