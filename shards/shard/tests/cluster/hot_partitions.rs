//! Reads of hot partitions: equal ones are executed as one, others are spread over the replicas.

use super::network::Fault;
use super::reads::configured;
use super::world::{Request, Row, World, address, rows_of};
use model::{Consistency, ErrorCode, Failure, QueryParameters};
use runtime::sync::join_all;
use shard::{Authenticator, Config, Session, Shard, Verb};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Reads at a time.
const CLIENTS: usize = 50;
/// No read asks one more replica because answers are late: requests are counted.
const NO_RETRY: &str = " AND speculative_retry = 'NEVER'";
const READ: &str = "SELECT c FROM k.t WHERE a = 1 AND b = 1";

/// Every partition is hot that is read.
fn hot(config: &mut Config) {
    config.hot_partition_reads_per_second = 1;
}

fn without(config: &mut Config) {
    config.hot_partition_relief = false;
}

/// Three nodes of one core, each with a replica, and one row.
fn three(configure: fn(&mut Config)) -> World {
    let mut world = configured(&[1, 1, 1], NO_RETRY, configure);
    let insert =
        Request { consistency: Consistency::All, ..Request::new("INSERT INTO k.t (a, b, c) VALUES (1, 1, 5)") };
    world.query(0, 0, &insert).expect("inserted");
    world
}

/// The answer to a statement at a level.
async fn ask(shard: &Shard, text: &str, level: Consistency) -> Result<Vec<Row>, Failure> {
    let answer = shard.query(&Session::default(), text, &QueryParameters::new(level)).await?;
    Ok(rows_of(answer).0)
}

/// Has the plan of a text kept, which is so from its second run on. At ONE this node answers alone.
async fn keep_plan(shard: &Shard, session: &Session, text: &str) {
    for _ in 0..2 {
        shard.query(session, text, &QueryParameters::new(Consistency::One)).await.expect("an answer");
    }
}

fn value(number: i32) -> Vec<Row> {
    vec![vec![Some(number.to_be_bytes().to_vec())]]
}

/// Many equal reads at once through a node: what each gets, and how long it took.
fn at_once(world: &mut World, text: &'static str, level: Consistency) -> Vec<(Result<Vec<Row>, Failure>, Duration)> {
    world.on(0, 0, move |shard| async move {
        keep_plan(&shard, &Session::default(), text).await;
        let reads = (0..CLIENTS).map(|_| async {
            let began = runtime::now();
            let answer = ask(&shard, text, level).await;
            (answer, runtime::now().since(began))
        });
        join_all(reads.collect()).await
    })
}

#[test]
fn equal_reads_are_executed_as_one() {
    for (configure, expected) in [(hot as fn(&mut Config), 2), (without, CLIENTS as u64)] {
        let mut world = three(configure);
        let before = world.network.sent(Verb::ReadDigest);
        let answers = at_once(&mut world, READ, Consistency::Quorum);
        assert!(answers.iter().all(|(answer, _)| *answer == Ok(value(5))), "{answers:?}");
        assert_eq!(world.network.sent(Verb::ReadDigest) - before, expected, "the first, and one for all others");
    }
}

#[test]
fn different_reads_are_not_joined() {
    let mut world = three(hot);
    let before = world.network.sent(Verb::ReadDigest);
    let answers = world.on(0, 0, |shard| async move {
        let texts = [READ, "SELECT b FROM k.t WHERE a = 1 AND b = 1", "SELECT c FROM k.t WHERE a = 1"];
        let reads = texts.map(|text| {
            let shard = shard.clone();
            async move { ask(&shard, text, Consistency::Quorum).await }
        });
        join_all(reads.into_iter().collect()).await
    });
    assert_eq!(answers, [Ok(value(5)), Ok(value(1)), Ok(value(5))]);
    assert_eq!(world.network.sent(Verb::ReadDigest) - before, 3);
}

