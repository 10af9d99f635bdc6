//! The schema that a shard serves, and the tasks that wait for a change of it.

use model::Schema;
use runtime::sync::Condition;
use std::cell::{Ref, RefCell};
use std::sync::Arc;

/// The current schema, with a wait queue.
pub(crate) struct SchemaRegistry {
    schema: RefCell<Arc<Schema>>,
    replaced: Condition,
}

impl SchemaRegistry {
    pub(crate) fn new(schema: Arc<Schema>) -> SchemaRegistry {
        SchemaRegistry { schema: RefCell::new(schema), replaced: Condition::default() }
    }

    pub(crate) fn current(&self) -> Arc<Schema> {
        self.schema.borrow().clone()
    }

    pub(crate) fn borrow(&self) -> Ref<'_, Arc<Schema>> {
        self.schema.borrow()
    }

    /// Replaces the current schema by `schema` and wakes the tasks that wait for a change.
    pub(crate) fn replace(&self, schema: Arc<Schema>) {
        *self.schema.borrow_mut() = schema;
        self.replaced.notify();
    }

    /// Waits until `pick` returns something for the current schema.
    pub(crate) async fn wait_for<T>(&self, pick: impl Fn(&Schema) -> Option<T>) -> T {
        self.replaced.wait(|| pick(&self.schema.borrow())).await
    }
}
