//! The faulty network: backpressure, cuts, crashed peers, resets.

use super::{LONG, ONE, TWO, at, connect, echo, read_exact, run};
use runtime::sim::{Options, Sim, Stop};
use runtime::{Listener, Stream};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

#[test]
fn two_nodes_talk_under_back_pressure() {
    let mut sim = Sim::new(7, Options::default());
    const BYTES: usize = 1 << 20;
    sim.start_node(TWO, 1, |_| async {
        let listener = Listener::bind(at(TWO, 0)).await.expect("a free port");
        assert!(listener.local_address().port() > 0);
        let listener = Listener::bind(at(TWO, 9000)).await.expect("free");
        let taken = Listener::bind(at(TWO, 9000)).await.err().expect("taken");
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let accepted = listener.accept().await.expect("accepted");
        assert_eq!(accepted.peer(), at(ONE, 40_000));
        let stream = accepted.attach().expect("attached");
        stream.pause();
        runtime::sleep(Duration::from_secs(5)).await;
        stream.resume();
        let got = read_exact(&stream, BYTES).await.expect("all of it");
        assert!(got.iter().enumerate().all(|(n, b)| *b == (n / 7) as u8), "in order");
        stream.write(|out| out.extend_from_slice(b"done"));
        drop(stream);
    });
    run(&mut sim, |_| async {
        let stream = loop {
            match Stream::connect(at(TWO, 9000), Some(at(ONE, 40_000))).await {
                Ok(stream) => break stream,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused),
            }
        };
        let again = Stream::connect(at(TWO, 9000), Some(at(ONE, 40_000))).await.err().expect("port in use");
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        stream.write(|out| out.extend((0..BYTES).map(|n| (n / 7) as u8)));
        assert_eq!(stream.queued(), BYTES);
        let begin = runtime::now();
        assert!(runtime::timeout(Duration::from_secs(4), stream.drained_to(0)).await.is_none());
        assert!(stream.queued() > BYTES / 2 && stream.queued() < BYTES);
        stream.drained_to(0).await.expect("drained");
        assert!(runtime::now().since(begin) > Duration::from_secs(4));
        assert_eq!(read_exact(&stream, 4).await.expect("sent before the drop"), b"done");
        assert!(stream.recv().await.expect("the end").is_none());
        stream.shutdown();
        assert!(stream.recv().await.expect("closed here").is_none());
        assert!(stream.drained_to(0).await.is_err());
    });
}

#[test]
fn a_cut_network_holds_bytes_up_until_it_heals() {
    let mut sim = Sim::new(8, Options::default());
    sim.start_node(TWO, 1, |_| echo(9000));
    let received = Rc::new(Cell::new(0));
    let timed_out = Rc::new(Cell::new(false));
    let (count, late) = (received.clone(), timed_out.clone());
    sim.start_node(ONE, 1, move |_| {
        let (count, late) = (count.clone(), late.clone());
        async move {
            let stream = connect(at(TWO, 9000)).await;
            for _ in 0..1000 {
                stream.write(|out| out.extend_from_slice(b"ping"));
                read_exact(&stream, 4).await.expect("echoed");
                count.set(count.get() + 1);
            }
            stream.write(|out| out.extend_from_slice(&[1; 500_000]));
            read_exact(&stream, 500_000).await.expect("echoed");
            drop(stream);
            count.set(count.get() + 1);
            runtime::sleep(Duration::from_secs(1)).await;
            let error = Stream::connect(at(TWO, 9000), None).await.err().expect("cut");
            late.set(error.kind() == io::ErrorKind::TimedOut);
        }
    });
    for _ in 0..5 {
        let stop = sim.run_until(LONG, || received.get() % 7 == 6);
        assert_eq!(stop, Stop::Condition);
        sim.partition(ONE, TWO, true);
        let before = received.get();
        sim.run_until(Duration::from_secs(20), || false);
        assert!(received.get() <= before + 1, "what had arrived already");
        sim.partition(ONE, TWO, false);
        let stop = sim.run_until(LONG, || received.get() > before + 1);
        assert_eq!(stop, Stop::Condition);
    }
    assert_eq!(sim.run_until(LONG, || received.get() == 1001), Stop::Condition);
    sim.partition_one_way(TWO, ONE, true);
    assert_eq!(sim.run_until(LONG, || timed_out.get()), Stop::Condition);
}

