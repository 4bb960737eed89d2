//! The named members of an object: few, looked up often, and kept as long as their kind.

use super::Schema;

/// Members by name, in order.
#[derive(Debug, Default)]
pub(super) struct Properties(Box<[Member]>);

#[derive(Debug)]
struct Member {
    /// The beginning of the name. It nearly always tells names apart, without a look at what a pointer leads to.
    head: u64,
    name: Box<str>,
    schema: Schema,
}

/// The first eight bytes of a name, in whose order names are.
fn head(name: &str) -> u64 {
    let mut head = [0; 8];
    let length = name.len().min(head.len());
    head[..length].copy_from_slice(&name.as_bytes()[..length]);
    u64::from_be_bytes(head)
}

impl Properties {
    /// The member of that name.
    pub(super) fn get(&self, name: &str) -> Option<&Schema> {
        let head = head(name);
        let order = |member: &Member| member.head.cmp(&head).then_with(|| (*member.name).cmp(name));
        let at = self.0.binary_search_by(order).ok()?;
        Some(&self.0[at].schema)
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Schema)> {
        self.0.iter().map(|member| (&*member.name, &member.schema))
    }
}

impl FromIterator<(Box<str>, Schema)> for Properties {
    fn from_iter<I: IntoIterator<Item = (Box<str>, Schema)>>(members: I) -> Self {
        let members = members.into_iter().map(|(name, schema)| Member { head: head(&name), name, schema });
        let mut members: Vec<_> = members.collect();
        members.sort_by(|left, right| left.name.cmp(&right.name));
        Self(members.into())
    }
}
