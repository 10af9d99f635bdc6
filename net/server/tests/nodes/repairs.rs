//! `nodetool repair` on whole nodes: what it makes equal, what it says, and what can be read about it.

use super::*;
use server::admin::protocol::{FOLLOW, GOES_ON};

/// Runs `repair` to its end. Returns its exit code, its lines without their times, and its error.
async fn repair(node: NodeId, options: &[&str], arguments: &[&str]) -> (u8, Vec<String>, String) {
    let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut request = Request {
        command: "repair".into(),
        options: texts(options).into_iter().map(|option| (option, String::new())).collect(),
        arguments: texts(arguments),
    };
    let mut lines = Vec::new();
    loop {
        let answer = admin::ask(Sim::address_of(node), &request).await.expect("it is answered");
        lines.extend(answer.out.lines().map(|line| line.split_once("] ").map_or(line, |(_, text)| text).to_owned()));
        if answer.exit != GOES_ON {
            return (answer.exit, lines, answer.err);
        }
        let arguments = answer.err.split(' ').map(str::to_owned).collect();
        request = Request { command: FOLLOW.into(), options: Vec::new(), arguments };
    }
}

fn keyspace_of(name: &str, replicas: u32) -> String {
    format!("CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}")
}

/// The texts of a column.
async fn texts(client: &mut Client, text: &str) -> Vec<String> {
    let rows = query(client, text).await.rows;
    let cell = |row: &Vec<Option<Vec<u8>>>| row[0].clone().unwrap_or_else(|| "null".into());
    rows.iter().map(|row| String::from_utf8_lossy(&cell(row)).into_owned()).collect()
}

/// Makes a table of three replicas, one of which misses what is written from now on: it is down, and nobody keeps
/// hints.
fn without_three(sim: &mut Sim) {
    run(sim, || async {
        let mut one = client(ONE).await;
        query(&mut one, &keyspace_of("k", 3)).await;
        query(&mut one, "CREATE TABLE k.t (a int PRIMARY KEY, b int) WITH read_repair = 'NONE'").await;
        for node in [ONE, TWO] {
            tool(node, "disablehandoff", &[], &[]).await;
        }
    });
    sim.kill(THREE);
    run(sim, || async {
        while !tool(ONE, "status", &[], &[]).await.contains(&format!("DN  {}", Sim::address_of(THREE))) {
            runtime::sleep(Duration::from_millis(500)).await;
        }
    });
}

