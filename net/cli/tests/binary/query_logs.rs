//! The logs of what clients do, written by the real binary and read by its tools.

use crate::node::Node;
use crate::nodetool::{nodetool, session};
use scylla::client::session_builder::SessionBuilder;
use std::path::Path;
use std::process::Command;

/// The lines of all files of a log.
fn lines_of(directory: &Path, log: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let path = entry.expect("readable").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if name.starts_with(log) {
            lines.extend(std::fs::read_to_string(path).expect("text").lines().map(str::to_owned));
        }
    }
    lines
}

/// The value of a text field of a line of JSON.
fn field<'l>(line: &'l str, name: &str) -> &'l str {
    let from = line.find(&format!("\"{name}\":\"")).map_or(line.len(), |at| at + name.len() + 4);
    line[from..].split('"').next().unwrap_or_default()
}

#[tokio::test]
async fn what_clients_do_is_logged() {
    let directory = tempfile::tempdir().expect("a directory");
    let logs = tempfile::tempdir().expect("a directory");
    let audit = logs.path().join("audit");
    let full = logs.path().join("full");
    let audit_option = format!("audit_logging_options.audit_logs_dir={}", audit.display());
    let full_option = format!("full_query_logging_options.log_dir={}", full.display());
    let mut options = vec!["--cores", "2", "-D", "authenticator=PasswordAuthenticator"];
    options.extend(["-D", &audit_option, "-D", &full_option]);
    let node = Node::start("127.0.11.13", directory.path(), &options);
    let quiet = (0, String::new(), String::new());
    let shown = |enabled: bool| {
        let (_, out, _) = nodetool(&node, &["getauditlog"]);
        assert!(out.starts_with(&format!("enabled             {enabled:<10}")), "{out}");
        assert!(out.contains("excluded_keyspaces  system,system_schema,system_virtual_schema"), "{out}");
    };
    shown(false);
    assert_eq!(nodetool(&node, &["enableauditlog", "--excluded-categories", "OTHER"]), quiet);
    shown(true);
    assert_eq!(nodetool(&node, &["enablefullquerylog"]), quiet);
    let (exit, out, _) = nodetool(&node, &["enablefullquerylog"]);
    assert!(exit == 1 && out.starts_with("nodetool: Binlog is already configured\n"), "{out}");
    let (exit, _, err) = nodetool(&node, &["enableauditlog", "--included-categories", "NOPE"]);
    assert!(
        exit == 2 && err.contains("No enum constant org.apache.cassandra.audit.AuditLogEntryCategory.NOPE"),
        "{err}"
    );
    let (exit, _, err) = nodetool(&node, &["enableauditlog", "--archive-command", "x"]);
    assert!(exit == 2 && err.contains("Can't enable audit log archiving via nodetool unless"), "{err}");

    let log_in = async |password: &str| {
        let contact = format!("{}:9042", node.address);
        SessionBuilder::new().known_node(contact).user("cassandra", password).build().await
    };
    assert!(log_in("wrong").await.is_err());
    let session = log_in("cassandra").await.expect("logged in");
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (a int PRIMARY KEY, b text)",
        "INSERT INTO ks.t (a, b) VALUES (1, 'x')",
        "CREATE ROLE joe WITH PASSWORD = 'verysecret' AND LOGIN = true",
        "BEGIN BATCH INSERT INTO ks.t (a) VALUES (2); INSERT INTO ks.t (a) VALUES (3) APPLY BATCH",
    ] {
        session.query_unpaged(text, &[]).await.expect(text);
    }
    for text in ["SELECT nope FROM ks.t", "CREATE ROLE broken WITH PASSWORD = 'verysecret' AND"] {
        assert!(session.query_unpaged(text, &[]).await.is_err());
    }
    let prepared = session.prepare("SELECT b FROM ks.t WHERE a = ?").await.expect("prepared");
    session.execute_unpaged(&prepared, (1,)).await.expect("read");
    assert_eq!(nodetool(&node, &["disableauditlog"]), quiet);
    assert_eq!(nodetool(&node, &["disablefullquerylog"]), quiet);
    shown(false);
    session.query_unpaged("SELECT a FROM ks.t", &[]).await.expect("read");

    let lines = lines_of(&audit, "audit-");
    let kinds = |kind: &str| lines.iter().filter(|line| field(line, "type") == kind).collect::<Vec<_>>();
    let operation = |kind: &str| kinds(kind).first().map_or("", |line| field(line, "operation")).to_owned();
    assert_eq!(operation("LOGIN_ERROR"), "LOGIN FAILURE; Provided username cassandra and/or password *******");
    assert_eq!(operation("CREATE_ROLE"), "CREATE ROLE joe WITH PASSWORD = '*******' AND LOGIN = true");
    assert_eq!(operation("CREATE_TABLE"), "CREATE TABLE ks.t (a int PRIMARY KEY, b text)");
    assert_eq!((kinds("UPDATE").len(), kinds("BATCH").len(), kinds("SELECT").len()), (1, 1, 1), "{lines:#?}");
    assert_eq!(operation("PREPARE_STATEMENT"), "SELECT b FROM ks.t WHERE a = ?");
    let failures: Vec<&str> = kinds("REQUEST_FAILURE").iter().map(|line| field(line, "operation")).collect();
    assert!(failures.contains(&"SELECT nope FROM ks.t; Undefined column name nope in table ks.t"), "{failures:?}");
    let obscured = "CREATE ROLE broken WITH PASSWORD *******; Syntax Exception. Obscured for security reasons.";
    assert!(failures.contains(&obscured), "{failures:?}");
    let select = kinds("SELECT")[0];
    assert_eq!((field(select, "user"), field(select, "ks"), field(select, "scope")), ("cassandra", "ks", "t"));
    assert!(kinds("DESCRIBE").is_empty() && kinds("USE_KEYSPACE").is_empty(), "an excluded category");

    let queries = lines_of(&full, "fql-");
    assert!(!queries.iter().chain(&lines).any(|line| line.contains("verysecret")), "no password anywhere");
    let read = queries.iter().find(|line| field(line, "query") == "SELECT b FROM ks.t WHERE a = ?").expect("logged");
    assert!(read.contains("\"values\":[\"0x00000001\"]") && field(read, "type") == "single-query", "{read}");
    assert!(!queries.iter().any(|line| line.contains("nope")), "what failed is not run again");
    assert_eq!(nodetool(&node, &["resetfullquerylog"]), quiet);
    assert_eq!(lines_of(&full, "fql-").len(), 0);
    assert_eq!(node.stop(), Some(0));
}

