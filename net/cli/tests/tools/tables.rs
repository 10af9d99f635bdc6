//! Tools that are given keyspace and table: which files there are, and whether they are sound. Texts are Cassandra's.

use super::archive::{helenus, unpack};

/// A data directory with a table `golden.ttl`; where the table's files are.
fn data() -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let table = directory.path().join("golden").join(format!("ttl-{}", "0a".repeat(16)));
    std::fs::create_dir_all(&table).expect("a directory");
    let mut tables = unpack("../../storage/sstable/tests/golden/oa.tar.zst");
    for (file, bytes) in tables.remove("ttl").expect("a table") {
        if file.starts_with("oa-") {
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
    assert_eq!(verify(&["-f", "-c"]).1, "-c is not supported\n");
    let file = table.join("oa-1-big-Data.db");
    let mut bytes = std::fs::read(&file).expect("read");
    bytes[20] ^= 1;
    std::fs::write(&file, bytes).expect("written");
    let (out, _, code) = verify(&["-f"]);
    let failed = format!("WARNING: Corrupted file: integrity check (digest) failed for {}: ", file.display());
    assert!(out.contains(&failed) && out.contains(&format!("WARNING: Error verifying {name}: java.lang.Exception")));
    assert_eq!(code, 1);
}
