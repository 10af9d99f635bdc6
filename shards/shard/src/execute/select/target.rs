//! Which partitions a SELECT visits, and reading a page of their rows.

use crate::coordinator::read::{Page, PageLimits, ReadPlan, finish_page, read_page_now};
use crate::coordinator::scan::scan;
use crate::coordinator::sub_partitions::{self, SubPartitions};
use crate::execute::paging::invalid_state;
use crate::execute::values::binding::Values;
use crate::execute::values::keys::Keys;
use crate::shard_state::Shard;
use cluster::placement::TablePlacement;
use cql::plan::{PartitionRestriction, Select, Term, TokenBound, Value};
use model::query::Resume;
use model::token::{RingPosition, RingToken, TokenRange};
use model::{DecoratedKey, Failure};
use runtime::sync::boxed;
use smallvec::SmallVec;

/// The partitions that a SELECT names, mostly one.
pub(crate) type NamedKeys = SmallVec<[DecoratedKey; 1]>;

/// Which partitions a SELECT visits.
#[derive(Clone)]
pub(crate) enum Target {
    Keys(NamedKeys),
    /// The keys of a table with write sharding.
    Spread(SubPartitions),
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
            if resume.as_ref().is_some_and(|resume| !in_range(&range, &resume.position.key)) {
                return Err(invalid_state());
            }
            Box::pin(scan(shard, plan, range, resume, limits)).await
        }
        Target::Keys(keys) => page_of_keys(shard, plan, keys, resume, limits).await,
        Target::Spread(of) => Box::pin(page_of_spread(shard, plan, &of, resume, limits)).await,
    }
}

async fn page_of_keys(
    shard: &Shard,
    plan: &ReadPlan,
    mut keys: NamedKeys,
    resume: Option<Resume>,
    limits: PageLimits,
) -> Result<Page, Failure> {
    if let Some(resume) = &resume {
        let at = keys.iter().position(|key| *key == resume.position.key).ok_or_else(invalid_state)?;
        keys.drain(..at);
    }
    let mut page = Page::default();
    let unfinished = read_page_now(shard, plan, &keys, resume, limits, &mut page)?;
    if let Some(unfinished) = unfinished {
        page = boxed(|| finish_page(shard, plan, &keys, unfinished)).await?;
    }
    page.stopped_at = page.stopped_at.filter(|resume| !is_over(plan, keys.last(), resume));
    Ok(page)
}

/// A page that ends with the last row that the last partition may return is known to be the last page.
fn is_over(plan: &ReadPlan, last: Option<&DecoratedKey>, resume: &Resume) -> bool {
    let all = plan.table.clustering_len == 0
        || resume.position.comparable.is_none()
        || resume.partition_rows >= plan.per_partition_max;
    all && last == Some(&resume.position.key)
}

/// Reads a page of keys with sub-partitions; places are those of logical keys.
async fn page_of_spread(
    shard: &Shard,
    plan: &ReadPlan,
    of: &SubPartitions,
    resume: Option<Resume>,
    limits: PageLimits,
) -> Result<Page, Failure> {
    let table = &plan.table;
    if of.is_one_of_each() {
        // One partition for each key, as in other tables.
        let resume = match resume {
            None => None,
            Some(resume) => Some(of.within_only(table, &resume).ok_or_else(invalid_state)?),
        };
        let mut page = page_of_keys(shard, plan, of.stored(table).collect(), resume, limits).await?;
        page.stopped_at = page.stopped_at.map(|resume| sub_partitions::of_logical_key(table, resume));
        return Ok(page);
    }
    let mut page = sub_partitions::read_page(shard, plan, of, resume, limits).await?.ok_or_else(invalid_state)?;
    page.stopped_at = page.stopped_at.filter(|resume| !is_over(plan, of.keys.last(), resume));
    Ok(page)
}

fn in_range(range: &TokenRange, key: &DecoratedKey) -> bool {
    range.contains(key.token, &key.key)
}

/// Evaluates which partitions a SELECT visits.
pub(super) fn target_of(
    shard: &Shard,
    select: &Select,
    placement: &TablePlacement,
    values: &Values<'_>,
) -> Result<Target, Failure> {
    match &select.partitions {
        PartitionRestriction::Keys(choices) => {
            let keys = Keys::unchecked(shard, &select.table, choices, values)?;
            let partitioner = shard.partitioner();
            let mut keys: NamedKeys = keys.iter().map(|key| DecoratedKey::new(partitioner, key)).collect();
            if let Some(bounds) = &select.key_tokens {
                let (lower, upper) = token_bounds(shard, bounds.lower.as_ref(), bounds.upper.as_ref(), values)?;
                keys.retain(|key| lies_between(key, &lower, &upper));
            }
            Ok(match select.table.write_sharding() {
                _ if keys.is_empty() => Target::Nothing,
                None => Target::Keys(keys),
                // Which of them, the clustering may tell.
                Some(sharding) => Target::Spread(SubPartitions::all(placement, sharding, keys.into_vec())),
            })
        }
        PartitionRestriction::Scan => Ok(Target::Range(TokenRange::FULL)),
        PartitionRestriction::Tokens { lower, upper } => {
            let (lower, upper) = token_bounds(shard, lower.as_ref(), upper.as_ref(), values)?;
            Ok(range_of(lower, upper).map_or(Target::Nothing, Target::Range))
        }
    }
}