#[test]
fn peers_of_a_crashed_node_notice() {
    let mut slow = 0;
    for seed in 0..20 {
        let mut sim = Sim::new(seed, Options::default());
        sim.start_node(TWO, 1, |_| echo(9000));
        let connected = Rc::new(Cell::new(false));
        let flag = connected.clone();
        sim.start_node(ONE, 1, move |_| {
            let flag = flag.clone();
            async move {
                let stream = connect(at(TWO, 9000)).await;
                flag.set(true);
                assert!(!matches!(stream.recv().await, Ok(Some(_))));
            }
        });
        assert_eq!(sim.run_until(LONG, || connected.get()), Stop::Condition);
        let before = sim.now();
        if seed % 2 == 0 {
            sim.crash(TWO)
        } else {
            sim.kill(TWO)
        }
        sim.run_until(LONG, || false);
        assert!(!sim.is_running(ONE), "seed {seed}");
        slow += usize::from(sim.now().since(before) > Duration::from_secs(1));
    }
    assert!(slow > 0, "some crash leaves a connection half open for a while");
}

#[test]
fn resets_by_chance_happen() {
    let mut sim = Sim::new(9, Options { network_reset: 0.05, ..Options::default() });
    sim.start_node(TWO, 1, |_| echo(9000));
    run(&mut sim, |_| async {
        let mut broken = 0;
        while broken < 5 {
            let stream = connect(at(TWO, 9000)).await;
            for _ in 0..200 {
                stream.write(|out| out.extend_from_slice(b"ping"));
                if read_exact(&stream, 4).await.is_err() {
                    broken += 1;
                    break;
                }
            }
        }
    });
}

#[test]
fn a_backlog_holds_1024_connections() {
    let mut sim = Sim::new(14, Options::default());
    let (connected, late) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (count, slow) = (connected.clone(), late.clone());
    sim.start_node(TWO, 1, |_| async {
        let listener = Listener::bind(at(TWO, 9000)).await.expect("free");
        runtime::sleep(Duration::from_millis(900)).await;
        for _ in 0..1025 {
            std::mem::forget(listener.accept().await.expect("accepted"));
        }
        std::future::pending::<()>().await;
    });
    sim.start_node(ONE, 1, move |_| {
        let (count, slow) = (count.clone(), slow.clone());
        async move {
            runtime::sleep(Duration::from_millis(100)).await;
            let begin = runtime::now();
            for _ in 0..1025 {
                let (count, slow) = (count.clone(), slow.clone());
                runtime::spawn(async move {
                    let _stream = Stream::connect(at(TWO, 9000), None).await.expect("connected");
                    count.set(count.get() + 1);
                    let delay = runtime::now().since(begin);
                    slow.set(slow.get() + usize::from(delay > Duration::from_millis(500)));
                    std::future::pending::<()>().await;
                });
            }
            std::future::pending::<()>().await;
        }
    });
    assert_eq!(sim.run_until(LONG, || connected.get() == 1025), Stop::Condition);
    assert_eq!(late.get(), 1, "one past the limit is asked again");
}

#[test]
fn a_window_holds_128_kibibytes() {
    for (bytes, left) in [(128 << 10, 0), ((128 << 10) + 1, 1)] {
        let mut sim = Sim::new(15, Options::default());
        sim.start_node(TWO, 1, |_| async {
            let listener = Listener::bind(at(TWO, 9000)).await.expect("free");
            let _stream = listener.accept().await.expect("accepted").attach().expect("attached");
            std::future::pending::<()>().await;
        });
        run(&mut sim, move |_| async move {
            let stream = connect(at(TWO, 9000)).await;
            stream.write(|out| out.resize(bytes, 1));
            runtime::sleep(Duration::from_secs(1)).await;
            assert_eq!(stream.queued(), left);
        });
    }
}
