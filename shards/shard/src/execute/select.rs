//! SELECT: bound values to a read plan, a page of rows to an answer.

use super::binding::{Keys, Values};
use super::paging::{PagingState, invalid_state};
use super::prepared::Statement;
use super::slices::{Bounds, NullBound};
use super::timeout_of;
use crate::coordinator::read::{PAGE_BYTES_MAX, Page, PageLimits, ReadPlan, read_key, read_keys};
use crate::coordinator::read_terms;
use crate::coordinator::scan::{Aggregated, aggregate, scan};
use crate::row_block::{RowBlock, counted_nothing};
use crate::{Parameters, Rows, Shard};
use cql::plan::{Choice, Limit, PartitionRestriction, Select, Selector, Term, Value};
use model::key::{Token, TokenRange};
use model::query::{Position, Slice};
use model::{CqlType, DecoratedKey, Failure};
use std::sync::Arc;

/// Which partitions a SELECT visits.
enum Target {
    Keys(Vec<DecoratedKey>),
    Range(TokenRange),
    Nothing,
}

/// Runs a SELECT.
pub(crate) async fn select(
    shard: &Shard,
    statement: &Statement,
    select: &Select,
    values: &Values<'_>,
    parameters: &Parameters<'_>,
) -> Result<Rows, Failure> {
    if !select.filter.is_empty()
        || select.distinct
        || select.per_partition_limit.is_some()
        || select.key_tokens.is_some()
    {
        return Err(Failure::invalid("Helenus does not support this SELECT yet"));
    }
    let config = shard.config();
    let timeout = match select.partitions {
        PartitionRestriction::Keys(_) => config.read_timeout,
        PartitionRestriction::Tokens { .. } | PartitionRestriction::Scan => config.range_timeout,
    };
    let timeout = timeout_of(shard, &statement.prepared, values, timeout)?;
    let (local, terms) = read_terms(shard, &select.table, parameters.consistency, timeout)?;
    let limit = limit_of(shard, select, values)?;
    let target = target_of(shard, select, values)?;
    let slices = slices_of(shard, statement, select, values)?;
    let plan = ReadPlan {
        table: select.table.clone(),
        local,
        selection: selection_of(shard, statement, values)?,
        slices,
        reversed: select.reversed,
        now_in_seconds: runtime::wall_micros().div_euclid(1_000_000),
        terms,
    };
    let target = if plan.slices.is_empty() { Target::Nothing } else { target };
    if select.aggregate {
        let block = aggregated(shard, &plan, &target).await?;
        return Ok(rows(statement, block, None));
    }

    let (resume, remaining) = match parameters.paging_state {
        None => (None, limit),
        Some(bytes) => {
            let state = PagingState::decode(bytes, statement.fingerprint)?;
            (Some(state.position), state.remaining.min(limit))
        }
    };
    let page_rows = parameters.page_size.and_then(|rows| u64::try_from(rows).ok()).filter(|&rows| rows > 0);
    let several = matches!(&select.partitions, PartitionRestriction::Keys(keys) if !keys.iter().all(is_one));
    if !select.order.is_empty() && several {
        if page_rows.is_some_and(|rows| rows < limit) {
            return Err(Failure::invalid(
                "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either \
                 remove the ORDER BY or the IN and sort client side, or disable paging for this query",
            ));
        }
        let block = match &target {
            Target::Keys(keys) => sorted(shard, &plan, keys, limit).await?,
            _ => RowBlock::default(),
        };
        return Ok(rows(statement, block, None));
    }

    let limits = PageLimits {
        rows_max: page_rows.unwrap_or(u64::MAX).min(remaining),
        bytes_max: page_rows.map(|_| PAGE_BYTES_MAX),
    };
    let page = page_of(shard, &plan, target, resume, limits).await?;
    let remaining = if limit == u64::MAX { u64::MAX } else { remaining - u64::from(page.block.rows) };
    // LIMIT spans pages: with its last row there is no next one.
    let stopped_at = page.stopped_at.filter(|_| page_rows.is_some() && remaining > 0);
    let state =
        stopped_at.map(|position| PagingState { fingerprint: statement.fingerprint, remaining, position }.encode());
    Ok(rows(statement, page.block, state))
}

fn rows(statement: &Statement, block: RowBlock, paging_state: Option<Vec<u8>>) -> Rows {
    let columns = statement.prepared.result.clone().unwrap_or_else(|| Arc::from([]));
    Rows { columns, result_metadata_id: Some(statement.result_metadata_id), block, paging_state }
}

