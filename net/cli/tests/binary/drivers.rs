//! The drivers of Python, Java, Go, Node.js, C++ and Rust, their object mappers, and tools that use them, against the
//! real binary: the programs of `net/server/tests/drivers`. Those of Rust are there with TLS, which is not in the
//! workspace; the modules `cdrs` and `rust_driver` have them without.
//!
//! Ignored unless asked for, because they need packages and jars that cargo does not bring: `just drivers`, or
//! `net/server/tests/drivers/prepare target/tmp/drivers` and then `cargo test --test binary -- --ignored drivers::`.
//!
//! 1. `prepare` has brought the packages, the jars and the compiled programs into the target directory. Those for Go
//!    and Node.js are there if the machine has these; their tests do nothing otherwise, and say so.
//! 2. Every test starts a node of its own and runs one program for one protocol version, in every compression that the
//!    version has.
//! 3. Where a program prints `restart`, the node is stopped in order and started again; a line on the program's input
//!    says so.

use crate::node::Node;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Seconds after which a program is stuck.
const PROGRAM_SECONDS_MAX: &str = "300";

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/drivers")
}

/// The directory with what the programs need. Panics if `prepare` has not filled it; nothing is installed here.
fn prepared() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("drivers");
    let check = Command::new("bash").arg(sources().join("prepare")).arg("--check").arg(&directory).output();
    let check = check.expect("bash runs");
    assert!(check.status.success(), "{}run `just drivers`", String::from_utf8_lossy(&check.stderr));
    directory
}

/// A command that ends after a while.
fn limited() -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after", "5", PROGRAM_SECONDS_MAX]);
    command
}

fn python(directory: &Path, program: &str) -> Command {
    python_of(directory, "venv", program)
}

/// A Python program with the packages of a virtual environment.
fn python_of(directory: &Path, environment: &str, program: &str) -> Command {
    let mut command = limited();
    command.arg(directory.join(environment).join("bin/python")).args(["-B", "-W", "ignore"]);
    command.arg(sources().join("python").join(program));
    command
}

/// A Java program with the classes and jars of some directories.
fn java(directory: &Path, classes: &str, jars: &[&str], program: &str) -> Command {
    let mut path = directory.join(classes).display().to_string();
    for jars in jars {
        path += &format!(":{}/{jars}/*", directory.display());
    }
    let mut command = limited();
    command.args(["java", "-XX:+UseSerialGC", "-Xmx512m", "-classpath", &path, program]);
    command
}

/// Runs a program to its end; it must exit with 0. Restarts the node when it asks for that.
fn run(mut command: Command, mut node: Node, restart: impl Fn() -> Node) -> Node {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut input = child.stdin.take().expect("piped");
    let mut errors = child.stderr.take().expect("piped");
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        errors.read_to_string(&mut text).map(|_| text)
    });
    let mut output = String::new();
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        let line = line.expect("text");
        if line == "restart" {
            assert_eq!(node.stop(), Some(0), "{output}");
            node = restart();
            writeln!(input).expect("the program listens");
        }
        output += &line;
        output.push('\n');
    }
    let status = child.wait().expect("reaped");
    let errors = errors.join().expect("read").expect("text");
    assert!(status.success(), "{command:?}: {status}\n{output}{errors}");
    node
}

fn python_driver(address: &'static str, protocol: &str, compressions: &[&str]) {
    let tools = prepared();
    let directory = tempfile::tempdir().expect("a directory");
    let start = || Node::start(address, directory.path(), &["--cores", "2"]);
    let mut node = start();
    for compression in compressions {
        let mut command = python(&tools, "program.py");
        command.args([address, "9042", "--protocol", protocol, "--compression", compression, "--restarts"]);
        node = run(command, node, start);
    }
    assert_eq!(node.stop(), Some(0));
}

#[test]
#[ignore = "needs the Python driver: just drivers"]
fn python_driver_v3() {
    python_driver("127.0.13.1", "3", &["none", "lz4", "snappy"]);
}

#[test]
#[ignore = "needs the Python driver: just drivers"]
fn python_driver_v4() {
    python_driver("127.0.13.2", "4", &["none", "lz4", "snappy"]);
}

