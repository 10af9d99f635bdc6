//! Permissions and sets of them.

use std::fmt;

/// What a role may do with a resource, in the order in which Cassandra lists permissions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "Cassandra's words")]
pub enum Permission {
    Create,
    Alter,
    Drop,
    Select,
    Modify,
    Authorize,
    Describe,
    Execute,
    Unmask,
    SelectMasked,
}

impl Permission {
    /// All permissions, in order.
    pub const ALL: [Permission; 10] = [
        Permission::Create,
        Permission::Alter,
        Permission::Drop,
        Permission::Select,
        Permission::Modify,
        Permission::Authorize,
        Permission::Describe,
        Permission::Execute,
        Permission::Unmask,
        Permission::SelectMasked,
    ];

    /// The name in CQL, in tables and in texts.
    pub fn name(self) -> &'static str {
        match self {
            Permission::Create => "CREATE",
            Permission::Alter => "ALTER",
            Permission::Drop => "DROP",
            Permission::Select => "SELECT",
            Permission::Modify => "MODIFY",
            Permission::Authorize => "AUTHORIZE",
            Permission::Describe => "DESCRIBE",
            Permission::Execute => "EXECUTE",
            Permission::Unmask => "UNMASK",
            Permission::SelectMasked => "SELECT_MASKED",
        }
    }

    /// The permission with a name, in any case.
    pub fn named(name: &str) -> Option<Permission> {
        Permission::ALL.into_iter().find(|permission| permission.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of permissions.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct PermissionSet(u16);

impl PermissionSet {
    /// No permission.
    pub const NONE: PermissionSet = PermissionSet(0);

    /// The set of these permissions.
    pub const fn of(permissions: &[Permission]) -> PermissionSet {
        let (mut bits, mut at) = (0, 0);
        while at < permissions.len() {
            bits |= 1 << permissions[at] as u16;
            at += 1;
        }
        PermissionSet(bits)
    }

    /// Whether a permission is in the set.
    #[inline]
    pub const fn contains(self, permission: Permission) -> bool {
        self.0 & (1 << permission as u16) != 0
    }

    /// Whether there is none in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds a permission.
    pub fn insert(&mut self, permission: Permission) {
        self.0 |= 1 << permission as u16;
    }

    /// What is in this set or in the other.
    pub const fn union(self, other: PermissionSet) -> PermissionSet {
        PermissionSet(self.0 | other.0)
    }

    /// What is in both sets.
    pub const fn intersection(self, other: PermissionSet) -> PermissionSet {
        PermissionSet(self.0 & other.0)
    }

    /// What is in this set and not in the other.
    pub const fn without(self, other: PermissionSet) -> PermissionSet {
        PermissionSet(self.0 & !other.0)
    }

    /// The permissions in order.
    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.into_iter().filter(move |permission| self.contains(*permission))
    }
}

impl FromIterator<Permission> for PermissionSet {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> PermissionSet {
        let mut set = PermissionSet::NONE;
        permissions.into_iter().for_each(|permission| set.insert(permission));
        set
    }
}

/// Names with commas between them, as texts have them: `SELECT, MODIFY`.
impl fmt::Display for PermissionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, permission) in self.iter().enumerate() {
            write!(f, "{}{permission}", if at > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for PermissionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_sets() {
        let all: PermissionSet = Permission::ALL.into_iter().collect();
        assert_eq!(all.iter().collect::<Vec<_>>(), Permission::ALL);
        let two = PermissionSet::of(&[Permission::Modify, Permission::Select]);
        assert_eq!(two.to_string(), "SELECT, MODIFY");
        assert_eq!(all.without(two).union(two), all);
        assert_eq!(all.intersection(two), two);
        assert!(two.contains(Permission::Select) && !two.contains(Permission::Create));
        assert!(PermissionSet::NONE.is_empty() && !two.is_empty());
    }

    #[test]
    fn names_are_one_to_one() {
        for permission in Permission::ALL {
            assert_eq!(Permission::named(&permission.name().to_lowercase()), Some(permission));
        }
        assert_eq!(Permission::named("READ"), None);
    }
}
