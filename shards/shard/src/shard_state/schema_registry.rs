//! The schema that a shard serves, and the tasks that wait for a change of it.

use model::Schema;
use runtime::sync::Condition;
use std::cell::{Ref, RefCell};
use std::sync::Arc;

/// See the module.
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

    /// Puts `schema` in the place of the current one and wakes whoever waits for a change.
    pub(crate) fn replace(&self, schema: Arc<Schema>) {
        *self.schema.borrow_mut() = schema;
        self.replaced.notify();
    }

    /// Waits until `pick` finds something in the schema.
    pub(crate) async fn wait_for<T>(&self, pick: impl Fn(&Schema) -> Option<T>) -> T {
        self.replaced.wait(|| pick(&self.schema.borrow())).await
    }
}