fn is_one(choice: &Choice) -> bool {
    matches!(choice, Choice::One(_))
}

async fn page_of(
    shard: &Shard,
    plan: &ReadPlan,
    target: Target,
    resume: Option<Position>,
    limits: PageLimits,
) -> Result<Page, Failure> {
    match target {
        Target::Nothing => Ok(Page { block: RowBlock::default(), stopped_at: None }),
        Target::Range(range) => {
            if resume.as_ref().is_some_and(|position| !range.contains(position.key.token)) {
                return Err(invalid_state());
            }
            scan(shard, plan, range, resume, limits).await
        }
        Target::Keys(mut keys) => {
            if let Some(position) = &resume {
                let at = keys.iter().position(|key| *key == position.key).ok_or_else(invalid_state)?;
                keys.drain(..at);
            }
            read_keys(shard, plan, &keys, resume, limits).await
        }
    }
}

async fn aggregated(shard: &Shard, plan: &ReadPlan, target: &Target) -> Result<RowBlock, Failure> {
    let block = match target {
        Target::Nothing => RowBlock::default(),
        Target::Keys(keys) => aggregate(shard, plan, Aggregated::Keys(keys)).await?,
        Target::Range(range) => aggregate(shard, plan, Aggregated::Range(*range)).await?,
    };
    Ok(if block.rows == 0 { counted_nothing(&plan.selection) } else { block })
}

/// All rows of several partitions in clustering order.
async fn sorted(shard: &Shard, plan: &ReadPlan, keys: &[DecoratedKey], limit: u64) -> Result<RowBlock, Failure> {
    let mut gathered: Vec<(Box<[u8]>, Vec<u8>)> = Vec::new();
    let mut bytes = 0;
    for key in keys {
        let mut resume = None;
        loop {
            let limits = PageLimits { rows_max: limit, bytes_max: Some(PAGE_BYTES_MAX) };
            let reply = read_key(shard, plan, key.clone(), resume, limits, true).await?;
            let mut start = 0;
            for (n, (_, end)) in reply.block.ends.iter().enumerate() {
                let row = &reply.block.bytes[start..*end as usize];
                start = *end as usize;
                bytes += row.len();
                gathered.push((reply.places.comparable(n).into(), row.to_vec()));
            }
            if bytes > crate::coordinator::read::RESULT_BYTES_MAX {
                return Err(crate::coordinator::read::result_too_large());
            }
            if reply.last.is_none() || u64::from(reply.block.rows) >= limit {
                break;
            }
            resume = reply.last;
        }
    }
    gathered.sort_by(|a, b| if plan.reversed { b.0.cmp(&a.0) } else { a.0.cmp(&b.0) });
    let mut out = RowBlock::default();
    for (_, row) in gathered.into_iter().take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        out.push_row(&row);
    }
    Ok(out)
}

/// LIMIT; [`u64::MAX`] without one.
fn limit_of(shard: &Shard, select: &Select, values: &Values<'_>) -> Result<u64, Failure> {
    let Some(term) = &select.limit else { return Ok(u64::MAX) };
    match values.evaluate(shard, term, &CqlType::Int)? {
        Value::Unset => Ok(u64::MAX),
        Value::Null => Err(Failure::invalid("Invalid null value of limit")),
        Value::Bytes(bytes) => {
            let limit = <[u8; 4]>::try_from(&*bytes).map(i32::from_be_bytes);
            match limit.ok().and_then(|limit| u64::try_from(limit).ok()) {
                Some(limit) if limit > 0 => Ok(limit),
                _ => Err(Failure::invalid("LIMIT must be strictly positive")),
            }
        }
    }
}

fn target_of(shard: &Shard, select: &Select, values: &Values<'_>) -> Result<Target, Failure> {
    match &select.partitions {
        PartitionRestriction::Keys(choices) => {
            let keys = Keys::of(shard, &select.table, choices, values)?;
            let keys: Vec<DecoratedKey> = keys.iter().map(DecoratedKey::new).collect();
            Ok(if keys.is_empty() { Target::Nothing } else { Target::Keys(keys) })
        }
        PartitionRestriction::Scan => Ok(Target::Range(TokenRange::FULL)),
        PartitionRestriction::Tokens { lower, upper } => {
            let token = |limit: &Option<Limit>| match limit {
                None => Ok(None),
                Some(limit) => {
                    let token = token_of(shard, &limit.term, values)?;
                    Ok::<_, Failure>(Some((token, limit.inclusive)))
                }
            };
            Ok(range_of(token(lower)?, token(upper)?).map_or(Target::Nothing, Target::Range))
        }
    }
}

