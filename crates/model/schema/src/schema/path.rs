//! Where a value stands in a document: written out only when there is something to say of it.

use std::fmt;

/// A place. A way of a thousand steps under a long name would otherwise be written a thousand times.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    /// Where the way begins; may be nothing.
    Root(&'a str),
    /// A member.
    Member(&'a Self, &'a str),
    /// A member of a map, as some messages write it.
    Entry(&'a Self, &'a str),
    /// An item.
    Item(&'a Self, usize),
}

impl Path<'_> {
    /// The whole object.
    pub(super) const TOP: Self = Self::Root("");

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Root(""))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(text) => f.write_str(text),
            Self::Member(parent, name) if parent.is_empty() => f.write_str(name),
            Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Entry(parent, name) => write!(f, "{parent}[{name}]"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// As errors name the field.
impl From<&Path<'_>> for String {
    fn from(path: &Path<'_>) -> Self {
        path.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_as_messages_have_them() {
        let top = Path::TOP;
        let (spec, below) = (Path::Member(&top, "spec"), Path::Root("status"));
        let list = Path::Member(&spec, "list");
        let item = Path::Item(&list, 3);
        assert_eq!(Path::Member(&item, "name").to_string(), "spec.list[3].name");
        assert_eq!(Path::Entry(&spec, "a.b").to_string(), "spec[a.b]");
        assert_eq!(Path::Member(&below, "x").to_string(), "status.x");
        assert_eq!(Path::Item(&top, 0).to_string(), "[0]");
        assert!(top.is_empty() && !spec.is_empty());
    }
}