/// While older reads are under way, first one alone and then one for all others, a write is acknowledged; who reads
/// after that must see it.
#[test]
fn a_joined_read_sees_what_was_acknowledged_before_it_came() {
    let mut world = three(hot);
    for node in [1, 2] {
        world.network.slow.borrow_mut().insert(address(node), Duration::from_millis(10));
    }
    for (written, after) in [(6, 1), (7, 12)] {
        let before = world.network.sent(Verb::ReadDigest);
        let (newer, under_way) = world.on(0, 0, move |shard| async move {
            keep_plan(&shard, &Session::default(), READ).await;
            let under_way = Rc::new(Cell::new(0));
            let older: Vec<_> = (0..5)
                .map(|_| {
                    let (shard, under_way) = (shard.clone(), under_way.clone());
                    runtime::spawn(async move {
                        under_way.set(under_way.get() + 1);
                        ask(&shard, READ, Consistency::Quorum).await.expect("an answer");
                        under_way.set(under_way.get() - 1);
                    })
                })
                .collect();
            runtime::sleep(Duration::from_millis(after)).await;
            let text = format!("UPDATE k.t SET c = {written} WHERE a = 1 AND b = 1");
            ask(&shard, &text, Consistency::One).await.expect("written");
            let seen = under_way.get();
            let newer = join_all((0..3).map(|_| ask(&shard, READ, Consistency::Quorum)).collect()).await;
            for read in older {
                read.await;
            }
            (newer, seen)
        });
        assert_eq!(under_way, if after < 10 { 5 } else { 4 }, "of the older reads");
        assert_eq!(newer, [Ok(value(written)), Ok(value(written)), Ok(value(written))]);
        assert_eq!(world.network.sent(Verb::ReadDigest) - before, if after < 10 { 2 } else { 3 });
    }
}

#[test]
fn all_get_the_error_of_a_joined_read() {
    let mut world = three(hot);
    for node in [1, 2] {
        world.network.faults.borrow_mut().insert((address(node), Verb::ReadDigest), Fault::Refused);
        world.network.slow.borrow_mut().insert(address(node), Duration::from_millis(5));
    }
    let before = world.network.sent(Verb::ReadDigest);
    let answers = at_once(&mut world, READ, Consistency::Quorum);
    let codes: Vec<_> = answers.iter().map(|(answer, _)| answer.as_ref().map_err(|failure| failure.code)).collect();
    assert!(codes.iter().all(|code| *code == Err(ErrorCode::ReadFailure)), "{codes:?}");
    assert_eq!(world.network.sent(Verb::ReadDigest) - before, 4, "two reads that ask both");
}

#[test]
fn each_read_has_its_own_time() {
    fn patient(config: &mut Config) {
        hot(config);
        config.read_timeout = Duration::from_millis(500);
    }
    let mut world = three(patient);
    for node in [1, 2] {
        world.network.set_silent(address(node), true);
    }
    let answers = at_once(&mut world, READ, Consistency::Quorum);
    for (answer, took) in answers {
        assert_eq!(answer.map_err(|failure| failure.code), Err(ErrorCode::ReadTimeout));
        assert!((500..520).contains(&took.as_millis()), "{took:?}");
    }
    // A read that gets no answer does not hold up those that come later for long.
    let network = world.network.clone();
    let (stuck, later, took) = world.on(0, 0, |shard| async move {
        keep_plan(&shard, &Session::default(), READ).await;
        let first = shard.clone();
        let stuck = runtime::spawn(async move { ask(&first, READ, Consistency::Quorum).await });
        runtime::sleep(Duration::from_millis(1)).await;
        [1, 2].iter().for_each(|node| network.set_silent(address(*node), false));
        let began = runtime::now();
        let later = join_all((0..5).map(|_| ask(&shard, READ, Consistency::Quorum)).collect()).await;
        let took = runtime::now().since(began);
        (stuck.await, later, took)
    });
    assert!(later.iter().all(|answer| *answer == Ok(value(5))), "{later:?}");
    assert!(took < Duration::from_millis(50), "{took:?}");
    drop(stuck);
}