fn token_of(shard: &Shard, term: &Term, values: &Values<'_>) -> Result<Token, Failure> {
    match values.evaluate(shard, term, &CqlType::Bigint)? {
        Value::Bytes(bytes) => match <[u8; 8]>::try_from(&*bytes) {
            Ok(token) => Ok(Token(i64::from_be_bytes(token))),
            Err(_) => Err(Failure::invalid("Invalid null token value")),
        },
        Value::Null => Err(Failure::invalid("Invalid null token value")),
        Value::Unset => Err(Failure::invalid("Invalid unset value for a token")),
    }
}

/// The range between two bounds (with whether they are inclusive); `None` if it is empty. The smallest token as a bound
/// means the start or the end of the ring.
fn range_of(lower: Option<(Token, bool)>, upper: Option<(Token, bool)>) -> Option<TokenRange> {
    let lower = lower.filter(|(token, _)| *token != Token::MIN);
    let upper = upper.filter(|(token, _)| *token != Token::MIN);
    if let (Some((low, low_inclusive)), Some((high, high_inclusive))) = (lower, upper)
        && (low > high || low == high && !(low_inclusive && high_inclusive))
    {
        return None;
    }
    let after = match lower {
        None => Token::MIN,
        Some((token, inclusive)) => Token(token.0 - i64::from(inclusive)),
    };
    let until = match upper {
        None => Token::MIN,
        Some((token, inclusive)) => match Token(token.0 - i64::from(!inclusive)) {
            // Below the first token.
            Token::MIN => return None,
            token => token,
        },
    };
    // Above the last token, or between two neighbours.
    let empty = after == Token::MAX || until != Token::MIN && after >= until;
    (!empty).then_some(TokenRange { after, until })
}

fn slices_of(
    shard: &Shard,
    statement: &Statement,
    select: &Select,
    values: &Values<'_>,
) -> Result<Arc<[Slice]>, Failure> {
    let restriction = &select.clustering;
    if restriction.is_empty() {
        return Ok(statement.all_rows.clone());
    }
    match Bounds::of(shard, &select.table, restriction, values, NullBound::SortsFirst)? {
        Some(bounds) => Ok(bounds.slices(&select.table).into()),
        None => Ok(Arc::from([])),
    }
}

/// The selection without bind markers: other cores do not get the values.
fn selection_of(shard: &Shard, statement: &Statement, values: &Values<'_>) -> Result<Arc<[Selector]>, Failure> {
    if !statement.selection.iter().any(|selector| matches!(selector, Selector::Term(Term::Marker(_), _))) {
        return Ok(statement.selection.clone());
    }
    let resolve = |selector: &Selector| match selector {
        Selector::Term(term @ Term::Marker(_), cql_type) => {
            let term = match values.evaluate(shard, term, cql_type)? {
                Value::Bytes(bytes) => Term::Constant(bytes.as_ref().into()),
                Value::Null | Value::Unset => Term::Null,
            };
            Ok(Selector::Term(term, cql_type.clone()))
        }
        other => Ok(other.clone()),
    };
    statement.selection.iter().map(resolve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_bounds_make_ranges_that_do_not_wrap() {
        let (open, closed) = (|t| Some((Token(t), false)), |t| Some((Token(t), true)));
        let range = |after, until| Some(TokenRange { after: Token(after), until: Token(until) });
        let min = i64::MIN;
        assert_eq!(range_of(None, None), Some(TokenRange::FULL));
        assert_eq!(range_of(open(5), closed(9)), range(5, 9));
        assert_eq!(range_of(closed(5), open(9)), range(4, 8));
        assert_eq!(range_of(closed(5), closed(5)), range(4, 5));
        assert_eq!(range_of(open(5), closed(5)), None);
        assert_eq!(range_of(open(5), open(6)), None);
        assert_eq!(range_of(open(9), closed(5)), None);
        assert_eq!(range_of(open(9), None), range(9, min));
        assert_eq!(range_of(open(9), closed(min)), range(9, min));
        assert_eq!(range_of(open(min), closed(min)), Some(TokenRange::FULL));
        assert_eq!(range_of(None, open(min + 1)), None);
        assert_eq!(range_of(open(i64::MAX), None), None);
        assert_eq!(range_of(closed(i64::MAX), None), range(i64::MAX - 1, min));
    }
}
