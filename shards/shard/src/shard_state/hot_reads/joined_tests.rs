//! Reads that come, wait, lead and go away, in given orders and at random.

use super::*;
use model::arbitrary::generator;

type Reads = Rc<JoinedReads<u64>>;

fn leads(reads: &Reads) -> Lead<u64> {
    match reads.enter() {
        Entered::Leads(lead) => lead,
        _ => panic!("it leads"),
    }
}

fn waits(reads: &Reads) -> Waiter<u64> {
    match reads.enter() {
        Entered::Waits(waiter) => waiter,
        _ => panic!("it waits"),
    }
}

fn poll(waiter: &mut Waiter<u64>) -> Option<Turn<u64>> {
    match Pin::new(waiter).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(turn) => Some(turn),
        Poll::Pending => None,
    }
}

fn leads_now(waiter: &mut Waiter<u64>) -> Lead<u64> {
    match poll(waiter) {
        Some(Turn::Leads(lead)) => lead,
        _ => panic!("it leads"),
    }
}

fn got(waiter: &mut Waiter<u64>) -> u64 {
    match poll(waiter) {
        Some(Turn::Ended(Outcome::Shared(answer))) => answer,
        _ => panic!("it has an answer"),
    }
}

#[test]
fn those_that_come_meanwhile_are_read_for_together() {
    let reads: Reads = Rc::new(JoinedReads::new());
    let first = leads(&reads);
    let (mut one, mut two) = (waits(&reads), waits(&reads));
    assert!(poll(&mut one).is_none() && poll(&mut two).is_none());
    first.end(|| panic!("nobody waits for it"));
    assert!(poll(&mut two).is_none(), "one leads");
    let mut three = waits(&reads);
    let second = leads_now(&mut one);
    let mut four = waits(&reads);
    second.end(|| Outcome::Shared(2));
    assert_eq!((got(&mut two), got(&mut three)), (2, 2));
    let third = leads_now(&mut four);
    third.end(|| panic!("nobody waits for it"));
    assert!(reads.is_idle());
    drop(leads(&reads));
    assert!(reads.is_idle());
}

#[test]
fn a_leader_that_goes_away_is_replaced() {
    let reads: Reads = Rc::new(JoinedReads::new());
    let first = leads(&reads);
    let (mut one, mut two, mut three) = (waits(&reads), waits(&reads), waits(&reads));
    drop(first);
    drop(leads_now(&mut one));
    let mut later = waits(&reads);
    // The second is asked to lead, and goes away without.
    drop(two);
    let lead = leads_now(&mut three);
    assert!(poll(&mut later).is_none(), "it came when a read for the others might have begun");
    lead.end(|| panic!("all others have gone"));
    drop(leads_now(&mut later));
    assert!(reads.is_idle());
    let first = leads(&reads);
    two = waits(&reads);
    drop(two);
    drop(first);
    assert!(reads.is_idle(), "all that waited have gone");
}

#[test]
fn who_has_waited_too_long_leads() {
    let reads: Reads = Rc::new(JoinedReads::new());
    let late = leads(&reads);
    let (mut one, mut two) = (waits(&reads), waits(&reads));
    let lead = one.lead_now().expect("nobody leads it");
    assert!(two.lead_now().is_none(), "it is led");
    let mut three = waits(&reads);
    lead.end(|| Outcome::Unshared);
    assert!(matches!(poll(&mut two), Some(Turn::Ended(Outcome::Unshared))));
    let lead = leads_now(&mut three);
    drop(late);
    assert!(!reads.is_idle());
    drop(lead);
    assert!(reads.is_idle());
}

#[test]
fn so_many_wait() {
    let reads: Reads = Rc::new(JoinedReads::new());
    let lead = leads(&reads);
    let mut waiters: Vec<Waiter<u64>> = (0..WAITERS_MAX).map(|_| waits(&reads)).collect();
    assert!(matches!(reads.enter(), Entered::Alone));
    drop(lead);
    let lead = leads_now(&mut waiters[0]);
    let _next = waits(&reads);
    lead.end(|| Outcome::Shared(1));
    assert!(waiters[1..].iter_mut().all(|waiter| got(waiter) == 1));
}

/// Any order of events: each gets an answer of a read that began after it came, unless it goes away; none waits while
/// nobody leads.
#[test]
fn no_answer_is_older_than_its_read() {
    for seed in 0..3_000 {
        let mut below = generator(seed);
        let reads: Reads = Rc::new(JoinedReads::new());
        let mut clock = 0;
        let mut leading: Vec<(u64, Lead<u64>)> = Vec::new();
        let mut waiting: Vec<(u64, Waiter<u64>)> = Vec::new();
        for step in 0..200 {
            clock += 1;
            match below(8) {
                0..=2 if step < 150 => match reads.enter() {
                    Entered::Leads(lead) => leading.push((clock, lead)),
                    Entered::Waits(waiter) => waiting.push((clock, waiter)),
                    Entered::Alone => {}
                },
                3 | 4 if !leading.is_empty() => {
                    let (began, lead) = leading.swap_remove(below(leading.len() as u64) as usize);
                    match below(4) {
                        0 => drop(lead),
                        _ => lead.end(|| Outcome::Shared(began)),
                    }
                }
                5 if !waiting.is_empty() => drop(waiting.swap_remove(below(waiting.len() as u64) as usize)),
                6 if !waiting.is_empty() => {
                    let at = below(waiting.len() as u64) as usize;
                    if let Some(lead) = waiting[at].1.lead_now() {
                        waiting.swap_remove(at);
                        leading.push((clock, lead));
                    }
                }
                _ if !waiting.is_empty() => {
                    let at = below(waiting.len() as u64) as usize;
                    match poll(&mut waiting[at].1) {
                        Some(Turn::Leads(lead)) => {
                            waiting.swap_remove(at);
                            leading.push((clock, lead));
                        }
                        Some(Turn::Ended(Outcome::Shared(began))) => {
                            let (came, _) = waiting.swap_remove(at);
                            assert!(began > came, "seed {seed}: read at {began}, came at {came}");
                        }
                        Some(Turn::Ended(Outcome::Unshared)) => panic!("seed {seed}"),
                        None => {}
                    }
                }
                _ => {}
            }
        }
        while !waiting.is_empty() {
            clock += 1;
            leading.drain(..).for_each(|(began, lead)| lead.end(|| Outcome::Shared(began)));
            let before = waiting.len();
            let mut left = Vec::new();
            for (came, mut waiter) in waiting {
                match poll(&mut waiter) {
                    Some(Turn::Leads(lead)) => leading.push((clock, lead)),
                    Some(_) => {}
                    None => left.push((came, waiter)),
                }
            }
            assert!(left.len() < before, "seed {seed}: nobody leads");
            waiting = left;
        }
        drop(leading);
        assert!(reads.is_idle(), "seed {seed}");
    }
}
