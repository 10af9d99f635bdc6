//! Options of the tools: keys, raw times, lines, and what is refused. Expected texts are Cassandra's.

use super::archive::{helenus, lay_out};

const USAGE: &str = "usage: sstabledump <sstable file path> <options>
Dump contents of given SSTable to standard output in JSON format.
 -d         CQL row per line internal representation
 -e         enumerate partition keys only
 -k <arg>   List of included partition keys
 -l         Output json lines, by partition
 -t         Print raw timestamps instead of iso8601 date strings
 -x <arg>   List of excluded partition keys
";

fn text(path: &std::path::Path) -> String {
    path.to_str().expect("text").to_owned()
}

#[test]
fn keys_are_listed_and_chosen() {
    let directory = lay_out("oa", &["ttl", "composite_key"]);
    let file = text(&directory.path().join("ttl/oa-1-big-Data.db"));
    let keys = |arguments: &[&str]| {
        let (out, err, code) = helenus(&[&["sstabledump", file.as_str()][..], arguments].concat());
        assert_eq!((err.as_str(), code), ("", 0));
        out
    };
    assert_eq!(keys(&["-e"]), "[ [ \"1\" ], [ \"0\" ], [ \"2\" ], [ \"3\" ]\n]");
    assert_eq!(keys(&["-k", "77"]), "[ ]");
    assert_eq!(keys(&["-k", "77", "-l"]), "");
    assert_eq!(keys(&["-k", "1", "-x", "1"]), "[ ]");
    let lines = keys(&["-x", "1", "0", "2", "-l", "-t"]);
    assert_eq!(
        lines,
        "{\"table kind\":\"REGULAR\",\"partition\":{\"key\":[\"3\"],\"position\":430},\"rows\":[\
         {\"type\":\"row\",\"position\":430,\"clustering\":[0],\"liveness_info\":{\"tstamp\":\"1700000000000000\",\
         \"ttl\":630720000,\"expires_at\":\"2778203600\",\"expired\":false},\"cells\":[{\"name\":\"v\",\"value\":0},\
         {\"name\":\"w\",\"value\":\"expires in 2086\"}]},\
         {\"type\":\"row\",\"position\":475,\"clustering\":[1],\"deletion_info\":{\"marked_deleted\":\"1700000000000000\",\
         \"local_delete_time\":\"2147483647\"},\"cells\":[]}]}"
    );
    assert_eq!(keys(&["-td", "-k3"]).lines().count(), 2);
    let file = text(&directory.path().join("composite_key/oa-1-big-Data.db"));
    let key = "ab:0:12345678-9abc-3def-8123-456789abcdef";
    let (out, _, _) = helenus(&["sstabledump", "-k", key, "-d", &file]);
    assert!(!out.is_empty() && out.lines().all(|line| line.starts_with(&format!("[{key}]@"))), "{out}");
}

#[test]
fn wrong_arguments_are_refused() {
    for (arguments, error) in [
        (&["sstabledump"][..], "You must supply exactly one sstable\n"),
        (&["sstabledump", "a", "b"], "You must supply exactly one sstable\n"),
        (&["sstabledump", "-z", "a"], "Unrecognized option: -z\n"),
        (&["sstabledump", "-h"], "Unrecognized option: -h\n"),
        (&["sstabledump", "a", "-k"], "Missing argument for option: k\n"),
    ] {
        assert_eq!(helenus(arguments), (USAGE.to_owned(), error.to_owned(), 1), "{arguments:?}");
    }
    let directory = lay_out("da", &["ttl"]);
    let file = text(&directory.path().join("ttl/da-1-bti-Data.db"));
    let refused = |arguments: &[&str]| {
        let (out, err, code) = helenus(arguments);
        assert_eq!((out.as_str(), code), ("", 1), "{arguments:?}");
        err
    };
    assert_eq!(refused(&["sstabledump", "/nope/x"]), "Cannot find file /nope/x\n");
    assert_eq!(refused(&["sstabledump", &file, "-k", "abc"]), "Unable to make int from 'abc'\n");
    let schema = text(&directory.path().join("ttl/schema.cql"));
    let name = "Invalid sstable file schema.cql: the name doesn't look like a supported sstable file name\n";
    assert_eq!(refused(&["sstabledump", &schema]), name);
    assert_eq!(refused(&["sstablemetadata", &schema]), name);
    assert!(refused(&["sstablemetadata"]).starts_with("You must supply at least one sstable\nusage: sstablemetadata "));
    assert_eq!(refused(&["sstablemetadata", "-g", "abc", &file]), "For input string: \"abc\"\n");
    assert_eq!(
        refused(&["sstablemetadata", "-t", "BLA", &file]),
        "No enum constant java.util.concurrent.TimeUnit.BLA\n"
    );
    assert_eq!(helenus(&["sstablemetadata", "/nope"]), ("No such file: /nope\n".into(), String::new(), 0));
}

#[test]
fn colours_and_scans() {
    let directory = lay_out("oa", &["ttl"]);
    let file = text(&directory.path().join("ttl/oa-1-big-Data.db"));
    let (out, _, _) = helenus(&["sstablemetadata", "-u", "-c", &file]);
    for line in [
        "\u{1b}[34mTTL max\u{1b}[36m: \u{1b}[0m630720000\u{1b}[37m (7300 days)\u{1b}[0m",
        "   \u{1b}[34mDrop Time                        \u{1b}[36m|\u{1b}[34m Count  \u{1b}[37m(%)\u{1b}[0m  \
         \u{1b}[34mHistogram\u{1b}[0m ",
        "   1700000040 \u{1b}[37m(11/14/2023 22:14:00)\u{1b}[0m \u{1b}[36m|\u{1b}[0m     1 \u{1b}[37m(  3)\u{1b}[0m \
         \u{1b}[37m▉▉▉▉▉\u{1b}[0m",
        "   \u{1b}[34m50th      \u{1b}[0m2395318855 \u{1b}[37m(11/26/2045 14:20:55)\u{1b}[0m",
    ] {
        assert!(out.lines().any(|found| found == line), "{line:?} in {out}");
    }
    let (out, _, _) = helenus(&["sstablemetadata", "-s", &file]);
    let scan = format!(
        "\rAnalyzing SSTable...  #----------------------------- (%4)\r{:80}\rSize: 491\nPartitions: 4\nRows: 13\n\
         Tombstones: 0\nCells: 23\nWidest Partitions: \n",
        ""
    );
    assert!(out.contains(&scan), "{out}");
    let sizes = "Largest Partitions: \n  [0] 440 (440 B)\n  [2] 330 (330 B)\n  [1] 164 (164 B)\n  [3] 121 (121 B)\n";
    assert!(out.contains(sizes), "{out}");
}
