//! Finding all roles that a role has, one record at a time: whoever walks reads the records.

use std::collections::BTreeSet;

/// Most roles that one role has, itself included; a walk that finds more fails.
pub const ROLES_MAX: usize = 1_000;

/// A role as it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoleRecord {
    /// Whether it may do everything.
    pub is_superuser: bool,
    /// Whether clients may log in with it.
    pub can_login: bool,
    /// The roles that it is a member of.
    pub member_of: BTreeSet<String>,
    /// The hash of its password.
    pub salted_hash: Option<String>,
}

/// A walk from a role through the roles that it is a member of, breadth first.
#[derive(Clone, Debug)]
pub struct RoleWalk {
    found: BTreeSet<String>,
    waiting: Vec<String>,
    is_superuser: bool,
}

impl RoleWalk {
    /// A walk that begins with these roles.
    pub fn from(roles: impl IntoIterator<Item = String>) -> RoleWalk {
        let waiting: Vec<String> = roles.into_iter().collect();
        RoleWalk { found: waiting.iter().cloned().collect(), waiting, is_superuser: false }
    }

    /// The role whose record is needed next; `None` at the end.
    pub fn next_role(&mut self) -> Option<String> {
        self.waiting.pop()
    }

    /// Takes the record of the role that [`RoleWalk::next_role`] has named. False if there are too many roles.
    #[must_use]
    pub fn take(&mut self, record: &RoleRecord) -> bool {
        self.is_superuser |= record.is_superuser;
        for role in &record.member_of {
            if self.found.insert(role.clone()) {
                self.waiting.push(role.clone());
            }
        }
        self.found.len() <= ROLES_MAX
    }

    /// The roles that were found, those it began with among them; and whether one of them is a superuser.
    pub fn finish(self) -> (BTreeSet<String>, bool) {
        (self.found, self.is_superuser)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn walked(from: &str, graph: &BTreeMap<&str, Vec<&str>>, superuser: &str) -> Option<(Vec<String>, bool)> {
        let mut walk = RoleWalk::from([from.to_owned()]);
        while let Some(role) = walk.next_role() {
            let member_of = graph.get(role.as_str()).into_iter().flatten().map(|role| role.to_string()).collect();
            let record = RoleRecord { is_superuser: role == superuser, member_of, ..RoleRecord::default() };
            if !walk.take(&record) {
                return None;
            }
        }
        let (roles, is_superuser) = walk.finish();
        Some((roles.into_iter().collect(), is_superuser))
    }

    #[test]
    fn all_roles_are_found_once() {
        let graph = BTreeMap::from([("a", vec!["b", "c"]), ("b", vec!["d"]), ("c", vec!["d", "a"]), ("d", vec!["a"])]);
        let all = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        assert_eq!(walked("a", &graph, "d"), Some((all.clone(), true)));
        assert_eq!(walked("d", &graph, "x"), Some((all, false)), "a cycle ends");
        assert_eq!(walked("e", &graph, "x"), Some((vec!["e".into()], false)));
    }

    #[test]
    fn the_most_roles_are_taken_and_one_more_is_not() {
        let names: Vec<String> = (0..=ROLES_MAX).map(|n| format!("r{n}")).collect();
        let chain = |count: usize| -> BTreeMap<&str, Vec<&str>> {
            names.windows(2).take(count - 1).map(|pair| (pair[0].as_str(), vec![pair[1].as_str()])).collect()
        };
        assert_eq!(walked("r0", &chain(ROLES_MAX), "x").map(|(roles, _)| roles.len()), Some(ROLES_MAX));
        assert_eq!(walked("r0", &chain(ROLES_MAX + 1), "x"), None);
    }
}
