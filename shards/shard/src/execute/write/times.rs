//! The write timestamp of a request, and the second in which it runs.

use crate::execute::values::binding::Values;
use crate::messages::data::WriteTimes;
use crate::request::request_second;
use crate::shard_state::Shard;
use cql::plan::{Term, Value};
use model::row::{Deletion, NO_TIMESTAMP};
use model::{CqlType, Failure, QueryParameters};

const OUT_OF_BOUND: &str = "Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807]";

impl WriteTimes {
    /// USING TIMESTAMP, otherwise the request's timestamp, otherwise the server's clock.
    pub(crate) fn of(
        shard: &Shard,
        using: Option<&Term>,
        values: &Values<'_>,
        parameters: &QueryParameters<'_>,
    ) -> Result<WriteTimes, Failure> {
        let given = match using {
            None => None,
            Some(term) => match values.evaluate(shard, term, &CqlType::Bigint)? {
                Value::Unset => None,
                Value::Null => return Err(Failure::invalid("Invalid null value of timestamp")),
                Value::Bytes(bytes) => match <[u8; 8]>::try_from(&*bytes).map(i64::from_be_bytes) {
                    Ok(NO_TIMESTAMP) => return Err(Failure::invalid(OUT_OF_BOUND)),
                    Ok(timestamp) => Some(timestamp),
                    Err(_) => return Err(Failure::invalid("Invalid timestamp value")),
                },
            },
        };
        let timestamp = match (given, parameters.timestamp) {
            (Some(timestamp), _) => timestamp,
            (None, Some(NO_TIMESTAMP)) => {
                return Err(Failure::protocol(format!("{OUT_OF_BOUND} (got {NO_TIMESTAMP})")));
            }
            (None, Some(timestamp)) => timestamp,
            (None, None) => shard.clock().timestamp(),
        };
        Ok(WriteTimes { timestamp, ranges_deleted_at: timestamp, now_in_seconds: request_second(parameters) })
    }

    /// The times of a conditional change. Its writes win over the partitions and ranges that it deletes, as in
    /// Cassandra.
    pub(crate) fn of_ballot(timestamp: i64, now_in_seconds: i64) -> WriteTimes {
        WriteTimes { timestamp, ranges_deleted_at: timestamp.saturating_sub(1), now_in_seconds }
    }

    pub(super) fn deletion(&self) -> Deletion {
        Deletion { timestamp: self.timestamp, local_deletion_time: self.now_in_seconds }
    }

    pub(super) fn deletion_of_ranges(&self) -> Deletion {
        Deletion { timestamp: self.ranges_deleted_at, local_deletion_time: self.now_in_seconds }
    }
}