#[test]
fn what_a_node_has_missed_is_repaired_and_told() {
    let mut sim = Sim::new(41, Options { buggify: false, ..Options::default() });
    for (node, shards) in [(ONE, 1), (TWO, 2), (THREE, 1)] {
        assert_eq!(start(&mut sim, node, shards, config(node)), []);
    }
    without_three(&mut sim);
    run(&mut sim, || async {
        let mut one = client(ONE).await;
        query(&mut one, "INSERT INTO k.t (a, b) VALUES (1, 2)").await;
        let (exit, lines, error) = repair(ONE, &["-full"], &["k"]).await;
        let failed = format!("Repair command #1 failed with error Endpoint not alive: /{}", at(THREE, 7000));
        assert_eq!((exit, &*lines[1]), (2, &*failed));
        assert_eq!(lines[2..], ["Repair command #1 finished with error"]);
        let told = format!("error: Repair job has failed with the error message: {failed}. Check the logs on");
        assert!(error.starts_with(&told), "{error}");

        // Ranges whose other replica is down are left out, and not told to be repaired.
        query(&mut one, &keyspace_of("two", 2)).await;
        query(&mut one, "CREATE TABLE two.t (a int PRIMARY KEY)").await;
        let (exit, lines, _) = repair(ONE, &["-full", "-force"], &["two"]).await;
        assert_eq!(exit, 0, "{lines:?}");
        let of = "FROM system_distributed.parent_repair_history WHERE keyspace_name = 'two' ALLOW FILTERING";
        let rows = query(&mut one, &format!("SELECT requested_ranges, successful_ranges {of}")).await.rows;
        let count = |cell: &Option<Vec<u8>>| {
            cell.as_ref().map_or(0, |bytes| i32::from_be_bytes(bytes[..4].try_into().expect("a set")))
        };
        let (requested, successful) = (count(&rows[0][0]), count(&rows[0][1]));
        assert!(0 < successful && successful < requested, "{successful} of {requested}");
    });
    assert_eq!(start(&mut sim, THREE, 1, config(THREE)), []);
    run(&mut sim, || async {
        let mut three = client(THREE).await;
        assert!(query(&mut three, "SELECT b FROM k.t").await.rows.is_empty(), "it has missed the row");
        while tool(ONE, "status", &[], &[]).await.contains("DN") {
            runtime::sleep(Duration::from_millis(500)).await;
        }
        // Of rounds of Paxos nothing is unfinished, and data is left as it is.
        let (exit, lines, error) = repair(ONE, &["-paxos-only"], &["k"]).await;
        assert_eq!((exit, &*error, lines.len()), (0, "", 6), "{lines:?}");
        assert!(lines[0].ends_with("repairPaxos: true, paxosOnly: true)"), "{lines:?}");
        assert!(query(&mut three, "SELECT b FROM k.t").await.rows.is_empty());
        let (exit, lines, error) = repair(ONE, &["-full", "-skip-paxos"], &["k"]).await;
        assert_eq!((exit, &*error, lines.len()), (0, "", 6), "{lines:?}");
        assert!(lines[0].ends_with("repairPaxos: false, paxosOnly: false)"), "{lines:?}");
        assert!(lines[1].starts_with("Repair session ") && lines[1].ends_with(" finished (progress: 57%)"));
        assert_eq!(query(&mut three, "SELECT b FROM k.t").await.rows, [[Some(2_i32.to_be_bytes().to_vec())]]);

        let mut one = client(ONE).await;
        let of = "FROM system_distributed.repair_history WHERE keyspace_name = 'k' AND columnfamily_name = 't'";
        assert_eq!(texts(&mut one, &format!("SELECT status {of}")).await, ["SUCCESS"; 2]);
        let parents = "SELECT exception_message FROM system_distributed.parent_repair_history";
        let mut ends = texts(&mut one, parents).await;
        ends.sort_unstable();
        assert_eq!(
            ends,
            [format!("Endpoint not alive: /{}", at(THREE, 7000)), "null".into(), "null".into(), "null".into()]
        );
        let of_k = "SELECT status FROM system_views.repairs WHERE keyspace_name = 'k' ALLOW FILTERING";
        let statuses = texts(&mut one, of_k).await;
        assert_eq!(statuses.len(), 3);
        assert!(statuses.contains(&"failure".into()) && statuses.contains(&"success".into()), "{statuses:?}");
        for table in ["repair_sessions", "repair_jobs"] {
            assert_eq!(texts(&mut one, &format!("SELECT status FROM system_views.{table}")).await, ["success"; 3]);
        }
        let part = "SELECT success_message FROM system_views.repair_participates";
        assert_eq!(texts(&mut one, part).await, ["Repair completed successfully"; 3]);
    });
}

#[test]
fn ranges_without_other_replicas_are_left_out_only_if_that_is_asked_for() {
    let mut sim = Sim::new(42, Options { buggify: false, ..Options::default() });
    let mut alone = config(ONE);
    alone.node.num_tokens = 1;
    assert_eq!(start(&mut sim, ONE, 1, alone), []);
    run(&mut sim, || async {
        let mut one = client(ONE).await;
        query(&mut one, &keyspace_of("k", 2)).await;
        query(&mut one, "CREATE TABLE k.t (a int PRIMARY KEY, b int)").await;
        let (exit, lines, _) = repair(ONE, &["-full"], &["k"]).await;
        assert_eq!(exit, 2);
        assert!(lines[1].starts_with("Repair command #1 failed with error Nothing to repair for ("), "{lines:?}");
        assert!(lines[1].ends_with("] in k - aborting"), "{lines:?}");
        let (exit, lines, _) = repair(ONE, &["-full", "-iuk"], &["k"]).await;
        let told =
            "in k - unreplicated keyspace is ignored since repair was called with --ignore-unreplicated-keyspaces";
        assert_eq!((exit, lines.len()), (0, 6), "{lines:?}");
        assert!(lines[1].contains(" skipped: Nothing to repair for [(") && lines[1].ends_with(told));
        assert!(lines[2].starts_with("Nothing to repair for [(") && lines[2].ends_with(told) && lines[5] == lines[2]);
        let statuses = texts(&mut one, "SELECT status FROM system_views.repairs").await;
        assert!(statuses.contains(&"failure".into()) && statuses.contains(&"skipped".into()), "{statuses:?}");
    });
}

