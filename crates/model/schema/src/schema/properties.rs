//! The named members of an object: few, looked up often, and kept as long as their kind.

use super::Schema;

/// Members by name, in order.
#[derive(Debug, Default)]
pub(super) struct Properties(Box<[(Box<str>, Schema)]>);

impl Properties {
    /// The member of that name.
    pub(super) fn get(&self, name: &str) -> Option<&Schema> {
        let at = self.0.binary_search_by(|(one, _)| (**one).cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Schema)> {
        self.0.iter().map(|(name, schema)| (&**name, schema))
    }
}

impl FromIterator<(Box<str>, Schema)> for Properties {
    fn from_iter<I: IntoIterator<Item = (Box<str>, Schema)>>(members: I) -> Self {
        let mut members: Vec<_> = members.into_iter().collect();
        members.sort_by(|(left, _), (right, _)| left.cmp(right));
        Self(members.into())
    }
}
