//! Passing on the fragments that a read visits.

use crate::fragment::{Fragment, FragmentSink};
use crate::row::Deletion;

/// What a read passes on of the fragments that it visits: nothing, or everything to a [`FragmentSink`]. Reads are
/// compiled for each of both, so that a plain read does not pay for the other.
pub trait Tap {
    /// Whether anything is passed on.
    const PASSES: bool;

    /// See [`FragmentSink::fragment`].
    fn fragment(&mut self, fragment: Fragment<'_>, shadow: Deletion);

    /// See [`FragmentSink::cut`].
    fn cut(&mut self, comparable: &[u8]);

    /// See [`FragmentSink::is_full`].
    fn is_full(&self) -> bool;
}

impl Tap for () {
    const PASSES: bool = false;

    #[inline(always)]
    fn fragment(&mut self, _: Fragment<'_>, _: Deletion) {}

    #[inline(always)]
    fn cut(&mut self, _: &[u8]) {}

    #[inline(always)]
    fn is_full(&self) -> bool {
        false
    }
}

impl Tap for &mut dyn FragmentSink {
    const PASSES: bool = true;

    fn fragment(&mut self, fragment: Fragment<'_>, shadow: Deletion) {
        (**self).fragment(fragment, shadow);
    }

    fn cut(&mut self, comparable: &[u8]) {
        (**self).cut(comparable);
    }

    fn is_full(&self) -> bool {
        (**self).is_full()
    }
}
