//! Types as written.

use super::{Parser, native, unquote};
use crate::ast::{TypeKind, TypeName};
use crate::lexer::{Kind, syntax};
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

impl Parser<'_> {
    pub(crate) fn type_name(&mut self) -> Result<TypeName> {
        if self.token.kind == Kind::String {
            let text = unquote(self.advance()?.text, "''", "'");
            return Ok(TypeName { kind: TypeKind::Custom, text });
        }
        let quoted = self.token.kind == Kind::QuotedName;
        // `set` is reserved, and a type all the same.
        let name = if self.accept_word("set")? { "set".to_owned() } else { self.name()? };
        if quoted {
            return self.user_type(name);
        }
        let generic = self.token.kind == Kind::Less;
        match name.as_str() {
            "list" | "set" if generic => {
                let inner = self.parameters(1)?;
                Ok(TypeName { kind: TypeKind::Collection { frozen: false }, text: format!("{name}<{inner}>") })
            }
            "map" if generic => {
                let inner = self.parameters(2)?;
                Ok(TypeName { kind: TypeKind::Collection { frozen: false }, text: format!("map<{inner}>") })
            }
            "tuple" if generic => {
                let inner = self.parameters(usize::MAX)?;
                Ok(TypeName { kind: TypeKind::Tuple, text: format!("tuple<{inner}>") })
            }
            "vector" if generic => {
                self.advance()?;
                let inner = self.nested(Self::type_name)?;
                self.expect(Kind::Comma, "','")?;
                if self.token.kind != Kind::Integer {
                    return Err(self.mismatched("INTEGER"));
                }
                let dimension = self.advance()?.text;
                self.expect(Kind::Greater, "'>'")?;
                Ok(TypeName { kind: TypeKind::Vector, text: format!("vector<{inner}, {dimension}>") })
            }
            "frozen" if generic => self.frozen(),
            _ => match native(&name) {
                Some(cql_type) => Ok(TypeName { kind: TypeKind::Native(cql_type), text: name }),
                None => self.user_type(name),
            },
        }
    }

    fn frozen(&mut self) -> Result<TypeName> {
        self.advance()?;
        let inner = self.nested(Self::type_name)?;
        self.expect(Kind::Greater, "'>'")?;
        let text = format!("frozen<{inner}>");
        match inner.kind {
            TypeKind::Collection { .. } => Ok(TypeName { kind: TypeKind::Collection { frozen: true }, text }),
            TypeKind::Tuple | TypeKind::User { .. } => Ok(TypeName { kind: inner.kind, text }),
            TypeKind::Native(_) | TypeKind::Vector | TypeKind::Custom => Err(syntax(format!(
                "frozen<> is only allowed on collections, tuples, and user-defined types (got {inner})"
            ))),
        }
    }

    /// `<type, type>` as text: `count` types, or any number if it is `usize::MAX`.
    fn parameters(&mut self, count: usize) -> Result<String> {
        self.expect(Kind::Less, "'<'")?;
        let mut text = String::new();
        let mut seen = 0;
        loop {
            let inner = self.nested(Self::type_name)?;
            if seen > 0 {
                text.push_str(", ");
            }
            text.push_str(&inner.text);
            seen += 1;
            if seen == count || (count == usize::MAX && self.token.kind != Kind::Comma) {
                break;
            }
            self.expect(Kind::Comma, "','")?;
        }
        self.expect(Kind::Greater, "'>'")?;
        Ok(text)
    }

    fn user_type(&mut self, first: String) -> Result<TypeName> {
        if self.accept(Kind::Dot)? {
            let name = self.name()?;
            let text = format!("{first}.{name}");
            return Ok(TypeName { kind: TypeKind::User { keyspace: Some(first), name }, text });
        }
        Ok(TypeName { text: first.clone(), kind: TypeKind::User { keyspace: None, name: first } })
    }
}
