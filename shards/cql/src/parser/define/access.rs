//! Parses statements about roles, users, permissions and identities.

use crate::ast::{AccessStatement, AllowedSet, Body, FunctionResource, RoleOptions, Secret, Term};
use crate::errors::syntax;
use crate::lexer::TokenKind;
use crate::parser::Parser;
use model::Failure;
use model::access::{Permission, PermissionSet, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

type Result<T> = std::result::Result<T, Failure>;

const QUOTED_USER: &str = "Quoted strings are are not supported for user names and USER is deprecated, please use ROLE";
const TWO_PASSWORDS: &str = "Options 'password' and 'hashed password' are mutually exclusive";

impl Parser<'_> {
    /// Parses what follows CREATE ROLE.
    pub(super) fn create_role(&mut self) -> Result<Body> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.role_name()?;
        let options = self.role_options()?;
        let options = RoleOptions { superuser: options.superuser.or(Some(false)), ..options };
        let options = RoleOptions { login: options.login.or(Some(false)), ..options };
        body(AccessStatement::CreateRole { name, if_not_exists, options })
    }

    /// Parses what follows ALTER ROLE.
    pub(super) fn alter_role(&mut self) -> Result<Body> {
        let if_exists = self.if_exists()?;
        let name = self.role_name()?;
        let options = self.role_options()?;
        body(AccessStatement::AlterRole { name, if_exists, options })
    }

    /// Parses what follows DROP ROLE.
    pub(super) fn drop_role(&mut self) -> Result<Body> {
        let if_exists = self.if_exists()?;
        body(AccessStatement::DropRole { name: self.role_name()?, if_exists })
    }

    /// Parses what follows CREATE USER.
    pub(super) fn create_user(&mut self) -> Result<Body> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.user_name()?;
        let options = self.user_options()?;
        let options = RoleOptions { login: Some(true), superuser: options.superuser.or(Some(false)), ..options };
        body(AccessStatement::CreateRole { name, if_not_exists, options })
    }

    /// Parses what follows ALTER USER.
    pub(super) fn alter_user(&mut self) -> Result<Body> {
        let if_exists = self.if_exists()?;
        let name = self.user_name()?;
        let options = self.user_options()?;
        body(AccessStatement::AlterRole { name, if_exists, options })
    }

    /// Parses what follows DROP USER.
    pub(super) fn drop_user(&mut self) -> Result<Body> {
        let if_exists = self.if_exists()?;
        body(AccessStatement::DropRole { name: self.user_name()?, if_exists })
    }

    /// Parses what follows GRANT or REVOKE.
    pub(super) fn grant_or_revoke(&mut self, grants: bool) -> Result<Body> {
        let whom = if grants { "to" } else { "from" };
        if !self.at_permission()? {
            let role = self.role_name()?;
            self.expect_word(whom)?;
            let other = self.role_name()?;
            return body(match grants {
                true => AccessStatement::GrantRole { role, to: other },
                false => AccessStatement::RevokeRole { role, from: other },
            });
        }
        let permissions = self.permissions()?;
        self.expect_word("on")?;
        if let Some(function) = self.function_resource()? {
            self.expect_word(whom)?;
            self.role_name()?;
            return body(AccessStatement::OnFunction(function));
        }
        let resource = self.resource()?;
        self.expect_word(whom)?;
        let role = self.role_name()?;
        let permissions = applicable(permissions, &resource)?;
        body(match grants {
            true => AccessStatement::Grant { permissions, resource, to: role },
            false => AccessStatement::Revoke { permissions, resource, from: role },
        })
    }

    /// Parses what follows LIST, if a statement may begin so.
    pub(super) fn list_statement(&mut self) -> Result<Option<Body>> {
        if self.accept_word("users")? {
            return body(AccessStatement::ListUsers).map(Some);
        }
        if self.accept_word("roles")? {
            let of = if self.accept_word("of")? { Some(self.role_name()?) } else { None };
            let recursive = !self.accept_word("norecursive")?;
            return body(AccessStatement::ListRoles { of, recursive }).map(Some);
        }
        if !self.token.is("all") && self.permission().is_none() {
            return Ok(None);
        }
        let permissions = self.permissions()?;
        let (mut function, mut resource) = (None, None);
        if self.accept_word("on")? {
            function = self.function_resource()?;
            if function.is_none() {
                resource = Some(self.resource()?);
            }
        }
        let of = if self.accept_word("of")? { Some(self.role_name()?) } else { None };
        let recursive = !self.accept_word("norecursive")?;
        match function {
            Some(function) => body(AccessStatement::OnFunction(function)).map(Some),
            None => body(AccessStatement::ListPermissions { permissions, resource, of, recursive }).map(Some),
        }
    }

    /// Parses what follows ADD.
    pub(super) fn add_identity(&mut self) -> Result<Body> {
        self.expect_word("identity")?;
        let if_not_exists = self.if_not_exists()?;
        let identity = self.role_name()?;
        self.expect_word("to")?;
        self.expect_word("role")?;
        body(AccessStatement::AddIdentity { identity, role: self.role_name()?, if_not_exists })
    }

    /// Parses what follows DROP IDENTITY.
    pub(super) fn drop_identity(&mut self) -> Result<Body> {
        let if_exists = self.if_exists()?;
        body(AccessStatement::DropIdentity { identity: self.role_name()?, if_exists })
    }

    /// Reads the name of a role: a name, or a string, which is taken as it is.
    fn role_name(&mut self) -> Result<String> {
        match self.token.kind {
            TokenKind::String | TokenKind::DollarString => self.string(),
            _ => self.name_of("role"),
        }
    }

    /// Reads the name of a user, which keeps its case.
    fn user_name(&mut self) -> Result<String> {
        match self.token.kind {
            TokenKind::String | TokenKind::DollarString => self.string(),
            TokenKind::QuotedName => Err(syntax(QUOTED_USER.into())),
            TokenKind::Word if self.at_name() => Ok(self.advance()?.text.to_owned()),
            _ => Err(self.no_viable()),
        }
    }

    fn string(&mut self) -> Result<String> {
        match self.token.kind {
            TokenKind::String | TokenKind::DollarString => {
                let text = match self.token.kind {
                    TokenKind::String => self.token.content().into_owned(),
                    _ => self.token.text.to_owned(),
                };
                self.advance()?;
                Ok(text)
            }
            _ => Err(self.mismatched("STRING_LITERAL")),
        }
    }

    fn boolean(&mut self) -> Result<bool> {
        let value = self.token.is("true");
        if !value && !self.token.is("false") {
            return Err(self.mismatched("BOOLEAN"));
        }
        self.advance()?;
        Ok(value)
    }

    fn role_options(&mut self) -> Result<RoleOptions> {
        let mut options = RoleOptions::default();
        if !self.accept_word("with")? {
            return Ok(options);
        }
        loop {
            self.role_option(&mut options)?;
            if !self.accept_word("and")? {
                break;
            }
        }
        if options.password.is_some() && options.hashed_password.is_some() {
            return Err(syntax(TWO_PASSWORDS.into()));
        }
        Ok(options)
    }

    fn role_option(&mut self, options: &mut RoleOptions) -> Result<()> {
        if self.accept_word("password")? {
            self.expect(TokenKind::Equal, "'='")?;
            let password = Secret(self.string()?);
            return once(options.password.replace(password), "PASSWORD");
        }
        if self.accept_word("hashed")? {
            self.expect_word("password")?;
            self.expect(TokenKind::Equal, "'='")?;
            let hash = Secret(self.string()?);
            return once(options.hashed_password.replace(hash), "HASHED_PASSWORD");
        }
        if self.accept_word("options")? {
            self.expect(TokenKind::Equal, "'='")?;
            self.expect(TokenKind::BraceOpen, "'{'")?;
            let text = |term: Term| match term {
                Term::Constant(_, text) => text,
                other => other.to_string(),
            };
            let pairs = self.terms_until(TokenKind::BraceClose, "'}'", |parser| {
                let name = parser.term()?;
                parser.expect(TokenKind::Colon, "':'")?;
                Ok((text(name), text(parser.term()?)))
            })?;
            return once(options.custom.replace(pairs), "OPTIONS");
        }
        for (word, name) in [("superuser", "SUPERUSER"), ("login", "LOGIN")] {
            if self.accept_word(word)? {
                self.expect(TokenKind::Equal, "'='")?;
                let value = self.boolean()?;
                let option = if word == "login" { &mut options.login } else { &mut options.superuser };
                return once(option.replace(value), name);
            }
        }
        if !self.accept_word("access")? {
            return Err(self.no_viable());
        }
        if self.accept_word("to")? {
            let allowed = self.allowed("datacenters")?;
            return match options.data_centers.replace(allowed) {
                None => Ok(()),
                Some(_) => Err(syntax("Multiple definition for property 'ACCESS TO DATACENTERS'".into())),
            };
        }
        self.expect_word("from")?;
        let allowed = self.allowed("cidrs")?;
        match options.cidr_groups.replace(allowed) {
            None => Ok(()),
            Some(_) => Err(syntax("Multiple definition for property 'ACCESS FROM CIDRS'".into())),
        }
    }

    /// Parses `ALL things` or `things {'a', 'b'}`.
    fn allowed(&mut self, things: &str) -> Result<AllowedSet> {
        if self.accept_word("all")? {
            self.expect_word(things)?;
            return Ok(AllowedSet::All);
        }
        self.expect_word(things)?;
        self.expect(TokenKind::BraceOpen, "'{'")?;
        let names: BTreeSet<String> = self.list(|parser| parser.string())?.into_iter().collect();
        self.expect(TokenKind::BraceClose, "'}'")?;
        Ok(AllowedSet::Some(names))
    }

    /// Parses `WITH [HASHED] PASSWORD '...'` and `SUPERUSER` or `NOSUPERUSER`.
    fn user_options(&mut self) -> Result<RoleOptions> {
        let mut options = RoleOptions::default();
        if self.accept_word("with")? {
            let hashed = self.accept_word("hashed")?;
            self.expect_word("password")?;
            let secret = Some(Secret(self.string()?));
            *(if hashed { &mut options.hashed_password } else { &mut options.password }) = secret;
        }
        if self.accept_word("superuser")? {
            options.superuser = Some(true);
        } else if self.accept_word("nosuperuser")? {
            options.superuser = Some(false);
        }
        Ok(options)
    }

    /// The permission that the current token names.
    fn permission(&self) -> Option<Permission> {
        if self.token.kind == TokenKind::Word { Permission::named(self.token.text) } else { None }
    }

    /// Whether permissions begin here, and not the name of a role.
    fn at_permission(&self) -> Result<bool> {
        if !self.token.is("all") && self.permission().is_none() {
            return Ok(false);
        }
        let next = self.peek()?;
        let follows = next.kind == TokenKind::Comma || ["on", "permission", "permissions"].iter().any(|w| next.is(w));
        Ok(follows || !self.at_name())
    }

    fn permissions(&mut self) -> Result<PermissionSet> {
        if self.accept_word("all")? {
            self.accept_word("permissions")?;
            return Ok(Permission::ALL.into_iter().collect());
        }
        let permissions = self.list(|parser| {
            let Some(permission) = parser.permission() else { return Err(parser.no_viable()) };
            parser.advance()?;
            parser.accept_word("permission")?;
            Ok(permission)
        })?;
        Ok(permissions.into_iter().collect())
    }

    /// Parses `FUNCTION name(types)`, if that follows and not a table with that name.
    fn function_resource(&mut self) -> Result<Option<FunctionResource>> {
        let next = self.peek()?;
        let is_named =
            matches!(next.kind, TokenKind::Word | TokenKind::QuotedName) && !next.is("to") && !next.is("from");
        if !self.token.is("function") || !is_named || next.is("of") {
            return Ok(None);
        }
        self.advance()?;
        let begin = self.token;
        let (keyspace, name) = self.function_name()?;
        if self.token.kind != TokenKind::ParenOpen && keyspace.is_none() {
            return Err(self.no_viable_since(begin));
        }
        self.expect(TokenKind::ParenOpen, "'('")?;
        let arguments = match self.token.kind {
            TokenKind::ParenClose => Vec::new(),
            _ => self.list(|parser| parser.type_name())?,
        };
        self.expect(TokenKind::ParenClose, "')'")?;
        Ok(Some(FunctionResource { keyspace, name, arguments }))
    }

    fn resource(&mut self) -> Result<Resource> {
        if self.token.is("all") {
            let next = self.peek()?;
            let all = ["keyspaces", "tables", "roles", "functions", "mbeans"].iter().find(|word| next.is(word));
            if let Some(word) = all {
                self.advance()?;
                self.advance()?;
                return self.all_of(word);
            }
        }
        if self.token.is("keyspace") {
            self.advance()?;
            return Ok(Resource::Keyspace(self.name_of("keyspace")?));
        }
        let next = self.peek()?;
        let is_named =
            matches!(next.kind, TokenKind::Word | TokenKind::QuotedName) && !next.is("to") && !next.is("from");
        let is_string = matches!(next.kind, TokenKind::String | TokenKind::DollarString);
        if self.token.is("role") && (is_named || is_string || next.kind == TokenKind::QuestionMark) {
            self.advance()?;
            return Ok(Resource::Role(self.role_name()?));
        }
        if (self.token.is("mbean") || self.token.is("mbeans")) && is_string {
            self.advance()?;
            let name = self.string()?;
            return match is_object_name(&name) {
                true => Ok(Resource::Mbean(name)),
                false => Err(syntax(format!("{name} is not a valid JMX object name"))),
            };
        }
        if !self.accept_word("table")? {
            self.accept_word("columnfamily")?;
        }
        let table = self.table_name()?;
        Ok(Resource::Table(table.keyspace.unwrap_or_default(), table.name))
    }

    fn all_of(&mut self, what: &str) -> Result<Resource> {
        Ok(match what {
            "keyspaces" => Resource::AllKeyspaces,
            "roles" => Resource::AllRoles,
            "mbeans" => Resource::AllMbeans,
            "functions" if !self.token.is("in") => Resource::AllFunctions,
            _ => {
                self.expect_word("in")?;
                self.expect_word("keyspace")?;
                let keyspace = self.name_of("keyspace")?;
                if what == "tables" { Resource::AllTables(keyspace) } else { Resource::FunctionsIn(keyspace) }
            }
        })
    }
}

fn body(statement: AccessStatement) -> Result<Body> {
    Ok(Body::Access(Arc::new(statement)))
}

/// Fails if an option was given before.
fn once<T>(before: Option<T>, name: &str) -> Result<()> {
    match before {
        None => Ok(()),
        Some(_) => Err(syntax(format!("Multiple definition for property '{name}'"))),
    }
}

/// Those of the permissions that there are on a resource.
fn applicable(permissions: PermissionSet, resource: &Resource) -> Result<PermissionSet> {
    let applicable = permissions.intersection(resource.applicable());
    match applicable.is_empty() {
        false => Ok(applicable),
        true => {
            Err(syntax(format!("Resource type {} does not support any of the requested permissions", resource.class())))
        }
    }
}

/// Whether a text is `domain:key=value,...` or a pattern of such.
fn is_object_name(name: &str) -> bool {
    let Some((_, properties)) = name.split_once(':') else { return false };
    !properties.is_empty()
        && properties.split(',').all(|property| {
            property == "*" || property.split_once('=').is_some_and(|(key, value)| !key.is_empty() && !value.is_empty())
        })
}