#[test]
#[ignore = "needs the Python driver: just drivers"]
fn python_driver_v5() {
    python_driver("127.0.13.3", "5", &["none", "lz4"]);
}

#[test]
#[ignore = "needs the Java driver: just drivers"]
fn java_driver() {
    let tools = prepared();
    let directory = tempfile::tempdir().expect("a directory");
    let start = || Node::start("127.0.13.4", directory.path(), &["--cores", "2"]);
    let mut command = java(&tools, "classes", &["jars"], "Program");
    command.args(["127.0.13.4", "9042", "--restarts"]);
    command.args(["v4-none", "v4-lz4", "v4-snappy", "v5-none", "v5-lz4"]);
    let node = run(command, start(), start);
    assert_eq!(node.stop(), Some(0));
}

/// A program that `prepare` has brought for a language that this machine has; `None` without that language.
#[allow(clippy::print_stderr, reason = "whoever reads the run should know what was not tried")]
fn program_of(tools: &Path, language: &str) -> Option<Command> {
    let directory = tools.join(language);
    if !directory.exists() {
        eprintln!("not run: this machine has no {language}");
        return None;
    }
    let mut command = limited();
    match language {
        "node" => command.arg("node").arg(directory.join("program.js")),
        _ => command.arg(directory.join("program")),
    };
    Some(command)
}

