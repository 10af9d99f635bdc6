//! SELECT, INSERT, UPDATE, DELETE and BATCH.

use crate::RELATIONS_MAX;
use crate::ast::{
    Assignment, Batch, Body, DeletePart, Modify, ModifyBody, Operator, OtherRelation, Relation, Select, SelectItem,
    Selector, Term, Using,
};
use crate::lexer::{Kind, syntax};
use crate::parser::{Parser, unsupported};
use crate::plan::BatchKind;
use model::Failure;

type Result<T> = std::result::Result<T, Failure>;

/// Lightweight transactions, as errors name them.
const CONDITIONS: &str = "lightweight transactions (IF)";

impl Parser<'_> {
    pub(crate) fn select(&mut self) -> Result<Body> {
        self.expect_word("select")?;
        for (word, feature) in [("json", "SELECT JSON"), ("distinct", "SELECT DISTINCT")] {
            // Both words are also names: `SELECT json FROM t`.
            if self.token.is(word)
                && !matches!(self.peek()?, next if next.is("from") || next.is("as")
                    || matches!(next.kind, Kind::Comma | Kind::Dot | Kind::ParenOpen | Kind::BracketOpen | Kind::End))
            {
                return Err(unsupported(feature));
            }
        }
        let items = match self.accept(Kind::Star)? {
            true => None,
            false => Some(self.list(Self::select_item)?),
        };
        self.expect_word("from")?;
        let table = self.table_name()?;
        let relations = if self.accept_word("where")? { self.relations()? } else { Vec::new() };
        if self.accept_word("group")? {
            self.expect_word("by")?;
            self.name()?;
            return Err(unsupported("GROUP BY"));
        }
        let mut order = Vec::new();
        if self.accept_word("order")? {
            self.expect_word("by")?;
            order = self.list(Self::ordering)?;
        }
        if self.token.is("per") {
            self.advance()?;
            self.expect_word("partition")?;
            self.expect_word("limit")?;
            self.integer_or_marker()?;
            return Err(unsupported("PER PARTITION LIMIT"));
        }
        let limit = if self.accept_word("limit")? { Some(self.integer_or_marker()?) } else { None };
        let allow_filtering = self.accept_word("allow")?;
        if allow_filtering {
            self.expect_word("filtering")?;
        }
        let timeout = self.using_timeout()?;
        Ok(Body::Select(Select { items, table, relations, order, limit, allow_filtering, timeout }))
    }

    /// `USING TIMEOUT 5s`, where nothing else may be given.
    pub(crate) fn using_timeout(&mut self) -> Result<Option<Term>> {
        if !self.accept_word("using")? {
            return Ok(None);
        }
        self.expect_word("timeout")?;
        Ok(Some(self.duration_or_marker()?))
    }

    fn ordering(&mut self) -> Result<(String, bool)> {
        let name = self.name()?;
        if self.accept_word("ann")? {
            self.expect_word("of")?;
            return Err(unsupported("ORDER BY ... ANN OF"));
        }
        let descending = self.accept_word("desc")?;
        if !descending {
            self.accept_word("asc")?;
        }
        Ok((name, descending))
    }

    fn select_item(&mut self) -> Result<SelectItem> {
        let selector = self.selector()?;
        self.refuse_arithmetic()?;
        let alias = if self.accept_word("as")? { Some(self.name()?) } else { None };
        Ok(SelectItem { selector, alias })
    }

    fn selector(&mut self) -> Result<Selector> {
        match self.token.kind {
            Kind::ParenOpen if self.at_type_hint()? => {
                let type_name = self.type_hint()?;
                let term = match self.nested(Self::selector)? {
                    Selector::Term(term) => Some(term),
                    function => as_term(function),
                };
                match term {
                    Some(term) => Ok(Selector::Term(Term::Cast(type_name, Box::new(term)))),
                    None => Err(unsupported("type hints on columns")),
                }
            }
            Kind::ParenOpen | Kind::BracketOpen | Kind::BraceOpen => {
                self.advance()?;
                Err(unsupported("tuples and collections in a selection"))
            }
            Kind::Minus => match self.constant()? {
                Some((family, text)) => Ok(Selector::Term(Term::Constant(family, text))),
                None => Err(unsupported("arithmetic operations")),
            },
            Kind::QuotedName => self.named_selector(),
            Kind::Word => {
                let called = self.peek()?.kind == Kind::ParenOpen;
                if called && self.token.is("count") {
                    self.count()
                } else if called && self.token.is("writetime") {
                    self.advance()?;
                    self.advance()?;
                    let name = self.name()?;
                    self.refuse_parts()?;
                    self.expect(Kind::ParenClose, "')'")?;
                    Ok(Selector::WriteTime(name))
                } else if called && self.token.is("ttl") {
                    Err(unsupported("ttl()"))
                } else if called && self.token.is("maxwritetime") {
                    Err(unsupported("maxwritetime()"))
                } else if called && self.token.is("cast") {
                    Err(unsupported("CAST"))
                } else if self.token.is("null") || self.is_word_constant() {
                    Ok(Selector::Term(self.simple_term()?))
                } else {
                    self.named_selector()
                }
            }
            _ => Ok(Selector::Term(self.simple_term()?)),
        }
    }

    fn is_word_constant(&self) -> bool {
        ["true", "false", "nan", "infinity"].iter().any(|word| self.token.is(word))
    }

    /// `count(*)`, `count(1)` or `count(c)`.
    fn count(&mut self) -> Result<Selector> {
        self.advance()?;
        self.advance()?;
        if self.accept(Kind::Star)? || self.constant()?.is_some() {
            self.expect(Kind::ParenClose, "')'")?;
            return Ok(Selector::CountRows);
        }
        self.arguments(None, "count".to_owned())
    }

    /// A column or a function.
    fn named_selector(&mut self) -> Result<Selector> {
        if self.token.is("token") {
            self.advance()?;
            self.expect(Kind::ParenOpen, "'('")?;
            return self.arguments(None, "token".to_owned());
        }
        let name = self.name()?;
        match self.token.kind {
            Kind::ParenOpen => {
                self.advance()?;
                self.arguments(None, name)
            }
            Kind::Dot => {
                self.advance()?;
                let field = if self.accept_word("token")? { "token".to_owned() } else { self.name()? };
                if !self.accept(Kind::ParenOpen)? {
                    return Err(unsupported("field selection"));
                }
                self.arguments(Some(name), field)
            }
            _ => {
                self.refuse_parts()?;
                Ok(Selector::Column(name))
            }
        }
    }

    fn refuse_parts(&self) -> Result<()> {
        match self.token.kind {
            Kind::BracketOpen => Err(unsupported("element selection")),
            Kind::Dot => Err(unsupported("field selection")),
            _ => Ok(()),
        }
    }

    /// Arguments up to the closing parenthesis; the opening one is passed.
    fn arguments(&mut self, keyspace: Option<String>, name: String) -> Result<Selector> {
        let arguments = match self.token.kind {
            Kind::ParenClose => Vec::new(),
            Kind::Star => return Err(self.mismatched("')'")),
            _ => self.nested(|parser| {
                parser.list(|parser| {
                    let argument = parser.selector()?;
                    parser.refuse_arithmetic()?;
                    Ok(argument)
                })
            })?,
        };
        self.expect(Kind::ParenClose, "')'")?;
        Ok(Selector::Function { keyspace, name, arguments })
    }

    // WHERE.

    fn relations(&mut self) -> Result<Vec<Relation>> {
        let mut relations = vec![self.relation()?];
        while self.accept_word("and")? {
            if relations.len() == RELATIONS_MAX {
                return Err(Failure::invalid(format!("A WHERE clause takes at most {RELATIONS_MAX} relations")));
            }
            relations.push(self.relation()?);
        }
        Ok(relations)
    }

    fn relation(&mut self) -> Result<Relation> {
        if self.token.is("token") {
            self.advance()?;
            self.expect(Kind::ParenOpen, "'('")?;
            let names = self.list(Self::name)?;
            self.expect(Kind::ParenClose, "')'")?;
            let operator = self.operator()?;
            return Ok(Relation::Token(names, operator, self.term()?));
        }
        if self.token.kind == Kind::ParenOpen {
            return self.parenthesised_relation();
        }
        let name = self.name()?;
        if self.accept_word("in")? {
            return self.in_relation(name);
        }
        if self.accept_word("is")? {
            self.expect_word("not")?;
            self.expect_word("null")?;
            return Ok(Relation::Other(name, OtherRelation::IsNotNull));
        }
        if self.accept_word("like")? {
            let term = self.term()?;
            return Ok(Relation::Other(name, OtherRelation::Like(term)));
        }
        if self.accept_word("contains")? {
            let other = if self.accept_word("key")? { OtherRelation::ContainsKey } else { OtherRelation::Contains };
            self.term()?;
            return Ok(Relation::Other(name, other));
        }
        if self.accept(Kind::BracketOpen)? {
            self.term()?;
            self.expect(Kind::BracketClose, "']'")?;
            self.operator()?;
            self.term()?;
            return Ok(Relation::Other(name, OtherRelation::Element));
        }
        let operator = self.operator()?;
        Ok(Relation::Compare(name, operator, self.term()?))
    }

    fn in_relation(&mut self, name: String) -> Result<Relation> {
        if let Some(marker) = self.marker()? {
            return Ok(Relation::InMarker(name, marker));
        }
        if !self.accept(Kind::ParenOpen)? {
            return Err(self.no_viable());
        }
        let terms = match self.token.kind {
            Kind::ParenClose => Vec::new(),
            _ => self.list(Self::term)?,
        };
        self.expect(Kind::ParenClose, "')'")?;
        Ok(Relation::In(name, terms))
    }

    /// `(a, b) > (1, 2)` or a relation in parentheses.
    fn parenthesised_relation(&mut self) -> Result<Relation> {
        self.advance()?;
        if self.at_name() && matches!(self.peek()?.kind, Kind::Comma | Kind::ParenClose) {
            self.list(Self::name)?;
            self.expect(Kind::ParenClose, "')'")?;
            if !self.accept_word("in")? {
                self.operator()?;
            }
            return Err(unsupported("multi-column relations"));
        }
        let relation = self.nested(Self::relation)?;
        self.expect(Kind::ParenClose, "')'")?;
        Ok(relation)
    }

    fn operator(&mut self) -> Result<Operator> {
        let operator = match self.token.kind {
            Kind::Equal => Operator::Equal,
            Kind::Less => Operator::Less,
            Kind::LessEqual => Operator::LessEqual,
            Kind::Greater => Operator::Greater,
            Kind::GreaterEqual => Operator::GreaterEqual,
            Kind::NotEqual => Operator::NotEqual,
            _ => return Err(self.no_viable()),
        };
        self.advance()?;
        Ok(operator)
    }

    // Modifications.

    pub(crate) fn modify(&mut self) -> Result<Modify> {
        if self.token.is("insert") {
            self.insert()
        } else if self.token.is("update") {
            self.update()
        } else {
            self.delete()
        }
    }

    fn insert(&mut self) -> Result<Modify> {
        self.expect_word("insert")?;
        self.expect_word("into")?;
        let table = self.table_name()?;
        if self.token.is("json") {
            return Err(unsupported("INSERT JSON"));
        }
        if !self.accept(Kind::ParenOpen)? {
            return Err(self.no_viable());
        }
        let columns = self.list(Self::name)?;
        self.expect(Kind::ParenClose, "')'")?;
        self.expect_word("values")?;
        self.expect(Kind::ParenOpen, "'('")?;
        let values = self.list(Self::term)?;
        self.expect(Kind::ParenClose, "')'")?;
        if self.if_not_exists()? {
            return Err(unsupported(CONDITIONS));
        }
        let using = self.using()?;
        Ok(Modify { kind: ModifyBody::Insert { columns, values }, table, using })
    }

    fn update(&mut self) -> Result<Modify> {
        self.expect_word("update")?;
        let table = self.table_name()?;
        let using = self.using()?;
        if !self.accept_word("set")? {
            return Err(self.no_viable());
        }
        let assignments = self.list(Self::assignment)?;
        self.expect_word("where")?;
        let relations = self.relations()?;
        self.refuse_conditions()?;
        Ok(Modify { kind: ModifyBody::Update { assignments, relations }, table, using })
    }

    fn assignment(&mut self) -> Result<(String, Assignment)> {
        let name = self.name()?;
        let other = |operation: String, wrong_kind| Assignment::Other { operation, wrong_kind };
        let assignment = match self.token.kind {
            Kind::Equal => {
                self.advance()?;
                if self.at_name() && self.at_sum()? {
                    let left = self.name()?;
                    if left != name {
                        return Err(syntax("Only expressions of the form X = X +<value> are supported.".to_owned()));
                    }
                    // A number takes its sign along: `v -1` is `v + -1`.
                    let sign = if self.accept(Kind::Minus)? { '-' } else { '+' };
                    self.accept(Kind::Plus)?;
                    let amount = self.simple_term()?;
                    other(format!("{name} = {name} {sign} {amount}"), "non counter")
                } else {
                    let term = self.simple_term()?;
                    if self.token.kind == Kind::Plus && self.at_name_after()? {
                        self.advance()?;
                        self.name()?;
                        // Cassandra shows the sum as a difference.
                        other(format!("{name} = {term} - {name}"), "non list")
                    } else {
                        self.refuse_arithmetic()?;
                        Assignment::Value(term)
                    }
                }
            }
            Kind::PlusEqual | Kind::MinusEqual => {
                let sign = if self.advance()?.kind == Kind::PlusEqual { '+' } else { '-' };
                let term = self.term()?;
                other(format!("{name} = {name} {sign} {term}"), "non counter")
            }
            Kind::BracketOpen => {
                self.advance()?;
                let element = self.term()?;
                self.expect(Kind::BracketClose, "']'")?;
                self.expect(Kind::Equal, "'='")?;
                let term = self.term()?;
                other(format!("{name}[{element}] = {term}"), "non collection")
            }
            Kind::Dot => {
                self.advance()?;
                let field = self.name()?;
                self.expect(Kind::Equal, "'='")?;
                let term = self.term()?;
                other(format!("{name}.{field} = {term}"), "non-UDT")
            }
            _ => return Err(self.no_viable()),
        };
        Ok((name, assignment))
    }

    /// Whether a sign follows the current name.
    fn at_sum(&self) -> Result<bool> {
        let next = self.peek()?;
        Ok(matches!(next.kind, Kind::Plus | Kind::Minus)
            || (matches!(next.kind, Kind::Integer | Kind::Float | Kind::Duration) && next.text.starts_with('-')))
    }

    /// Whether a name, not a call, follows the current token.
    fn at_name_after(&self) -> Result<bool> {
        let mut lexer = self.lexer;
        let next = lexer.next()?;
        let named = match next.kind {
            Kind::Word => !crate::parser::is_reserved(next.text),
            Kind::QuotedName => true,
            _ => false,
        };
        Ok(named && lexer.next()?.kind != Kind::ParenOpen)
    }

    fn delete(&mut self) -> Result<Modify> {
        self.expect_word("delete")?;
        let columns = if self.token.is("from") || self.token.kind == Kind::Star {
            Vec::new()
        } else {
            self.list(|parser| {
                let name = parser.name()?;
                let part = match parser.token.kind {
                    Kind::BracketOpen => {
                        parser.advance()?;
                        parser.term()?;
                        parser.expect(Kind::BracketClose, "']'")?;
                        DeletePart::Element
                    }
                    Kind::Dot => {
                        parser.advance()?;
                        parser.name()?;
                        DeletePart::Field
                    }
                    _ => DeletePart::Whole,
                };
                Ok((name, part))
            })?
        };
        self.expect_word("from")?;
        let table = self.table_name()?;
        let mut using = Using::default();
        if self.accept_word("using")? {
            loop {
                if self.accept_word("timestamp")? {
                    using.timestamp = Some(self.integer_or_marker()?);
                } else if self.accept_word("timeout")? {
                    using.timeout = Some(self.duration_or_marker()?);
                } else {
                    return Err(self.mismatched("K_TIMESTAMP"));
                }
                if !self.accept_word("and")? {
                    break;
                }
            }
        }
        self.expect_word("where")?;
        let relations = self.relations()?;
        self.refuse_conditions()?;
        Ok(Modify { kind: ModifyBody::Delete { columns, relations }, table, using })
    }

    fn refuse_conditions(&mut self) -> Result<()> {
        if !self.accept_word("if")? {
            return Ok(());
        }
        if self.accept_word("exists")? || self.name().is_ok() {
            return Err(unsupported(CONDITIONS));
        }
        Err(self.no_viable())
    }

    /// `USING TIMESTAMP x AND TTL y AND TIMEOUT z`, in any order; of what is given twice the last counts, as in
    /// Cassandra.
    fn using(&mut self) -> Result<Using> {
        let mut using = Using::default();
        if !self.accept_word("using")? {
            return Ok(using);
        }
        loop {
            if self.accept_word("timestamp")? {
                using.timestamp = Some(self.integer_or_marker()?);
            } else if self.accept_word("ttl")? {
                using.ttl = Some(self.integer_or_marker()?);
            } else if self.accept_word("timeout")? {
                using.timeout = Some(self.duration_or_marker()?);
            } else {
                return Err(self.no_viable());
            }
            if !self.accept_word("and")? {
                return Ok(using);
            }
        }
    }

    pub(crate) fn batch(&mut self) -> Result<Body> {
        self.expect_word("begin")?;
        let kind = if self.accept_word("unlogged")? {
            BatchKind::Unlogged
        } else if self.accept_word("counter")? {
            BatchKind::Counter
        } else {
            BatchKind::Logged
        };
        self.expect_word("batch")?;
        let using = self.using()?;
        let mut statements = Vec::new();
        while self.token.is("insert") || self.token.is("update") || self.token.is("delete") {
            statements.push(self.modify()?);
            self.accept(Kind::Semicolon)?;
        }
        self.expect_word("apply")?;
        self.expect_word("batch")?;
        Ok(Body::Batch(Batch { kind, using, statements }))
    }
}

/// A call without columns as a term.
fn as_term(selector: Selector) -> Option<Term> {
    match selector {
        Selector::Term(term) => Some(term),
        Selector::Function { keyspace, name, arguments } => {
            let arguments = arguments.into_iter().map(as_term).collect::<Option<Vec<_>>>()?;
            Some(Term::Function { keyspace, name, arguments })
        }
        Selector::Column(_) | Selector::WriteTime(_) | Selector::CountRows => None,
    }
}
