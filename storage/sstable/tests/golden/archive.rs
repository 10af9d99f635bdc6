//! The archives: tar in Zstandard.

use sstable::Version;
use std::collections::BTreeMap;
use std::io::Read;

/// Files of a table by name.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;
/// Tables by name.
pub(crate) type Tables = BTreeMap<String, Files>;

const DA: &[u8] = include_bytes!("da.tar.zst");
const OA: &[u8] = include_bytes!("oa.tar.zst");
const NB: &[u8] = include_bytes!("nb.tar.zst");

pub(crate) struct Archive;

impl Archive {
    /// The tables of a version, with the schema and rows of `da` where they are the same.
    pub(crate) fn load(version: Version) -> Tables {
        let mut tables = untar(match version {
            Version::Da => DA,
            Version::Oa => OA,
            Version::Nb => NB,
        });
        if version != Version::Da {
            for (name, files) in untar(DA) {
                let table = tables.entry(name).or_default();
                for (file, bytes) in files {
                    if matches!(file.as_str(), "schema.cql" | "rows.json") {
                        table.entry(file).or_insert(bytes);
                    }
                }
            }
        }
        tables
    }
}

fn untar(compressed: &[u8]) -> Tables {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(compressed).expect("zstd");
    decoder.window_log_max(27).expect("a window");
    let mut bytes = Vec::new();
    decoder.read_to_end(&mut bytes).expect("zstd");
    let mut tables = Tables::new();
    let mut rest = &bytes[..];
    while rest.len() >= 512 && rest[0] != 0 {
        let (head, tail) = rest.split_at(512);
        let text =
            |field: &[u8]| field.iter().take_while(|byte| **byte != 0).map(|byte| *byte as char).collect::<String>();
        let len = usize::from_str_radix(text(&head[124..136]).trim(), 8).expect("a length");
        let name = text(&head[..100]);
        let (table, file) = name.split_once('/').expect("a table");
        tables.entry(table.to_owned()).or_default().insert(file.to_owned(), tail[..len].to_vec());
        rest = &tail[len.next_multiple_of(512).min(tail.len())..];
    }
    tables
}