#[test]
fn answers_that_are_too_large_are_read_one_by_one() {
    let mut world = three(hot);
    world.everywhere(&format!(
        "CREATE TABLE k.large (a int PRIMARY KEY, v text) WITH id = 00000002-0000-1000-8000-000000000000{NO_RETRY}"
    ));
    for (key, bytes) in [(1, (256 << 10) - 4), (2, (256 << 10) - 3)] {
        let text = format!("INSERT INTO k.large (a, v) VALUES ({key}, '{}')", "x".repeat(bytes));
        world.query(0, 0, &Request { consistency: Consistency::All, ..Request::new(&text) }).expect("inserted");
    }
    for (text, reads) in [
        ("SELECT v FROM k.large WHERE a = 1", 2),
        // The first, one for all others, which finds that it cannot be shared, and one for each of these.
        ("SELECT v FROM k.large WHERE a = 2", CLIENTS as u64),
    ] {
        let before = world.network.sent(Verb::ReadDigest);
        let answers = at_once(&mut world, text, Consistency::Quorum);
        assert!(answers.iter().all(|(answer, _)| answer.as_ref().is_ok_and(|rows| rows.len() == 1)));
        assert_eq!(world.network.sent(Verb::ReadDigest) - before, reads, "{text}");
    }
}

/// The fourth node has no replica: it asks each of the others for a third of the reads.
#[test]
fn reads_are_spread_over_the_replicas() {
    for (configure, is_spread) in [(hot as fn(&mut Config), true), (without, false)] {
        let mut world = World::start(&[1, 1, 1, 1], configure);
        world.everywhere("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}");
        world.everywhere(
            "CREATE TABLE k.t (a int, b int, c int, PRIMARY KEY (a, b)) WITH id = 00000001-0000-1000-8000-000000000000",
        );
        let insert =
            Request { consistency: Consistency::All, ..Request::new("INSERT INTO k.t (a, b, c) VALUES (1, 1, 5)") };
        world.query(0, 0, &insert).expect("inserted");
        let mut askers = 0;
        for node in 0..4 {
            world.network.sent_to.borrow_mut().clear();
            for _ in 0..30 {
                let answer = world.query(node, 0, &Request::new(READ)).map(|answer| rows_of(answer).0);
                assert_eq!(answer, Ok(value(5)));
            }
            let sent = world.network.sent_to.borrow().clone();
            let reads: Vec<u64> =
                sent.iter().filter(|((_, verb), _)| *verb == Verb::Read).map(|(_, count)| *count).collect();
            askers += u64::from(!reads.is_empty());
            match (reads.is_empty(), is_spread) {
                (true, _) => {}
                (false, true) => assert_eq!(reads, [10, 10, 10]),
                (false, false) => assert_eq!(reads, [30]),
            }
        }
        assert_eq!(askers, 1, "the others have replicas themselves");
    }
}

/// The rows that this node shows itself, as texts.
fn texts(world: &mut World, text: &'static str) -> Vec<Vec<String>> {
    let rows = world.on(0, 0, move |shard| async move { ask_as(&shard, &Session::internal(), text).await });
    let rows = rows.expect("read");
    let shown = |cell: Option<Vec<u8>>| cell.map_or("null".into(), |bytes| String::from_utf8_lossy(&bytes).into());
    rows.into_iter().map(|row| row.into_iter().map(shown).collect()).collect()
}

