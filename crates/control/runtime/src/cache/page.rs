//! A long list, page by page, as of one moment.

use std::sync::Arc;

use concert_api::Object;

/// What was found at one moment, page by page: changes that come meanwhile are not in it. Objects are shared with the
/// cache, so it costs a pointer for each.
#[derive(Clone, Debug)]
pub struct Pages {
    objects: std::vec::IntoIter<Arc<Object>>,
    size: usize,
}

impl Pages {
    pub(crate) fn new(objects: Vec<Arc<Object>>, size: usize) -> Self {
        Self { objects: objects.into_iter(), size: size.max(1) }
    }

    /// How many objects are still to come.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.objects.len()
    }
}

impl Iterator for Pages {
    type Item = Vec<Arc<Object>>;

    fn next(&mut self) -> Option<Self::Item> {
        let page: Vec<_> = self.objects.by_ref().take(self.size).collect();
        (!page.is_empty()).then_some(page)
    }
}