/// A node that repairs by itself, every table as often as that.
fn automatic(node: NodeId, min_interval: Duration) -> Config {
    let mut config = config(node);
    (config.auto_repair.is_scheduled, config.auto_repair.is_enabled) = (true, true);
    config.auto_repair.min_interval = min_interval;
    config.auto_repair.check_interval = Duration::from_secs(5);
    config.auto_repair.initial_delay = Duration::from_secs(1);
    config
}

#[test]
fn tables_are_repaired_without_an_operator_and_not_too_often() {
    let mut sim = Sim::new(43, Options { buggify: false, ..Options::default() });
    let minute = Duration::from_secs(60);
    for node in [ONE, TWO, THREE] {
        assert_eq!(start(&mut sim, node, 1, automatic(node, minute)), []);
    }
    without_three(&mut sim);
    run(&mut sim, || async {
        let mut one = client(ONE).await;
        for key in 0..30 {
            query(&mut one, &format!("INSERT INTO k.t (a, b) VALUES ({key}, 2)")).await;
        }
    });
    assert_eq!(start(&mut sim, THREE, 1, automatic(THREE, minute)), []);
    run(&mut sim, || async {
        let mut three = client(THREE).await;
        while query(&mut three, "SELECT b FROM k.t").await.rows.len() < 30 {
            runtime::sleep(Duration::from_secs(1)).await;
        }
        // Each node has to have repaired its ranges of every table.
        for node in [ONE, TWO, THREE] {
            let mut client = client(node).await;
            let ended = "SELECT status FROM system_views.repairs WHERE keyspace_name = 'k' ALLOW FILTERING";
            while !texts(&mut client, ended).await.contains(&"success".into()) {
                runtime::sleep(Duration::from_secs(1)).await;
            }
        }
    });
    // What was repaired is known after a restart.
    sim.kill(ONE);
    assert_eq!(start(&mut sim, ONE, 1, automatic(ONE, 600 * minute)), []);
    run(&mut sim, || async {
        // Long enough for several looks at what is due.
        runtime::sleep(Duration::from_secs(60)).await;
        let begun = "SELECT status FROM system_views.repairs WHERE keyspace_name = 'k' ALLOW FILTERING";
        assert!(texts(&mut client(ONE).await, begun).await.is_empty());
    });
}

#[test]
fn an_incremental_repair_is_remembered() {
    let mut sim = Sim::new(44, Options { buggify: false, ..Options::default() });
    for (node, shards) in [(ONE, 1), (TWO, 2), (THREE, 1)] {
        assert_eq!(start(&mut sim, node, shards, config(node)), []);
    }
    without_three(&mut sim);
    run(&mut sim, || async {
        let mut one = client(ONE).await;
        for key in 0..20 {
            query(&mut one, &format!("INSERT INTO k.t (a, b) VALUES ({key}, 2)")).await;
        }
    });
    assert_eq!(start(&mut sim, THREE, 1, config(THREE)), []);
    run(&mut sim, || async {
        while tool(ONE, "status", &[], &[]).await.contains("DN") {
            runtime::sleep(Duration::from_millis(500)).await;
        }
        assert_eq!(tool(ONE, "repair_admin", &[], &["list"]).await, "no sessions\n");
        let (exit, lines, error) = repair(ONE, &["-prv"], &["k", "t"]).await;
        assert_eq!((exit, &*error), (0, ""), "{lines:?}");
        assert!(lines[0].contains("incremental: true") && lines[0].contains("previewKind: UNREPAIRED"), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("Preview complete: 20 partitions of ")), "{lines:?}");
        let (exit, lines, error) = repair(ONE, &[], &["k", "t"]).await;
        assert_eq!((exit, &*error, lines.len()), (0, "", 6), "{lines:?}");
        assert!(lines[0].contains("incremental: true") && lines[2] == "Repair completed successfully", "{lines:?}");
        let mut three = client(THREE).await;
        assert_eq!(query(&mut three, "SELECT b FROM k.t").await.rows.len(), 20);
        let (exit, lines, _) = repair(TWO, &["-vd"], &["k"]).await;
        assert_eq!(exit, 0, "{lines:?}");
        assert!(lines[0].contains("previewKind: REPAIRED"), "{lines:?}");
        assert!(lines.contains(&"Repaired data is in sync".to_owned()), "{lines:?}");
        assert!(lines.contains(&"Repair preview completed successfully; Repaired data is in sync".to_owned()));
    });
    for node in [ONE, THREE] {
        sim.kill(node);
        assert_eq!(start(&mut sim, node, 1, config(node)), []);
    }
    run(&mut sim, || async {
        for node in [ONE, TWO, THREE] {
            assert_eq!(tool(node, "repair_admin", &[], &["list"]).await, "no sessions\n");
            let listed = tool(node, "repair_admin", &["-a"], &["list"]).await;
            let rows: Vec<&str> = listed.lines().collect();
            assert!(rows.len() == 2 && rows[1].contains("| FINALIZED "), "{listed}");
            let leader = format!("/{}", at(ONE, 7000));
            assert!(rows[0].starts_with("id ") && rows[1].contains(&format!("| {leader} ")), "{listed}");
            let pending = tool(node, "repair_admin", &[], &["summarize-pending", "k"]).await;
            assert!(pending.contains("0 bytes (0 sstables / 0 sessions)"), "{pending}");
            let repaired = tool(node, "repair_admin", &[], &["summarize-repaired", "k", "t"]).await;
            let cells: Vec<&str> = repaired.lines().last().unwrap_or_default().split('|').map(str::trim).collect();
            assert!(cells[..2] == ["k", "t"] && cells[2] != "0" && cells[2] == cells[3], "{repaired}");
            let cleaned = tool(node, "repair_admin", &[], &["cleanup", "k"]).await;
            assert!(cleaned.starts_with("Cleaning up data from completed sessions...\n"), "{cleaned}");
            let mut client = client(node).await;
            let states = query(&mut client, "SELECT state FROM system.repairs").await.rows;
            assert_eq!(states, [[Some(4_i32.to_be_bytes().to_vec())]]);
        }
    });
}