/// Runs a program against one node that it has restarted, then against three.
fn driver_of(language: &str, addresses: [&'static str; 3], variants: &[&str]) {
    let Some(mut command) = program_of(&prepared(), language) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let start_at = |at: usize, cores: &str| {
        let data = directory.path().join(format!("{cores}-{at}"));
        Node::start(addresses[at], &data, &["--cores", cores, "--seeds", addresses[0]])
    };
    command.args([addresses[0], "9042", "--restarts"]).args(variants);
    let node = run(command, start_at(0, "2"), || start_at(0, "2"));
    assert_eq!(node.stop(), Some(0));

    let mut nodes: Vec<Node> = (0..3).map(|at| start_at(at, "1")).collect();
    let mut command = program_of(&prepared(), language).expect("as before");
    command.args([&addresses.join(","), "9042", variants[variants.len() - 1]]);
    let first = run(command, nodes.remove(0), || unreachable!("it is not restarted"));
    for node in nodes.into_iter().chain([first]) {
        assert_eq!(node.stop(), Some(0));
    }
}

#[test]
#[ignore = "needs the Go driver: just drivers"]
fn go_driver() {
    driver_of("go-v1", ["127.0.13.7", "127.0.13.8", "127.0.13.9"], &["v4-none", "v4-snappy"]);
}

#[test]
#[ignore = "needs the Go driver: just drivers"]
fn go_driver_of_the_second_line() {
    driver_of("go-v2", ["127.0.13.10", "127.0.13.11", "127.0.13.12"], &["v4-lz4", "v5-none", "v5-lz4"]);
}

#[test]
#[ignore = "needs the Rust drivers: just drivers"]
fn rust_driver() {
    let variants = ["scylla-v4-none", "scylla-v4-snappy", "scylla-v4-lz4"];
    driver_of("rust", ["127.0.13.34", "127.0.13.35", "127.0.13.36"], &variants);
}

#[test]
#[ignore = "needs the Rust drivers: just drivers"]
fn rust_driver_cdrs() {
    let variants = ["cdrs-v4-none", "cdrs-v4-lz4", "cdrs-v4-snappy", "cdrs-v5-none", "cdrs-v5-lz4"];
    driver_of("rust", ["127.0.13.37", "127.0.13.38", "127.0.13.39"], &variants);
}

#[test]
#[ignore = "needs the Node.js driver: just drivers"]
fn node_driver() {
    driver_of("node", ["127.0.13.13", "127.0.13.14", "127.0.13.15"], &["v4-none"]);
}

/// Runs one program to its end against a node of its own, which it may restart.
fn alone(address: &'static str, mut command: Command, arguments: &[&str]) {
    let directory = tempfile::tempdir().expect("a directory");
    let start = || Node::start(address, directory.path(), &["--cores", "2"]);
    command.args([address, "9042"]).args(arguments);
    let node = run(command, start(), start);
    assert_eq!(node.stop(), Some(0));
}

#[test]
#[ignore = "needs the Python driver: just drivers"]
fn python_object_mapper() {
    alone("127.0.13.18", python(&prepared(), "mapper.py"), &[]);
}

/// The other Python driver, which opens a connection to every core, with its object mapper.
#[test]
#[ignore = "needs the Python driver: just drivers"]
fn python_driver_that_knows_cores() {
    let tools = prepared();
    for version in ["4", "5"] {
        let program = python_of(&tools, "venv-2", "program.py");
        alone("127.0.13.19", program, &["--protocol", version, "--compression", "lz4", "--restarts"]);
    }
    alone("127.0.13.19", python_of(&tools, "venv-2", "mapper.py"), &[]);
}

#[test]
#[ignore = "needs the Java driver: just drivers"]
fn java_driver_of_the_third_line() {
    let program = java(&prepared(), "classes-3", &["jars-3"], "Program3");
    alone("127.0.13.20", program, &["v4-none", "v4-lz4", "--restarts"]);
}

#[test]
#[ignore = "needs the Java driver: just drivers"]
fn java_object_mapper_on_migrated_tables() {
    alone("127.0.13.21", java(&prepared(), "classes-mapper", &["jars-mapper", "jars"], "MapperProgram"), &[]);
}

#[test]
#[ignore = "needs the C++ driver: just drivers"]
fn cpp_driver() {
    alone("127.0.13.22", python_of(&prepared(), "venv-2", "cpp.py"), &["--restarts"]);
}

#[test]
#[ignore = "needs the Go driver: just drivers"]
fn go_migrations() {
    if let Some(program) = program_of(&prepared(), "go-migrate") {
        alone("127.0.13.23", program, &[]);
    }
}

/// gocqlx on ScyllaDB's driver.
#[test]
#[ignore = "needs the Go driver: just drivers"]
fn go_object_mapper() {
    if let Some(program) = program_of(&prepared(), "go-mapper") {
        alone("127.0.13.32", program, &[]);
    }
}

#[test]
#[ignore = "needs the Java driver: just drivers"]
fn bulk_loader_in_and_out() {
    let tools = prepared();
    let files = tempfile::tempdir().expect("a directory");
    let jars = tools.join("jars-dsbulk").display().to_string();
    let files = files.path().display().to_string();
    alone("127.0.13.24", python(&tools, "bulk.py"), &[&jars, &files]);
}

/// The certificates that nodes show to clients: `node.pem` names `localhost` and 127.1.0.1 to 127.1.0.3, `ca.pem` has
/// signed it, `other.pem` is another authority.
fn certificates() -> String {
    let certificates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tls/tests/certificates");
    certificates.canonicalize().expect("there").display().to_string()
}

/// Writes the configuration of a node that takes plain and encrypted connections, and with `login` asks for a name and
/// a password. Returns its path.
fn encryption_config(directory: &Path, login: bool) -> String {
    let roles = match login {
        true => "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\n",
        false => "",
    };
    let yaml = format!(
        "{roles}client_encryption_options:\n  enabled: true\n  optional: true\n  ssl_context_factory: \
         {{class_name: PEMBasedSslContextFactory}}\n  keystore: {}/node.pem\n",
        certificates()
    );
    let config = directory.join("cassandra.yaml");
    std::fs::write(&config, yaml).expect("written");
    config.to_str().expect("text").to_owned()
}

/// What a driver is run with against three nodes.
struct Driver {
    program: Command,
    /// Nodes that it is told of; it finds the others.
    hosts: String,
    /// The arguments of each of its runs.
    runs: &'static [&'static [&'static str]],
    /// Arguments of every run.
    options: Vec<&'static str>,
}

/// The drivers that are run against three nodes: those of Rust with all that they do, because their programs are the
/// only ones that try their TLS, the others briefly.
fn drivers(tools: &Path, addresses: [&'static str; 3]) -> Vec<Driver> {
    let python: &[&[&str]] = &[
        &["--protocol", "4"],
        &["--protocol", "4", "--compression", "lz4"],
        &["--protocol", "5"],
        &["--protocol", "5", "--compression", "lz4"],
    ];
    let mut programs: Vec<(Command, &[&[&str]])> = vec![
        (python_of(tools, "venv", "program.py"), python),
        (python_of(tools, "venv-2", "program.py"), python),
        (java(tools, "classes", &["jars"], "Program"), &[&["v4-none", "v4-lz4", "v5-none"], &["v5-lz4"]]),
        (java(tools, "classes-3", &["jars-3"], "Program3"), &[&["v4-none"], &["v4-lz4"]]),
        (python_of(tools, "venv-2", "cpp.py"), &[&[]]),
    ];
    let others: [(&str, &[&[&str]]); 3] = [
        ("go-v1", &[&["v4-none"]]),
        ("go-v2", &[&["v4-none", "v4-lz4", "v5-none"], &["v5-lz4"]]),
        ("node", &[&["v4-none"]]),
    ];
    for (language, runs) in others {
        programs.extend(program_of(tools, language).map(|program| (program, runs)));
    }
    let brief = |(program, runs)| Driver {
        program,
        hosts: addresses[0].to_owned(),
        runs,
        options: vec!["--only=paging,batches"],
    };
    let mut drivers: Vec<Driver> = programs.into_iter().map(brief).collect();
    drivers.extend(program_of(tools, "rust").map(|program| Driver {
        program,
        hosts: addresses.join(","),
        runs: &[
            &["scylla-v4-none", "cdrs-v4-none", "cdrs-v5-none"],
            &["scylla-v4-lz4", "cdrs-v4-snappy", "cdrs-v5-lz4"],
        ],
        options: addresses[0].starts_with("127.1.").then_some("--names").into_iter().collect(),
    }));
    drivers
}

/// Drivers against a cluster of three. With `login` the nodes ask for a name and a password: each driver encrypts in
/// every version and compression that it has, and goes without TLS once. Otherwise each encrypts once.
fn cluster_of_three(addresses: [&'static str; 3], login: bool) {
    let tools = prepared();
    let directory = tempfile::tempdir().expect("a directory");
    let config = encryption_config(directory.path(), login);
    let start = |at: usize| {
        let data = directory.path().join(at.to_string());
        let options = ["--cores", "1", "--seeds", addresses[0], "--config", &config];
        Node::start(addresses[at], &data, &options)
    };
    let mut nodes: Vec<Node> = (0..3).map(start).collect();
    for driver in drivers(&tools, addresses) {
        // With TLS and a login all runs, otherwise the last.
        let last = &driver.runs[driver.runs.len() - 1..];
        let modes = match login {
            true => vec![(true, driver.runs), (false, last)],
            false => vec![(true, last)],
        };
        for (encrypted, runs) in modes {
            for arguments in runs {
                let mut command = Command::new(driver.program.get_program());
                command.args(driver.program.get_args()).args([&driver.hosts, "9042"]).args(*arguments);
                command.args(&driver.options);
                command.args(encrypted.then(|| format!("--ca={}/ca.pem", certificates())));
                command.args(login.then_some("--login=cassandra:cassandra"));
                let first = run(command, nodes.remove(0), || unreachable!("it is not restarted"));
                nodes.insert(0, first);
            }
        }
    }
    for node in nodes {
        assert_eq!(node.stop(), Some(0));
    }
}

/// The drivers of Rust with TLS and a login to the cores of one node, which is restarted.
#[test]
#[ignore = "needs the Rust drivers: just drivers"]
fn rust_drivers_encrypt_to_every_core() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = encryption_config(directory.path(), true);
    let start = || Node::start("127.0.13.40", &directory.path().join("data"), &["--cores", "2", "--config", &config]);
    let mut command = program_of(&prepared(), "rust").expect("the language of this test");
    command.args(["127.0.13.40", "9042", "scylla-v4-none", "cdrs-v5-none", "--restarts"]);
    command.args([&format!("--ca={}/ca.pem", certificates()), "--login=cassandra:cassandra"]);
    let node = run(command, start(), start);
    assert_eq!(node.stop(), Some(0));
}

#[test]
#[ignore = "needs the drivers of several languages: just drivers"]
fn drivers_log_in_to_three_nodes_encrypted_and_plain() {
    // The names that the certificate of the nodes has.
    cluster_of_three(["127.1.0.1", "127.1.0.2", "127.1.0.3"], true);
}

#[test]
#[ignore = "needs the drivers of several languages: just drivers"]
fn drivers_encrypt_without_a_login_to_three_nodes() {
    cluster_of_three(["127.0.13.28", "127.0.13.29", "127.0.13.30"], false);
}

/// `COPY FROM`, then `COPY TO`: the same rows; the 100,000 of `docs/verification.md` are run by hand.
#[test]
#[ignore = "needs cqlsh: just drivers"]
fn cqlsh_copies_rows_in_and_out() {
    let tools = prepared();
    let directory = tempfile::tempdir().expect("a directory");
    let files = tempfile::tempdir().expect("a directory");
    let start = || Node::start("127.0.13.5", directory.path(), &["--cores", "2"]);
    let mut command = python(&tools, "copy_rows.py");
    command.arg(tools.join("venv/bin/cqlsh")).args(["127.0.13.5", "9042", "2000"]).arg(files.path());
    let node = run(command, start(), start);
    assert_eq!(node.stop(), Some(0));
}

/// Every command of cqlsh, its completions, and what DESCRIBE says of a keyspace: as recorded on Cassandra.
#[test]
#[ignore = "needs cqlsh: just drivers"]
fn cqlsh_walks_through_its_commands() {
    let tools = prepared();
    let directory = tempfile::tempdir().expect("a directory");
    let files = tempfile::tempdir().expect("a directory");
    let start = || Node::start("127.0.13.31", directory.path(), &["--cores", "2"]);
    let mut command = python(&tools, "cqlsh_walk.py");
    command.arg(tools.join("venv/bin/cqlsh")).args(["127.0.13.31", "9042"]).arg(files.path());
    let node = run(command, start(), start);
    assert_eq!(node.stop(), Some(0));
}

/// Runs the program of TLS and logins against a node with these encryption options of clients.
fn secured(address: &'static str, options: &str, certificate: Option<&str>) {
    let tools = prepared();
    let directory = tempfile::tempdir().expect("a directory");
    let certificates = certificates();
    let yaml = format!(
        "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\nclient_encryption_options:\n  \
         enabled: true\n  ssl_context_factory: {{class_name: PEMBasedSslContextFactory}}\n  \
         keystore: {certificates}/node.pem\n  truststore: {certificates}/ca.pem\n{options}"
    );
    let config = directory.path().join("cassandra.yaml");
    std::fs::write(&config, yaml).expect("written");
    let data = directory.path().join("data");
    let start = || Node::start(address, &data, &["--cores", "2", "--config", config.to_str().expect("text")]);
    let mut command = python(&tools, "secured.py");
    command.arg(tools.join("venv/bin/cqlsh")).args([address, "9042"]).arg(format!("{certificates}/ca.pem"));
    command.arg(directory.path()).args(certificate.map(|name| format!("{certificates}/{name}")));
    let node = run(command, start(), start);
    assert_eq!(node.stop(), Some(0));
}

#[test]
#[ignore = "needs the Python driver and cqlsh: just drivers"]
fn python_driver_and_cqlsh_encrypt_and_log_in() {
    secured("127.0.13.16", "", None);
}

#[test]
#[ignore = "needs the Python driver and cqlsh: just drivers"]
fn python_driver_and_cqlsh_show_certificates() {
    secured("127.0.13.17", "  require_client_auth: true\n", Some("client.pem"));
}

/// Sixty-four pages of the largest size: the node holds a few of them at a time. What its allocator keeps of buffers
/// that were freed is another 15 to 35 MiB, from run to run.
#[test]
#[ignore = "needs the Python driver: just drivers"]
fn scans_take_the_memory_of_a_few_pages() {
    let tools = prepared();
    let directory = tempfile::tempdir().expect("a directory");
    let start = || Node::start("127.0.13.6", directory.path(), &["--cores", "2"]);
    let node = start();
    let mut command = python(&tools, "scan_memory.py");
    command.args(["127.0.13.6", "9042", &node.process().to_string(), "64", "48"]);
    let node = run(command, node, start);
    assert_eq!(node.stop(), Some(0));
}
