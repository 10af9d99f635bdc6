//! What this core has read of roles, and what it remembers of logins.
//!
//! 1. What a role may do is read from `system_auth` when it is needed, and kept as an [`Entry`].
//! 2. An entry counts for [`VALIDITY_MAX`] after its reading began, or less if the options say so. One that is used is
//!    read again in the background before that ends, so that requests do not wait.
//! 3. A change of roles through any node removes all entries of all cores of all live nodes.
//!
//! Invariants: no request is decided by what was read more than [`VALIDITY_MAX`] ago; an entry whose reading began
//! before a change is not kept after it; numbers of entries are bounded.

use model::HashMap;
use model::access::RoleGrants;
use runtime::Instant;
use runtime::gate::Semaphore;
use runtime::sync::Latch;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// The longest that what was read of a role counts, whatever the options say.
pub(crate) const VALIDITY_MAX: Duration = Duration::from_secs(1);
/// Most logins of a core whose passwords are hashed or wait for it in the queue of the node.
const HASHES_MAX: u64 = 16;
/// Most failed logins of one address on one core within [`FAILURES_WINDOW`].
pub(crate) const FAILURES_MAX: u32 = 20;
/// The time over which failed logins are counted.
pub(crate) const FAILURES_WINDOW: Duration = Duration::from_secs(10);
/// Most addresses whose failed logins are counted.
const ADDRESSES_MAX: usize = 10_000;

/// What was read of a role.
pub(crate) struct Entry {
    /// What the role may do.
    pub(crate) grants: RoleGrants,
    /// When its reading began.
    read_at: Instant,
    /// The number of changes of roles before it.
    generation: u64,
    is_refreshing: Cell<bool>,
}

/// A password that was right for a stored hash, as a keyed hash that is fast.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct VerifiedPassword(pub(crate) [u8; 32]);

/// The roles that a core knows.
pub(crate) struct Roles {
    entries: RefCell<HashMap<Rc<str>, Rc<Entry>>>,
    loading: RefCell<HashMap<Rc<str>, Latch>>,
    generation: Cell<u64>,
    verified: RefCell<HashMap<Rc<str>, VerifiedPassword>>,
    /// The key of fast hashes.
    key: [u8; 32],
    hashes: Semaphore,
    failures: RefCell<HashMap<IpAddr, Failures>>,
    validity: Cell<Duration>,
    update_interval: Cell<Duration>,
    entries_max: Cell<usize>,
    /// How often each group of addresses was let in (true) and refused.
    accesses: RefCell<BTreeMap<(bool, String), u64>>,
    /// How often an operator had the groups read again.
    reloads: Cell<u64>,
}

#[derive(Clone, Copy)]
struct Failures {
    since: Instant,
    count: u32,
}