#[test]
fn a_repair_under_way_is_cancelled_by_the_id_of_its_command() {
    let mut sim = Sim::new(45, Options { buggify: false, ..Options::default() });
    for node in [ONE, TWO, THREE] {
        assert_eq!(start(&mut sim, node, 1, config(node)), []);
    }
    run(&mut sim, || async {
        let mut one = client(ONE).await;
        query(&mut one, &keyspace_of("k", 3)).await;
        query(&mut one, "CREATE TABLE k.t (a int PRIMARY KEY, b int)").await;
        query(&mut one, "INSERT INTO k.t (a, b) VALUES (1, 2)").await;
    });
    // A replica that stands still keeps the repair waiting, but not for so long that it is believed to be down.
    sim.pause(THREE, Duration::from_secs(15));
    run(&mut sim, || async {
        let began = runtime::now();
        let of = |command: &str, options: &[(&str, &str)], arguments: &[&str]| Request {
            command: command.into(),
            options: options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            arguments: arguments.iter().map(|argument| argument.to_string()).collect(),
        };
        let ask = async |request: Request| admin::ask(Sim::address_of(ONE), &request).await.expect("it is answered");
        let mut answer = ask(of("repair", &[("-full", "")], &["k"])).await;
        assert_eq!(answer.exit, GOES_ON);
        let id = answer.out.split(['(', ')']).nth(1).expect("the id of the command").to_owned();
        let cancel = || of("repair_admin", &[("-s", &id)], &["cancel"]);
        let cancelled = ask(cancel()).await;
        assert_eq!((cancelled.exit, &*cancelled.out, &*cancelled.err), (0, "", ""));
        while answer.exit == GOES_ON {
            let behind: Vec<&str> = answer.err.split(' ').collect();
            answer = ask(of(FOLLOW, &[], &behind)).await;
        }
        assert!(answer.exit == 2 && answer.err.contains("The repair was cancelled"), "{}", answer.err);
        assert!(runtime::now().since(began) < Duration::from_secs(10), "it does not wait for the replica");
        let again = ask(cancel()).await;
        assert!(again.out.contains(&format!("Session {{}} does not exist [{id}]")), "{} {}", again.out, again.err);
        // It answers once it goes on.
        letters(THREE).await;
        let (exit, lines, error) = repair(ONE, &["-full"], &["k"]).await;
        assert_eq!((exit, &*error), (0, ""), "{lines:?}");
    });
}
