//! Which partitions a SELECT visits, and reading a page of their rows.

use crate::coordinator::read::{Page, PageLimits, ReadPlan, finish_page, read_page_now};
use crate::coordinator::scan::scan;
use crate::execute::paging::invalid_state;
use crate::execute::values::binding::Values;
use crate::execute::values::keys::Keys;
use crate::shard_state::Shard;
use cql::plan::{PartitionRestriction, Select, Term, TokenBound, Value};
use model::key::{Token, TokenRange};
use model::query::Resume;
use model::{CqlType, DecoratedKey, Failure};
use smallvec::SmallVec;

/// The partitions that a SELECT names, mostly one.
pub(crate) type NamedKeys = SmallVec<[DecoratedKey; 1]>;

/// Which partitions a SELECT visits.
#[derive(Clone)]
pub(crate) enum Target {
    Keys(NamedKeys),
    Range(TokenRange),
    Nothing,
}

/// Reads a page of the rows of `target`, starting after `resume`.
pub(crate) async fn page_of(
    shard: &Shard,
    plan: &ReadPlan,
    target: Target,
    resume: Option<Resume>,
    limits: PageLimits,
) -> Result<Page, Failure> {
    match target {
        Target::Nothing => Ok(Page::default()),
        Target::Range(range) => {
            if resume.as_ref().is_some_and(|resume| !range.contains(resume.position.key.token)) {
                return Err(invalid_state());
            }
            Box::pin(scan(shard, plan, range, resume, limits)).await
        }
        Target::Keys(mut keys) => {
            if let Some(resume) = &resume {
                let at = keys.iter().position(|key| *key == resume.position.key).ok_or_else(invalid_state)?;
                keys.drain(..at);
            }
            let mut page = Page::default();
            let unfinished = read_page_now(shard, plan, &keys, resume, limits, &mut page)?;
            if let Some(unfinished) = unfinished {
                page = Box::pin(finish_page(shard, plan, &keys, unfinished)).await?;
            }
            // A page that ends with the last row that the last partition may return is known to be the last page.
            let is_over = |resume: &Resume| {
                let all = plan.table.clustering_len == 0
                    || resume.position.comparable.is_none()
                    || resume.partition_rows >= plan.per_partition_max;
                all && keys.last() == Some(&resume.position.key)
            };
            page.stopped_at = page.stopped_at.filter(|resume| !is_over(resume));
            Ok(page)
        }
    }
}

/// Evaluates which partitions a SELECT visits.
pub(super) fn target_of(shard: &Shard, select: &Select, values: &Values<'_>) -> Result<Target, Failure> {
    match &select.partitions {
        PartitionRestriction::Keys(choices) => {
            let keys = Keys::unchecked(shard, &select.table, choices, values)?;
            let mut keys: NamedKeys = keys.iter().map(DecoratedKey::new).collect();
            if let Some(bounds) = &select.key_tokens {
                let (lower, upper) = token_bounds(shard, bounds.lower.as_ref(), bounds.upper.as_ref(), values)?;
                keys.retain(|key| lies_between(key.token, lower, upper));
            }
            Ok(if keys.is_empty() { Target::Nothing } else { Target::Keys(keys) })
        }
        PartitionRestriction::Scan => Ok(Target::Range(TokenRange::FULL)),
        PartitionRestriction::Tokens { lower, upper } => {
            let (lower, upper) = token_bounds(shard, lower.as_ref(), upper.as_ref(), values)?;
            Ok(range_of(lower, upper).map_or(Target::Nothing, Target::Range))
        }
    }
}

/// A token as a bound, with whether it is inclusive.
type BoundToken = Option<(Token, bool)>;

fn token_bounds(
    shard: &Shard,
    lower: Option<&TokenBound>,
    upper: Option<&TokenBound>,
    values: &Values<'_>,
) -> Result<(BoundToken, BoundToken), Failure> {
    let token = |limit: Option<&TokenBound>| match limit {
        None => Ok(None),
        Some(limit) => Ok::<_, Failure>(Some((token_of(shard, &limit.term, values)?, limit.inclusive))),
    };
    Ok((token(lower)?, token(upper)?))
}

/// Whether the token of a named key lies between bounds. As in Cassandra, bounds in the wrong order mean the tokens
/// outside of them.
fn lies_between(token: Token, lower: BoundToken, upper: BoundToken) -> bool {
    let above = lower.is_none_or(|(low, inclusive)| token > low || inclusive && token == low);
    let below = upper.is_none_or(|(high, inclusive)| token < high || inclusive && token == high);
    match (lower, upper) {
        (Some((low, _)), Some((high, _))) if low > high => above || below,
        _ => above && below,
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

/// The range between two bounds, each with whether it is inclusive; `None` if the range is empty. The smallest token as
/// a bound means the start or the end of the ring.
fn range_of(lower: BoundToken, upper: BoundToken) -> Option<TokenRange> {
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
    // Above the last token, or between two adjacent tokens.
    let empty = after == Token::MAX || until != Token::MIN && after >= until;
    (!empty).then_some(TokenRange { after, until })
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