/// Runs one of the tools. Returns its exit code, output and errors.
fn tool(words: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_helenus")).args(words).output().expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[tokio::test]
async fn logged_requests_are_shown_run_again_and_compared() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let one = Node::start("127.0.11.40", &at("one"), &["--cores", "2"]);
    let two = Node::start("127.0.11.41", &at("two"), &["--cores", "1"]);
    let log = at("log");
    assert_eq!(nodetool(&one, &["enablefullquerylog", "--path", text(&log)]).0, 0);
    let client = session(&one).await;
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (a int PRIMARY KEY, b text)",
        "INSERT INTO ks.t (a, b) VALUES (1, 'one') USING TIMESTAMP 1",
        "BEGIN BATCH USING TIMESTAMP 2 INSERT INTO ks.t (a, b) VALUES (2, 'two'); \
         INSERT INTO ks.t (a, b) VALUES (3, 'x') APPLY BATCH",
    ] {
        client.query_unpaged(text, &[]).await.expect(text);
    }
    let insert = client.prepare("INSERT INTO ks.t (a, b) VALUES (?, ?) USING TIMESTAMP 4").await.expect("prepared");
    client.execute_unpaged(&insert, (4, "four")).await.expect("written");
    client.query_unpaged("SELECT a, b, writetime(b) FROM ks.t", &[]).await.expect("read");
    assert_eq!(nodetool(&one, &["disablefullquerylog"]).0, 0);

    let (exit, dumped, err) = tool(&["fqltool", "dump", text(&log)]);
    assert_eq!((exit, err.as_str()), (0, ""));
    assert!(
        dumped
            .contains("Query: INSERT INTO ks.t (a, b) VALUES (?, ?) USING TIMESTAMP 4\nValues: \n00000000 00 00 00 04"),
        "{dumped}"
    );
    assert!(dumped.find("CREATE KEYSPACE").expect("shown") < dumped.find("SELECT a, b").expect("shown"), "in order");

    let replay = |options: &[&str]| tool(&[&["fqltool", "replay", text(&log)], options].concat());
    let (exit, out, err) = replay(&["--replay-ddl-statements", "--keyspace", "ks", "--target", two.address]);
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");
    assert!(out.ends_with(" queries replayed, 0 failed, 0 differ\n"), "{out}");
    // What the driver has asked at its connection differs from node to node.
    let differs = |out: &str| out.lines().any(|line| line.starts_with("MISMATCH") && line.contains("FROM ks.t"));
    let both = ["--target", one.address, "--target", two.address];
    let (_, out, _) = replay(&both);
    assert!(out.contains("Excluding DDL statement from replaying: CREATE TABLE ks.t"), "{out}");
    assert!(out.contains(" queries replayed, 0 failed, ") && !differs(&out), "{out}");

    session(&two).await.query_unpaged("INSERT INTO ks.t (a, b) VALUES (3, 'y')", &[]).await.expect("written");
    let (queries, results) = (at("queries"), at("results"));
    std::fs::create_dir(&results).expect("made");
    let stored = ["--results", text(&results), "--store-queries", text(&queries)];
    let (exit, out, _) = replay(&[&both[..], &stored].concat());
    assert_eq!(exit, 0);
    let mismatch = "MISMATCH Query = SELECT a, b, writetime(b) FROM ks.t mismatch0=\"127.0.11.40:[0x00000003, 0x78, ";
    assert!(out.contains(mismatch) && out.contains(" queries replayed, 0 failed, "), "{out}");
    let (exit, _, err) = replay(&[&both[..], &stored].concat());
    assert!(exit == 1 && err.ends_with(" exists already\n"), "results are not mixed up: {err}");
    let of = |address: &str| text(&results.join(address)).to_owned();
    let (exit, out, err) =
        tool(&["fqltool", "compare", "--queries", text(&queries), &of(one.address), &of(two.address)]);
    assert_eq!((exit, err.as_str()), (0, ""));
    assert!(differs(&out) && out.contains(" queries compared, "), "{out}");
    let (exit, _, err) = tool(&["fqltool", "dump", text(&at("nothing"))]);
    assert!(exit == 2 && err.starts_with("error: "), "{err}");
    let (exit, out, _) = tool(&["fqltool", "replay", "x"]);
    assert!(exit == 1 && out.starts_with("fqltool: Required option '--target' is missing\n"), "{out}");
    assert_eq!((one.stop(), two.stop()), (Some(0), Some(0)));
}