/// What is done is shown, of a table without limits too; each read is charged as if it were alone.
#[test]
fn what_is_done_is_shown_and_charged() {
    let charged = |configure: fn(&mut Config)| {
        let mut world = three(configure);
        at_once(&mut world, READ, Consistency::Quorum);
        let shown = "SELECT partition_key, CAST(reads_joined AS text), CAST(reads_spread AS text), relief, \
                     CAST(units_per_second AS text) FROM system_views.hot_partitions WHERE keyspace_name = 'k' AND \
                     table_name = 't'";
        let shown = texts(&mut world, shown);
        world.everywhere(&format!(
            "CREATE TABLE k.metered (a int PRIMARY KEY, v int) WITH id = 00000003-0000-1000-8000-000000000000 AND \
             cosmosdb_provisioned_throughput = 100000{NO_RETRY}"
        ));
        world.query(0, 0, &Request::new("INSERT INTO k.metered (a, v) VALUES (1, 1)")).expect("inserted");
        world.wait(Duration::from_millis(20));
        let before = world.network.sent(Verb::ReadDigest);
        let answers = at_once(&mut world, "SELECT v FROM k.metered WHERE a = 1", Consistency::Quorum);
        assert!(answers.iter().all(|(answer, _)| *answer == Ok(value(1))), "{answers:?}");
        let sent = world.network.sent(Verb::ReadDigest) - before;
        let charged = "SELECT CAST(reads AS text), CAST(read_units AS text) FROM system_views.throughput WHERE \
                       keyspace_name = 'k' AND table_name = 'metered'";
        (shown, texts(&mut world, charged), sent)
    };
    let (shown, joined, sent) = charged(hot);
    assert_eq!(shown.len(), 1, "{shown:?}");
    let joined_count = (CLIENTS - 2).to_string();
    assert_eq!(shown[0][0], "1");
    assert_eq!(shown[0][1], joined_count);
    assert!(shown[0][3].contains("joined reads"), "{shown:?}");
    assert_eq!(shown[0][4], "null");
    let (nothing, alone, all_sent) = charged(without);
    assert!(nothing.is_empty(), "{nothing:?}");
    assert_eq!(all_sent, CLIENTS as u64);
    assert!(sent < all_sent, "{sent}");
    assert_eq!(joined, alone);
    assert_eq!(alone[0][0], (CLIENTS + 2).to_string());
}

/// The answer that a session gets.
async fn ask_as(shard: &Shard, session: &Session, text: &str) -> Result<Vec<Row>, Failure> {
    let answer = shard.query(session, text, &QueryParameters::new(Consistency::Quorum)).await?;
    Ok(rows_of(answer).0)
}

/// A role that may see a masked column and one that may not read at once: each gets what it may see, by a read of its
/// own kind.
#[test]
fn those_with_different_rights_are_not_joined() {
    fn with_logins(config: &mut Config) {
        hot(config);
        config.masking = true;
        config.access.authenticator = Authenticator::Password;
        config.access.authorizes = true;
    }
    let mut world = World::start(&[1, 1, 1], with_logins);
    let definitions = [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
        "CREATE TABLE k.t (a int PRIMARY KEY, c int MASKED WITH DEFAULT) WITH id = 00000001-0000-1000-8000-000000000000",
    ];
    for node in 0..3 {
        for text in definitions {
            let defined = world
                .on(node, 0, move |shard| async move { ask_as(&shard, &Session::internal(), text).await.map(drop) });
            defined.expect("defined");
        }
    }
    let read = "SELECT c FROM k.t WHERE a = 1";
    let answers = world.on(0, 0, move |shard| async move {
        shard.make_superuser("boss", "secret").await.expect("made");
        let boss = shard.log_in(address(0), "boss", "secret").await.expect("logged in");
        let boss = Session { user: Some(boss).into(), ..Session::default() };
        for text in [
            "CREATE ROLE guest WITH PASSWORD = 'secret' AND LOGIN = true",
            "GRANT SELECT ON TABLE k.t TO guest",
            "INSERT INTO k.t (a, c) VALUES (1, 5)",
        ] {
            ask_as(&shard, &boss, text).await.unwrap_or_else(|failure| panic!("{text}: {failure}"));
        }
        let guest = shard.log_in(address(0), "guest", "secret").await.expect("logged in");
        let guest = Session { user: Some(guest).into(), ..Session::default() };
        let sessions = [&boss, &guest];
        for session in sessions {
            keep_plan(&shard, session, read).await;
        }
        let reads = (0..CLIENTS).map(|number| ask_as(&shard, sessions[number % 2], read));
        join_all(reads.collect()).await
    });
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, Ok(value(if number % 2 == 0 { 5 } else { 0 })), "read {number}");
    }
    let joined = texts(
        &mut world,
        "SELECT CAST(reads_joined AS text) FROM system_views.hot_partitions WHERE \
                                                keyspace_name = 'k' AND table_name = 't'",
    );
    assert_eq!(joined, [[(CLIENTS - 4).to_string()]], "two reads for either role");
}
