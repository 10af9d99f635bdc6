//! Parses the names of types.

use super::{Parser, native};
use crate::ast::{TypeKind, TypeName};
use crate::errors::syntax;
use crate::lexer::TokenKind;
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

impl Parser<'_> {
    pub(crate) fn type_name(&mut self) -> Result<TypeName> {
        if self.token.kind == TokenKind::String {
            let text = self.advance()?.content().into_owned();
            return Ok(TypeName { kind: TypeKind::Custom, text: crate::types::class_shown(&text)? });
        }
        let first = self.token;
        let quoted = first.kind == TokenKind::QuotedName;
        // `set` is a reserved word and nevertheless a type.
        let name = if self.accept_word("set")? { "set".to_owned() } else { self.name()? };
        if quoted {
            return self.user_type(name);
        }
        let generic = self.token.kind == TokenKind::Less;
        match name.as_str() {
            "list" if generic => {
                let [element] = self.parameters()?;
                Ok(TypeName { text: format!("list<{element}>"), kind: TypeKind::List(element.into()) })
            }
            "set" if generic => {
                let [element] = self.parameters()?;
                Ok(TypeName { text: format!("set<{element}>"), kind: TypeKind::Set(element.into()) })
            }
            "map" if generic => {
                let [key, value] = self.parameters()?;
                let text = format!("map<{key}, {value}>");
                Ok(TypeName { text, kind: TypeKind::Map(key.into(), value.into()) })
            }
            "tuple" if generic => {
                self.advance()?;
                let elements = self.nested_type(|parser| parser.list(Self::type_name))?;
                self.expect(TokenKind::Greater, "'>'")?;
                let texts: Vec<&str> = elements.iter().map(|element| element.text.as_str()).collect();
                Ok(TypeName { text: format!("tuple<{}>", texts.join(", ")), kind: TypeKind::Tuple(elements) })
            }
            "vector" if generic => {
                self.advance()?;
                let element = self.nested_type(Self::type_name)?;
                self.expect(TokenKind::Comma, "','")?;
                if self.token.kind != TokenKind::Integer {
                    return Err(self.mismatched("INTEGER"));
                }
                let dimension = self.advance()?.text.to_owned();
                self.expect(TokenKind::Greater, "'>'")?;
                let text = format!("vector<{element}, {dimension}>");
                Ok(TypeName { text, kind: TypeKind::Vector(element.into(), dimension) })
            }
            "frozen" if generic => self.frozen(),
            _ => match native(&name) {
                Some(cql_type) => {
                    self.end_native_type(first)?;
                    Ok(TypeName { kind: TypeKind::Native(cql_type), text: name })
                }
                None => {
                    if ["list", "map", "tuple", "vector", "frozen"].contains(&name.as_str()) {
                        self.end_native_type(first)?;
                    }
                    self.user_type(name)
                }
            },
        }
    }

    fn frozen(&mut self) -> Result<TypeName> {
        self.advance()?;
        let inner = self.nested_type(Self::type_name)?;
        self.expect(TokenKind::Greater, "'>'")?;
        match inner.kind {
            TypeKind::Native(_) | TypeKind::Custom => Err(syntax(format!(
                "frozen<> is only allowed on collections, tuples, and user-defined types (got {inner})"
            ))),
            _ => Ok(TypeName { text: format!("frozen<{inner}>"), kind: TypeKind::Frozen(inner.into()) }),
        }
    }

    /// Parses `<type, type>`, exactly `N` types.
    fn parameters<const N: usize>(&mut self) -> Result<[TypeName; N]> {
        self.expect(TokenKind::Less, "'<'")?;
        let mut types = Vec::with_capacity(N);
        while types.len() < N {
            if !types.is_empty() {
                self.expect(TokenKind::Comma, "','")?;
            }
            types.push(self.nested_type(Self::type_name)?);
        }
        self.expect(TokenKind::Greater, "'>'")?;
        types.try_into().map_err(|_| self.no_viable())
    }

    fn user_type(&mut self, first: String) -> Result<TypeName> {
        if self.accept(TokenKind::Dot)? {
            let name = self.name()?;
            let text = format!("{first}.{name}");
            return Ok(TypeName { kind: TypeKind::User { keyspace: Some(first), name }, text });
        }
        Ok(TypeName { text: first.clone(), kind: TypeKind::User { keyspace: None, name: first } })
    }
}