#[tokio::test]
async fn logins_by_certificates_are_audited() {
    let directory = tempfile::tempdir().expect("a directory");
    let certificates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tls/tests/certificates");
    let (audit, config, log) =
        (directory.path().join("audit"), directory.path().join("yaml"), directory.path().join("log"));
    let yaml = format!(
        "authenticator:\n  class_name: MutualTlsWithPasswordFallbackAuthenticator\n  parameters:\n    \
         validator_class_name: SpiffeCertificateValidator\nclient_encryption_options:\n  enabled: true\n  \
         optional: true\n  require_client_auth: true\n  ssl_context_factory: {{class_name: \
         PEMBasedSslContextFactory}}\n  keystore: {0}/node.pem\n  truststore: {0}/ca.pem\n\
         audit_logging_options: {{enabled: true, audit_logs_dir: {1}}}\n",
        certificates.display(),
        audit.display()
    );
    std::fs::write(&config, yaml).expect("written");
    let line = "{\"version\":1,\"type\":\"single-query\",\"query-start-time\":1,\"consistency\":\"ONE\",\
                \"query\":\"SELECT key FROM system.local\",\"values\":[]}\n";
    std::fs::write(&log, line).expect("written");
    let node = Node::start("127.0.11.42", &directory.path().join("data"), &["--cores", "1", "--config", text(&config)]);
    let certificate = certificates.join("client.pem");
    let with_certificate = || {
        let target = ["fqltool", "replay", "--target", node.address, "--ssl", "--ssl-certificate", text(&certificate)];
        tool(&[&target[..], &[text(&log)]].concat())
    };
    let unknown = "Certificate identity 'spiffe://helenus.test/client' not authorized";
    let (exit, _, err) = with_certificate();
    assert!(exit == 2 && err.contains(unknown), "{err}");
    let contact = format!("{}:9042", node.address);
    let root =
        SessionBuilder::new().known_node(contact).user("cassandra", "cassandra").build().await.expect("logged in");
    for text in ["CREATE ROLE app WITH LOGIN = true", "ADD IDENTITY 'spiffe://helenus.test/client' TO ROLE 'app'"] {
        root.query_unpaged(text, &[]).await.expect(text);
    }
    let (exit, out, err) = with_certificate();
    assert_eq!((exit, out.as_str(), err.as_str()), (0, "1 queries replayed, 0 failed, 0 differ\n", ""));
    assert_eq!(node.stop(), Some(0));

    let lines = lines_of(&audit, "audit-");
    let of = |kind: &str| lines.iter().find(|line| field(line, "type") == kind).expect(kind);
    assert_eq!(field(of("LOGIN_ERROR"), "operation"), format!("LOGIN FAILURE; {unknown}"));
    let (exit, shown, err) = tool(&["auditlogviewer", text(&audit)]);
    assert_eq!((exit, err.as_str()), (0, ""));
    assert!(
        shown.contains("Type: audit\nLogMessage: user:null|host:/127.0.11.42:7000|source:/127.0.0.1|port:"),
        "{shown}"
    );
    let success = shown.lines().rfind(|line| line.contains("|type:LOGIN_SUCCESS|")).expect("logged in");
    assert!(
        success.starts_with("LogMessage: user:app|") && success.ends_with("|operation:LOGIN SUCCESSFUL"),
        "{success}"
    );
    assert!(shown.contains("|type:ADD_IDENTITY|") || shown.contains("|type:CREATE_IDENTITY|"), "{shown}");
    std::fs::write(audit.join("audit-99999999-00.0.jsonl"), "{\"type\":\n").expect("written");
    let (exit, out, err) = tool(&["auditlogviewer", text(&audit)]);
    assert!(exit == 1 && !out.is_empty() && err.starts_with("The record is no JSON"), "{err}");
    assert_eq!(tool(&["auditlogviewer", "-i", text(&audit)]).1, shown);
    assert!(tool(&["auditlogviewer"]).2.starts_with("Audit log files directory path is a required argument."));
}
