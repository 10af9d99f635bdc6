//! What permissions are about.
//!
//! | resource | name in `system_auth` | text |
//! |---|---|---|
//! | everything in keyspaces | `data` | `<all keyspaces>` |
//! | a keyspace | `data/ks` | `<keyspace ks>` |
//! | the tables of a keyspace | `data/ks/*` | `<all tables in ks>` |
//! | a table | `data/ks/t` | `<table ks.t>` |
//! | roles | `roles`, `roles/r` | `<all roles>`, `<role r>` |
//! | functions | `functions`, `functions/ks` | `<all functions>`, `<all functions in ks>` |
//! | MBeans, which are kept but mean nothing here | `mbean`, `mbean/name` | `<all mbeans>`, `<mbean name>` |

use super::permission::Permission::*;
use super::permission::PermissionSet;
use crate::schema::is_system_keyspace;
use std::fmt;

/// What a permission is about.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Resource {
    /// All keyspaces.
    AllKeyspaces,
    /// A keyspace.
    Keyspace(String),
    /// All tables of a keyspace.
    AllTables(String),
    /// A table: keyspace and name.
    Table(String, String),
    /// All roles.
    AllRoles,
    /// A role.
    Role(String),
    /// All functions.
    AllFunctions,
    /// All functions of a keyspace.
    FunctionsIn(String),
    /// All MBeans.
    AllMbeans,
    /// The MBeans with a name, or with names of a pattern.
    Mbean(String),
}

const ON_TABLE: PermissionSet = PermissionSet::of(&[Alter, Drop, Select, Modify, Authorize, Unmask, SelectMasked]);
const ON_DATA: PermissionSet = PermissionSet::of(&[Create]).union(ON_TABLE);
const ON_ROLE: PermissionSet = PermissionSet::of(&[Alter, Drop, Authorize, Describe]);
const ON_FUNCTIONS: PermissionSet = PermissionSet::of(&[Create, Alter, Drop, Authorize, Execute]);
const ON_MBEAN: PermissionSet = PermissionSet::of(&[Select, Modify, Authorize, Describe, Execute]);

impl Resource {
    /// The resource that this one is a part of.
    pub fn parent(&self) -> Option<Resource> {
        match self {
            Resource::AllKeyspaces | Resource::AllRoles | Resource::AllFunctions | Resource::AllMbeans => None,
            // What is granted on all keyspaces does not reach those of the system.
            Resource::Keyspace(keyspace) => (!is_system_keyspace(keyspace)).then_some(Resource::AllKeyspaces),
            Resource::AllTables(keyspace) => Some(Resource::Keyspace(keyspace.clone())),
            Resource::Table(keyspace, _) => Some(Resource::AllTables(keyspace.clone())),
            Resource::Role(_) => Some(Resource::AllRoles),
            Resource::FunctionsIn(_) => Some(Resource::AllFunctions),
            Resource::Mbean(_) => Some(Resource::AllMbeans),
        }
    }

    /// This resource, its parent, and so on.
    pub fn chain(&self) -> Vec<Resource> {
        std::iter::successors(Some(self.clone()), Resource::parent).collect()
    }

    /// The permissions that there are on it.
    pub fn applicable(&self) -> PermissionSet {
        match self {
            Resource::AllKeyspaces | Resource::Keyspace(_) | Resource::AllTables(_) => ON_DATA,
            Resource::Table(..) => ON_TABLE,
            Resource::AllRoles => PermissionSet::of(&[Create]).union(ON_ROLE),
            Resource::Role(_) => ON_ROLE,
            Resource::AllFunctions | Resource::FunctionsIn(_) => ON_FUNCTIONS,
            Resource::AllMbeans | Resource::Mbean(_) => ON_MBEAN,
        }
    }

