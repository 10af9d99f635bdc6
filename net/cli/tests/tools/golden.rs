//! The tools' output for every golden SSTable, compared with that of Cassandra's tools.

use super::archive::{helenus, lay_out, unpack};

/// The output without what depends on the time of the run.
fn without_clock(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let shown = match line.split_once("Estimated droppable tombstones: ") {
            Some((head, number)) => format!("{head}{:.2}", number.parse::<f64>().expect("a number")),
            None => line.to_owned(),
        };
        out.push_str(&shown);
        out.push('\n');
    }
    out
}

/// Compares line by line, so that a failure shows the first line that differs.
fn same(what: &str, got: &str, expected: &str) {
    for (i, (got, expected)) in got.lines().zip(expected.lines()).enumerate() {
        assert_eq!(got, expected, "{what}, line {}", i + 1);
    }
    assert_eq!(got.len(), expected.len(), "{what}");
}

fn check(format: &str) {
    let directory = lay_out(format, &[]);
    let mut texts = 0;
    let texts_of = unpack("tests/tools/texts.tar.zst");
    let all = texts_of.iter().flat_map(|(table, files)| files.iter().map(move |(name, text)| (table, name, text)));
    for (table, name, expected) in all {
        let Some(name) = name.strip_prefix(&format!("{format}.")) else { continue };
        let path = directory.path().join(table);
        let mut data: Vec<_> = std::fs::read_dir(&path)
            .expect("a table")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .filter(|name| name.ends_with("-Data.db"))
            .collect();
        data.sort();
        let number = name.split('.').nth(1).and_then(|part| part.parse::<usize>().ok()).unwrap_or(1);
        let file = path.join(&data[number - 1]);
        let file = file.to_str().expect("text");
        let what = format!("{format} {table} {name}");
        let expected = String::from_utf8(expected.clone()).expect("text");
        let (tool, expected) = match name {
            _ if name.starts_with("dump-d") => (["sstabledump", "-d"], expected),
            _ if name.starts_with("dump") => (["sstabledump", ""], expected),
            _ => (["sstablemetadata", ""], without_clock(&expected)),
        };
        let arguments: Vec<&str> = tool.into_iter().filter(|part| !part.is_empty()).chain([file]).collect();
        if format == "nb" && name.starts_with("metadata") && !expected.contains("First token") {
            // When Cassandra printed the metadata, its sstabledump had already removed the summary.
            std::fs::remove_file(file.replace("-Data.db", "-Summary.db")).expect("removed");
        }
        let (out, err, code) = helenus(&arguments);
        assert_eq!((err.as_str(), code), ("", 0), "{what}");
        let out = if tool[0] == "sstablemetadata" {
            let above = std::fs::canonicalize(directory.path()).expect("a path");
            without_clock(&out.replacen(&format!("{}/", above.display()), "", 1))
        } else {
            out
        };
        same(&what, &out, &expected);
        texts += 1;
    }
    assert!(texts > 220, "{texts} texts");
}

#[test]
fn da_is_shown_as_cassandra_shows_it() {
    check("da");
}

#[test]
fn oa_is_shown_as_cassandra_shows_it() {
    check("oa");
}

#[test]
fn nb_is_shown_as_cassandra_shows_it() {
    check("nb");
}