impl Roles {
    /// No roles yet.
    pub(crate) fn new(validity: Duration, update_interval: Option<Duration>, entries_max: usize) -> Roles {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&runtime::rng::bytes16());
        key[16..].copy_from_slice(&runtime::rng::bytes16());
        let roles = Roles {
            entries: RefCell::default(),
            loading: RefCell::default(),
            generation: Cell::new(0),
            verified: RefCell::default(),
            key,
            hashes: Semaphore::new(HASHES_MAX),
            failures: RefCell::default(),
            validity: Cell::default(),
            update_interval: Cell::default(),
            entries_max: Cell::default(),
            accesses: RefCell::default(),
            reloads: Cell::new(0),
        };
        roles.limit(validity, update_interval, entries_max);
        roles
    }

    /// Keeps what is read like this from now on. What was read longer ago does not count any more, and what is more
    /// than there may be is forgotten with the next entries.
    pub(crate) fn limit(&self, validity: Duration, update_interval: Option<Duration>, entries_max: usize) {
        let validity = validity.min(VALIDITY_MAX);
        self.validity.set(validity);
        self.update_interval.set(update_interval.unwrap_or(validity / 2).min(validity / 2));
        self.entries_max.set(entries_max.max(1));
    }

    /// The entry of a role, if it still counts.
    pub(crate) fn get(&self, role: &str) -> Option<Rc<Entry>> {
        self.entries.borrow().get(role).filter(|entry| self.counts(entry)).cloned()
    }

    /// Whether an entry still counts.
    #[inline]
    pub(crate) fn counts(&self, entry: &Entry) -> bool {
        entry.generation == self.generation.get() && runtime::now() < entry.read_at.after(self.validity.get())
    }

    /// Whether an entry that is used should be read again now. Says so once.
    pub(crate) fn should_refresh(&self, entry: &Entry) -> bool {
        runtime::now() >= entry.read_at.after(self.update_interval.get()) && !entry.is_refreshing.replace(true)
    }

    /// Keeps what was read of a role since `read_at`, when the generation was `generation`.
    pub(crate) fn put(&self, role: &str, grants: RoleGrants, read_at: Instant, generation: u64) -> Rc<Entry> {
        let exists = grants.exists;
        let entry = Rc::new(Entry { grants, read_at, generation, is_refreshing: Cell::new(false) });
        // Names that are tried must not push out those that are used.
        if exists && generation == self.generation.get() {
            let mut entries = self.entries.borrow_mut();
            while entries.len() >= self.entries_max.get() && !entries.contains_key(role) {
                let oldest = entries.iter().min_by_key(|(_, entry)| entry.read_at).map(|(role, _)| role.clone());
                let Some(oldest) = oldest else { break };
                entries.remove(&oldest);
            }
            entries.insert(role.into(), entry.clone());
        }
        entry
    }

    /// The number of changes of roles so far.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.get()
    }

    /// Forgets everything that was read, because roles have changed.
    pub(crate) fn forget(&self) {
        self.generation.set(self.generation.get() + 1);
        self.entries.borrow_mut().clear();
        self.verified.borrow_mut().clear();
    }

    /// Begins to read a role, unless that is under way already: then the latch is set at its end.
    pub(crate) fn begin_loading(&self, role: &str) -> Result<Loading<'_>, Latch> {
        let mut loading = self.loading.borrow_mut();
        match loading.get(role) {
            Some(latch) => Err(latch.clone()),
            None => {
                let role: Rc<str> = role.into();
                loading.insert(role.clone(), Latch::default());
                Ok(Loading { roles: self, role })
            }
        }
    }

    /// The key of the fast hashes of passwords.
    pub(crate) fn key(&self) -> &[u8; 32] {
        &self.key
    }

    /// Whether this is the last password that was right for a role.
    pub(crate) fn is_verified(&self, role: &str, password: VerifiedPassword) -> bool {
        self.verified.borrow().get(role).is_some_and(|known| *known == password)
    }

    /// Notes a password that was right.
    pub(crate) fn note_verified(&self, role: &str, password: VerifiedPassword) {
        let mut verified = self.verified.borrow_mut();
        if verified.len() >= self.entries_max.get() {
            verified.clear();
        }
        verified.insert(role.into(), password);
    }

    /// A permit for each password that is hashed.
    pub(crate) fn hashes(&self) -> &Semaphore {
        &self.hashes
    }

    /// Whether an address has failed to log in too often.
    pub(crate) fn is_barred(&self, address: IpAddr) -> bool {
        let failures = self.failures.borrow().get(&address).copied();
        failures.is_some_and(|known| known.count >= FAILURES_MAX && runtime::now() < known.since.after(FAILURES_WINDOW))
    }

    /// Counts a login from an address of these groups.
    pub(crate) fn count_access(&self, is_admitted: bool, groups: Option<&BTreeSet<String>>) {
        let mut accesses = self.accesses.borrow_mut();
        let mut count = |group: &str| *accesses.entry((is_admitted, group.to_owned())).or_insert(0) += 1;
        match groups {
            None => count("Undefined"),
            Some(groups) => groups.iter().for_each(|group| count(group)),
        }
    }

    /// Counts an operator's request to read the groups of addresses again.
    pub(crate) fn count_reload(&self) {
        self.reloads.set(self.reloads.get() + 1);
    }

    /// What is counted of addresses, by the names of `system_views.cidr_filtering_metrics_counts`.
    pub(crate) fn accesses(&self) -> BTreeMap<String, u64> {
        let accesses = self.accesses.borrow();
        let named = accesses.iter().map(|((is_admitted, group), count)| {
            let what = if *is_admitted { "accepted" } else { "rejected" };
            (format!("Number of CIDR accesses {what} from CIDR group - {group}"), *count)
        });
        named.chain([("CIDR groups cache reload count".to_owned(), self.reloads.get())]).collect()
    }

    /// Counts a failed login.
    pub(crate) fn note_failure(&self, address: IpAddr) {
        let now = runtime::now();
        let mut failures = self.failures.borrow_mut();
        if failures.len() >= ADDRESSES_MAX {
            failures.retain(|_, known| now < known.since.after(FAILURES_WINDOW));
            if failures.len() >= ADDRESSES_MAX {
                failures.clear();
            }
        }
        let known = failures.entry(address).or_insert(Failures { since: now, count: 0 });
        if now >= known.since.after(FAILURES_WINDOW) {
            *known = Failures { since: now, count: 0 };
        }
        known.count += 1;
    }
}

/// The reading of a role; whoever waits for it goes on when this is dropped.
pub(crate) struct Loading<'r> {
    roles: &'r Roles,
    role: Rc<str>,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        if let Some(latch) = self.roles.loading.borrow_mut().remove(&self.role) {
            latch.set();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::NodeId;
    use runtime::sim::{Options, Sim};

    #[test]
    fn new_limits_count_at_once() {
        let mut sim = Sim::new(1, Options::default());
        sim.run_node(NodeId(1), Duration::from_secs(60), || async {
            let roles = Roles::new(Duration::from_secs(2), None, 3);
            let put = |name: &str| {
                let grants = RoleGrants { exists: true, ..RoleGrants::default() };
                roles.put(name, grants, runtime::now(), roles.generation())
            };
            for name in ["a", "b", "c"] {
                put(name);
                runtime::sleep(Duration::from_millis(100)).await;
            }
            assert!(["a", "b", "c"].iter().all(|name| roles.get(name).is_some()));
            roles.limit(Duration::from_millis(250), None, 2);
            assert!(roles.get("a").is_none(), "read 300 ms ago");
            assert!(roles.get("b").is_some() && roles.get("c").is_some());
            put("d");
            assert!(roles.get("b").is_none() && roles.get("c").is_some() && roles.get("d").is_some());
            roles.limit(Duration::ZERO, None, 0);
            assert!(roles.get("d").is_none());
            put("e");
            assert!(roles.get("e").is_none(), "nothing counts");
            roles.limit(Duration::from_secs(5), None, 1);
            let entry = put("f");
            runtime::sleep(Duration::from_millis(600)).await;
            assert!(roles.get("f").is_some() && roles.should_refresh(&entry));
            runtime::sleep(Duration::from_millis(500)).await;
            assert!(roles.get("f").is_none(), "nothing counts for longer than a second");
        });
    }
}