    /// Cassandra's class of such resources, which some texts name.
    pub fn class(&self) -> &'static str {
        match self {
            Resource::AllKeyspaces | Resource::Keyspace(_) | Resource::AllTables(_) | Resource::Table(..) => {
                "DataResource"
            }
            Resource::AllRoles | Resource::Role(_) => "RoleResource",
            Resource::AllFunctions | Resource::FunctionsIn(_) => "FunctionResource",
            Resource::AllMbeans | Resource::Mbean(_) => "JMXResource",
        }
    }

    /// The keyspace of data.
    pub fn keyspace_of_data(&self) -> Option<&str> {
        match self {
            Resource::Keyspace(keyspace) | Resource::AllTables(keyspace) | Resource::Table(keyspace, _) => {
                Some(keyspace)
            }
            _ => None,
        }
    }

    /// The name in tables of `system_auth`.
    pub fn name(&self) -> String {
        match self {
            Resource::AllKeyspaces => "data".into(),
            Resource::Keyspace(keyspace) => format!("data/{keyspace}"),
            Resource::AllTables(keyspace) => format!("data/{keyspace}/*"),
            Resource::Table(keyspace, table) => format!("data/{keyspace}/{table}"),
            Resource::AllRoles => "roles".into(),
            Resource::Role(role) => format!("roles/{role}"),
            Resource::AllFunctions => "functions".into(),
            Resource::FunctionsIn(keyspace) => format!("functions/{keyspace}"),
            Resource::AllMbeans => "mbean".into(),
            Resource::Mbean(name) => format!("mbean/{name}"),
        }
    }

    /// The resource with a name of `system_auth`; `None` if there is none, or if it is a single function: there are no
    /// functions of users.
    pub fn parse(name: &str) -> Option<Resource> {
        let (kind, rest) = match name.split_once('/') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (name, None),
        };
        Some(match (kind, rest) {
            ("data", None) => Resource::AllKeyspaces,
            ("data", Some(path)) => match path.split_once('/') {
                None => Resource::Keyspace(path.into()),
                Some((keyspace, "*")) => Resource::AllTables(keyspace.into()),
                Some((keyspace, table)) => Resource::Table(keyspace.into(), table.into()),
            },
            ("roles", None) => Resource::AllRoles,
            ("roles", Some(role)) => Resource::Role(role.into()),
            ("functions", None) => Resource::AllFunctions,
            ("functions", Some(keyspace)) if !keyspace.contains('/') => Resource::FunctionsIn(keyspace.into()),
            ("mbean", None) => Resource::AllMbeans,
            ("mbean", Some(name)) => Resource::Mbean(name.into()),
            _ => return None,
        })
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::AllKeyspaces => f.write_str("<all keyspaces>"),
            Resource::Keyspace(keyspace) => write!(f, "<keyspace {keyspace}>"),
            Resource::AllTables(keyspace) => write!(f, "<all tables in {keyspace}>"),
            Resource::Table(keyspace, table) => write!(f, "<table {keyspace}.{table}>"),
            Resource::AllRoles => f.write_str("<all roles>"),
            Resource::Role(role) => write!(f, "<role {role}>"),
            Resource::AllFunctions => f.write_str("<all functions>"),
            Resource::FunctionsIn(keyspace) => write!(f, "<all functions in {keyspace}>"),
            Resource::AllMbeans => f.write_str("<all mbeans>"),
            Resource::Mbean(name) => write!(f, "<mbean {name}>"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for (name, text, parents) in [
            ("data", "<all keyspaces>", 0),
            ("data/ks", "<keyspace ks>", 1),
            ("data/ks/*", "<all tables in ks>", 2),
            ("data/ks/t", "<table ks.t>", 3),
            ("roles", "<all roles>", 0),
            ("roles/a/b", "<role a/b>", 1),
            ("functions", "<all functions>", 0),
            ("functions/ks", "<all functions in ks>", 1),
            ("mbean", "<all mbeans>", 0),
            ("mbean/a:type=b", "<mbean a:type=b>", 1),
            ("data/system_auth/roles", "<table system_auth.roles>", 2),
        ] {
            let resource = Resource::parse(name).expect(name);
            assert_eq!((resource.name().as_str(), resource.to_string().as_str()), (name, text));
            assert_eq!(resource.chain().len(), parents + 1, "{name}");
            assert_eq!(resource.applicable().contains(Create), resource.is_collection(), "{name}");
        }
        assert_eq!(Resource::parse("functions/ks/f[x]"), None);
        assert_eq!(Resource::parse("other"), None);
    }

    impl Resource {
        fn is_collection(&self) -> bool {
            use Resource::*;
            matches!(self, AllKeyspaces | Keyspace(_) | AllTables(_) | AllRoles | AllFunctions | FunctionsIn(_))
        }
    }
}