/// A token as a bound, with whether it is inclusive.
type BoundToken = Option<(RingToken, bool)>;

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

/// The keys between two bounds that are not in the wrong order.
fn between(lower: BoundToken, upper: BoundToken) -> TokenRange {
    TokenRange {
        start: lower.map(|(token, inclusive)| RingPosition { token, is_after: !inclusive }),
        end: upper.map(|(token, inclusive)| RingPosition { token, is_after: inclusive }),
    }
}

/// Whether a named key lies between bounds. As in Cassandra, bounds in the wrong order mean the keys outside of them.
fn lies_between(key: &DecoratedKey, lower: &BoundToken, upper: &BoundToken) -> bool {
    let range = between(lower.clone(), upper.clone());
    let (above, below) = (range.is_begun(key.token, &key.key), !range.is_passed(key.token, &key.key));
    match (lower, upper) {
        (Some((low, _)), Some((high, _))) if low > high => above || below,
        _ => above && below,
    }
}

fn token_of(shard: &Shard, term: &Term, values: &Values<'_>) -> Result<RingToken, Failure> {
    let partitioner = shard.partitioner();
    match values.evaluate(shard, term, &partitioner.token_type())? {
        Value::Bytes(bytes) => {
            partitioner.token_of_value(&bytes).ok_or_else(|| Failure::invalid("Invalid null token value"))
        }
        Value::Null => Err(Failure::invalid("Invalid null token value")),
        Value::Unset => Err(Failure::invalid("Invalid unset value for a token")),
    }
}

/// The range between two bounds, each with whether it is inclusive; `None` if the range is empty. The smallest token as
/// a bound means the start or the end of the ring.
fn range_of(lower: BoundToken, upper: BoundToken) -> Option<TokenRange> {
    let lower = lower.filter(|(token, _)| !token.is_minimum());
    let upper = upper.filter(|(token, _)| !token.is_minimum());
    if let (Some((low, low_inclusive)), Some((high, high_inclusive))) = (&lower, &upper)
        && (low > high || low == high && !(*low_inclusive && *high_inclusive))
    {
        return None;
    }
    Some(between(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Partitioner;

    #[test]
    fn token_bounds_make_ranges_that_do_not_wrap() {
        let token = RingToken::Murmur3;
        let (open, closed) = (|t| Some((token(t), false)), |t| Some((token(t), true)));
        let at = |t, is_after| Some(RingPosition { token: token(t), is_after });
        let range = |start, end| Some(TokenRange { start, end });
        let min = i64::MIN;
        assert_eq!(range_of(None, None), Some(TokenRange::FULL));
        assert_eq!(range_of(open(5), closed(9)), range(at(5, true), at(9, true)));
        assert_eq!(range_of(closed(5), open(9)), range(at(5, false), at(9, false)));
        assert_eq!(range_of(closed(5), closed(5)), range(at(5, false), at(5, true)));
        assert_eq!(range_of(open(5), closed(5)), None);
        assert_eq!(range_of(open(9), closed(5)), None);
        assert_eq!(range_of(open(9), None), range(at(9, true), None));
        assert_eq!(range_of(open(9), closed(min)), range(at(9, true), None));
        assert_eq!(range_of(open(min), closed(min)), Some(TokenRange::FULL));
        assert_eq!(range_of(None, open(min + 1)), range(None, at(min + 1, false)));
        assert_eq!(range_of(closed(i64::MAX), None), range(at(i64::MAX, false), None));
    }

    #[test]
    fn bounds_in_the_wrong_order_name_the_keys_outside() {
        let (b, c) = (RingToken::ByteOrdered([2].as_slice().into()), RingToken::ByteOrdered([3].as_slice().into()));
        let named = |lower: BoundToken, upper: BoundToken| -> Vec<u8> {
            let key = |key| DecoratedKey::new(Partitioner::ByteOrdered, &[key]);
            (1..5).filter(|one| lies_between(&key(*one), &lower, &upper)).collect()
        };
        assert_eq!(named(Some((b.clone(), false)), Some((c.clone(), true))), [3]);
        assert_eq!(named(Some((b.clone(), true)), Some((c.clone(), false))), [2]);
        assert_eq!(named(Some((c.clone(), true)), Some((b.clone(), true))), [1, 2, 3, 4]);
        assert_eq!(named(Some((c, false)), Some((b, false))), [1, 4]);
    }
}
