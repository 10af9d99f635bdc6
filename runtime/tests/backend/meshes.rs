//! Queues between the shards of a node.

use crate::world::{MESH_CAPACITY, Message, World};
use runtime::{Endpoint, ShardId, current_shard, shard_count, sleep, spawn};
use std::rc::Rc;
use std::time::Duration;

async fn number(mesh: &Endpoint<Message>) -> (ShardId, u64) {
    let (from, Message::Number(n)) = mesh.recv().await else { panic!("a number") };
    (from, n)
}

pub(crate) async fn messages_keep_their_order(world: World) {
    const EACH: u64 = 1000;
    let mesh = Rc::new(world.mesh.attach());
    let me = current_shard();
    for to in (0..shard_count() as u16).map(ShardId).filter(|to| *to != me) {
        let mesh = mesh.clone();
        spawn(async move {
            for n in 0..EACH {
                mesh.send(to, Message::Number(n)).await;
            }
        });
    }
    let mut next = [0u64; 3];
    for _ in 0..2 * EACH {
        let (from, n) = number(&mesh).await;
        assert_eq!(n, next[from.0 as usize]);
        next[from.0 as usize] += 1;
    }
    assert_eq!((next[me.0 as usize], next.iter().sum::<u64>()), (0, 2 * EACH));
    assert!(mesh.try_recv().is_none());
    while mesh.sent() < 2 * EACH {
        sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) async fn a_full_queue_gives_the_message_back(world: World) {
    let mesh = world.mesh.attach();
    if current_shard() == ShardId(0) {
        for n in 0..MESH_CAPACITY as u64 {
            assert!(mesh.try_send(ShardId(1), Message::Number(n)).is_ok());
        }
        let Err(Message::Number(back)) = mesh.try_send(ShardId(1), Message::Number(99)) else { panic!("full") };
        assert_eq!((back, mesh.sent()), (99, MESH_CAPACITY as u64));
        assert_eq!([0, 1].map(|to| mesh.queued(ShardId(to))), [0, MESH_CAPACITY]);
        world.put("full", 1);
        world.wait_for("empty", 1).await;
        // This shard learns what was taken after a turn of both loops.
        while mesh.queued(ShardId(1)) > 0 {
            sleep(Duration::from_millis(1)).await;
        }
        while mesh.try_send(ShardId(1), Message::Number(100)).is_err() {
            sleep(Duration::from_millis(1)).await;
        }
    } else {
        world.wait_for("full", 1).await;
        for n in 0..MESH_CAPACITY as u64 {
            assert_eq!(number(&mesh).await, (ShardId(0), n));
        }
        world.put("empty", 1);
        assert_eq!(number(&mesh).await, (ShardId(0), 100));
    }
}

pub(crate) async fn senders_wait_for_space(world: World) {
    let mesh = Rc::new(world.mesh.attach());
    let total = 20 * MESH_CAPACITY as u64;
    if current_shard() == ShardId(0) {
        // Several tasks wait for space in the same queue.
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let mesh = mesh.clone();
                spawn(async move {
                    for n in 0..total / 4 {
                        mesh.send(ShardId(1), Message::Number(n)).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        world.put("sent", 1);
    } else {
        for i in 0..total {
            if i.is_multiple_of(2 * MESH_CAPACITY as u64) {
                // Long enough for the senders to fill the queue and fall asleep.
                sleep(Duration::from_millis(3)).await;
                assert!(i + MESH_CAPACITY as u64 >= total || world.get("sent").is_none());
            }
            number(&mesh).await;
        }
    }
}

pub(crate) async fn a_sleeping_shard_is_woken(world: World) {
    let mesh = world.mesh.attach();
    for round in 0..20u64 {
        if current_shard() == ShardId(0) {
            sleep(Duration::from_millis(2)).await;
            mesh.send(ShardId(1), Message::Number(round)).await;
            assert_eq!(number(&mesh).await.1, round);
        } else {
            // No timer here: only the message can end this wait.
            assert_eq!(number(&mesh).await.1, round);
            mesh.send(ShardId(0), Message::Number(round)).await;
        }
    }
}

pub(crate) async fn requests_and_replies(world: World) {
    let mesh = Rc::new(world.mesh.attach());
    let peer = ShardId(1 - current_shard().0);
    let sender = mesh.clone();
    // Requests are even numbers; the reply is the request plus one.
    let requests = spawn(async move {
        for n in 0..500 {
            sender.send(peer, Message::Number(2 * n)).await;
        }
    });
    let (mut replies, mut requested) = (0, 0);
    while replies < 500 || requested < 500 {
        let (from, n) = number(&mesh).await;
        assert_eq!(from, peer);
        if n.is_multiple_of(2) {
            requested += 1;
            let replier = mesh.clone();
            spawn(async move { replier.send(peer, Message::Number(n + 1)).await });
        } else {
            replies += 1;
        }
    }
    requests.await;
    world.add("done", 1);
    world.wait_for("done", 2).await;
}

pub(crate) async fn undelivered_messages_are_dropped(world: World) {
    let mesh = world.mesh.attach();
    if current_shard() == ShardId(0) {
        for _ in 0..MESH_CAPACITY {
            let message = Message::Counted(world.counted("dropped"));
            assert!(mesh.try_send(ShardId(1), message).is_ok());
        }
        world.put("sent", 1);
        world.wait_for("taken", 1).await;
    } else {
        world.wait_for("sent", 1).await;
        drop(mesh.recv().await);
        assert_eq!(world.get("dropped"), Some(1));
        world.put("taken", 1);
    }
}
