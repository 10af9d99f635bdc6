//! Tools that take a keyspace and a table: `sstableutil` lists its files, `sstableverify` checks them. Expected texts
//! are Cassandra's.

use super::archive::{helenus, unpack};

/// Makes a data directory with a table `golden.ttl`. Returns it and the directory of the table's files.
fn data() -> (tempfile::TempDir, std::path::PathBuf) {
    data_of("oa", "ttl")
}

/// Makes a data directory with a table whose files have the given version. Returns it and the directory of the files.
fn data_of(version: &str, name: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let table = directory.path().join("golden").join(format!("{name}-{}", "0a".repeat(16)));
    std::fs::create_dir_all(&table).expect("a directory");
    let mut tables = unpack(&format!("../../storage/sstable/tests/golden/{version}.tar.zst"));
    for (file, bytes) in tables.remove(name).expect("a table") {
        if file.starts_with(&format!("{version}-")) {
            std::fs::write(table.join(file), bytes).expect("written");
        }
    }
    let table = std::fs::canonicalize(table).expect("a path");
    (directory, table)
}

#[test]
fn files_are_listed() {
    let (directory, table) = data();
    let directory = directory.path().to_str().expect("text");
    let list = |arguments: &[&str]| {
        let arguments = [&["sstableutil", "--data-dir", directory][..], arguments, &["golden", "ttl"]].concat();
        let (out, err, code) = helenus(&arguments);
        assert_eq!((err.as_str(), code), ("", 0));
        out
    };
    let parts = "CompressionInfo.db Data.db Digest.crc32 Filter.db Index.db Statistics.db Summary.db TOC.txt";
    let line = |part: &str| format!("{}/oa-1-big-{part}\n", table.display());
    let all: String = parts.split(' ').map(line).collect();
    assert_eq!(list(&[]), format!("Listing files...\n{all}"));
    assert_eq!(list(&["-t", "final"]), format!("Listing files...\n{all}"));
    assert_eq!(list(&["-t", "tmp", "-v"]), "Listing files...\n");
    let unknown = helenus(&["sstableutil", "--data-dir", directory, "ks", "t"]);
    assert_eq!(unknown, (String::new(), "Unknown keyspace/table ks.t\n".into(), 1));
    for (arguments, error) in [
        (&["sstableutil"][..], "Missing arguments\n"),
        (&["sstableutil", "a", "b", "c"], "Too many arguments\n"),
        (&["sstableutil", "-z", "a", "b"], "Unrecognized option: -z\n"),
    ] {
        let (out, err, code) = helenus(arguments);
        assert!(out.starts_with("usage: sstableutil [options] <keyspace> <column_family>\n--\nList sstable files"));
        assert_eq!((err.as_str(), code), (error, 1));
    }
}

#[test]
fn damage_is_found() {
    let (directory, table) = data();
    let directory = directory.path().to_str().expect("text");
    let verify = |arguments: &[&str]| {
        helenus(&[&["sstableverify", "--data-dir", directory, "golden", "ttl"][..], arguments].concat())
    };
    let (_, err, code) = verify(&[]);
    assert_eq!(err, "verify will not run without -f or --force. See CASSANDRA-17017 for details.\n");
    assert_eq!(code, 1);
    let name = format!("BigTableReader:big(path='{}/oa-1-big-Data.db')", table.display());
    let head = "sstableverify using the following options: Options{keyspaceName='golden', cfName='ttl', debug=false, \
                verbose=false, extended=false, checkVersion=false, mutateRepairStatus=false, quick=false, tokens=[]}\n\
                Running verifier with the following options: Options{invokeDiskFailurePolicy=false, \
                extendedVerification=false, checkVersion=false, mutateRepairStatus=false, checkOwnsTokens=false, \
                quick=false}\n";
    let lines = format!(
        "Verifying {name} (491B)\nDeserializing sstable metadata for {name} \nChecking computed hash of {name} \n"
    );
    assert_eq!(verify(&["-f"]), (format!("{head}{lines}"), String::new(), 0));
    let (out, _, code) = verify(&["-f", "-e", "-v"]);
    assert!(
        out.contains("Reading row at 0\nrow 00000001 is 93B\nRow 1 at 0 valid, moving to next row at 99 \n"),
        "{out}"
    );
    assert!(out.ends_with(&format!("Verify of {name} succeeded. All 4 rows read successfully\n")), "{out}");
    assert_eq!(code, 0);
    assert_eq!(verify(&["-f", "-r"]).1, "-r is not supported: there is no repair\n");
    let (out, _, code) = verify(&["-f", "-c"]);
    assert!(out.ends_with(&lines) && out.contains("checkVersion=true"), "{out}");
    assert_eq!(code, 0);
    let file = table.join("oa-1-big-Data.db");
    let mut bytes = std::fs::read(&file).expect("read");
    bytes[20] ^= 1;
    std::fs::write(&file, bytes).expect("written");
    let (out, _, code) = verify(&["-f"]);
    let failed = format!("WARNING: Corrupted file: integrity check (digest) failed for {}: ", file.display());
    assert!(out.contains(&failed) && out.contains(&format!("WARNING: Error verifying {name}: java.lang.Exception")));
    assert_eq!(code, 1);
}

#[test]
fn old_versions_are_told() {
    let (directory, table) = data_of("nb", "key_bigint");
    let directory = directory.path().to_str().expect("text");
    let verify = |flag: &str| helenus(&["sstableverify", "--data-dir", directory, "golden", "key_bigint", "-f", flag]);
    let name = format!("BigTableReader:big(path='{}/nb-1-big-Data.db')", table.display());
    let (out, _, code) = verify("-c");
    let told = format!(
        "quick=false}}\nVerifying {name} (30.492KiB)\n{name} is not the latest version, run upgradesstables\nWARNING: Error \
         verifying {name}: {name} is not the latest version, run upgradesstables\n"
    );
    assert!(out.ends_with(&told), "{out}");
    assert_eq!(code, 1);
    let (out, _, code) = verify("-e");
    assert!(out.ends_with("succeeded. All 71 rows read successfully\n"), "{out}");
    assert_eq!(code, 0);
}

#[test]
fn keys_outside_of_the_ranges_are_told() {
    let (directory, _) = data();
    let directory = directory.path().to_str().expect("text");
    let verify = |ranges: &[&str]| {
        helenus(&[&["sstableverify", "--data-dir", directory, "golden", "ttl", "-f", "-t"][..], ranges].concat())
    };
    let (out, _, code) = verify(&["-9223372036854775808,0", "0,9223372036854775807"]);
    assert!(out.contains("tokens=[(-9223372036854775808,0], (0,9223372036854775807]]"), "{out}");
    assert!(out.contains("checkOwnsTokens=true") && !out.contains("WARNING"), "{out}");
    assert_eq!(code, 0);
    // A range around the end of the ring holds every token but 1.
    assert_eq!(verify(&["1,0"]).2, 0);
    let (out, _, code) = verify(&["-1,0", "0,1"]);
    let told = "WARNING: Key DecoratedKey(-4069959284402364209, 00000001) is not contained in the given ranges\n";
    assert!(out.contains(told), "{out}");
    assert_eq!(code, 1);
    for (range, wrong) in [
        ("5", "Unable to parse token range from 5; format is left,right but saw 1 parts\n"),
        ("1,2,3", "Unable to parse token range from 1,2,3; format is left,right but saw 3 parts\n"),
        ("a,b", "For input string: \"a\"\n"),
    ] {
        assert_eq!(verify(&[range]), (String::new(), wrong.into(), 1));
    }
}
