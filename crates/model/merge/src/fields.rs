//! Sets of fields: who owns what is written as one set of paths for each manager.
//!
//! A set is a tree of sorted vectors. A node is a step of a path; it may itself belong to the set (be a *member*), have
//! members below it, or both: an item of a list is a member beside its own fields. All operations walk two trees at
//! once, and those that change a set do it in place.

mod element;
mod extract;
mod read;
mod write;

use std::cmp::Ordering;
use std::fmt;
use std::ops::ControlFlow;

pub use element::Element;
pub(crate) use element::compare_values;
pub use read::FieldsError;

/// A set of paths to fields, items of lists and entries of maps.
///
/// ```
/// use concert_merge::FieldSet;
/// use serde_json::json;
///
/// let fields = json!({"f:spec": {"f:ports": {"k:{\"port\":80}": {".": {}, "f:name": {}}}}});
/// let set = FieldSet::parse(&fields)?;
/// assert_eq!(set.paths(), [".spec.ports[port=80]", ".spec.ports[port=80].name"]);
/// assert_eq!(set.to_value(), fields);
/// # Ok::<(), concert_merge::FieldsError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: Vec<Node>,
}

/// A step, and what is known about it. It is a member, or has members below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) element: Element,
    pub(crate) member: bool,
    pub(crate) below: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    /// A set of named fields, each by the names on its way.
    ///
    /// ```
    /// let set = concert_merge::FieldSet::of(&[&["metadata"], &["spec", "replicas"]]);
    /// assert_eq!(set.paths(), [".metadata", ".spec.replicas"]);
    /// ```
    #[must_use]
    pub fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let steps: Vec<Element> = path.iter().map(|name| Element::field(name)).collect();
            set.insert(&steps);
        }
        set
    }

    /// From nodes in any order; no step may occur twice.
    pub(crate) fn from_nodes(mut nodes: Vec<Node>) -> Self {
        nodes.retain(|node| !node.is_empty());
        if !nodes.is_sorted_by(|left, right| left.element < right.element) {
            nodes.sort_unstable_by(|left, right| left.element.cmp(&right.element));
        }
        Self { nodes }
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many paths are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.below.len()).sum()
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    pub(crate) fn node(&self, element: &Element) -> Option<&Node> {
        let at = self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()?;
        self.nodes.get(at)
    }

    /// The node of a named field.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        let at = self.nodes.binary_search_by(|node| node.element.compare_field(name)).ok()?;
        self.nodes.get(at)
    }

    /// Adds a path; the empty one is nobody's.
    pub(crate) fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.nodes.binary_search_by(|node| node.element.cmp(first)) {
            Ok(at) => at,
            Err(at) => {
                self.nodes.insert(at, Node { element: first.clone(), member: false, below: Self::default() });
                at
            }
        };
        let node = &mut self.nodes[at];
        if rest.is_empty() {
            node.member = true;
        } else {
            node.below.insert(rest);
        }
    }

    /// Whether a path is in it.
    #[must_use]
    pub fn contains(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.node(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.node(first).is_some_and(|node| node.below.contains(rest)),
        }
    }

    /// Adds what another set has.
    pub(crate) fn unite(&mut self, other: Self) {
        if self.is_empty() || other.is_empty() {
            if self.is_empty() {
                *self = other;
            }
            return;
        }
        let mut united = Vec::with_capacity(self.nodes.len() + other.nodes.len());
        let mut ours = std::mem::take(&mut self.nodes).into_iter().peekable();
        for theirs in other.nodes {
            while let Some(node) = ours.next_if(|node| node.element < theirs.element) {
                united.push(node);
            }
            match ours.next_if(|node| node.element == theirs.element) {
                Some(mut node) => {
                    node.member |= theirs.member;
                    node.below.unite(theirs.below);
                    united.push(node);
                }
                None => united.push(theirs),
            }
        }
        united.extend(ours);
        self.nodes = united;
    }

    /// What any of some sets has; in pairs, so that many small ones do not cost the square of their number.
    pub(crate) fn union_of(mut sets: Vec<Self>) -> Self {
        while sets.len() > 1 {
            let mut rest = sets.into_iter();
            let mut pairs = Vec::with_capacity(rest.len().div_ceil(2));
            while let Some(mut set) = rest.next() {
                set.unite(rest.next().unwrap_or_default());
                pairs.push(set);
            }
            sets = pairs;
        }
        sets.pop().unwrap_or_default()
    }

    /// Removes the paths that another set has, but not what is below them.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.retain_beside(other, |node, theirs| {
            node.member &= !theirs.member;
            node.below.subtract(&theirs.below);
        });
    }

    /// Removes the paths that another set has, and all that is below them.
    pub(crate) fn subtract_deep(&mut self, other: &Self) {
        self.retain_beside(other, |node, theirs| {
            if theirs.member {
                node.member = false;
                node.below = Self::default();
            } else {
                node.below.subtract_deep(&theirs.below);
            }
        });
    }

    /// Changes the nodes that both have, and drops those that become empty.
    fn retain_beside(&mut self, other: &Self, change: impl Fn(&mut Node, &Node)) {
        if other.is_empty() {
            return;
        }
        // By search, because one may be small and the other huge.
        self.nodes.retain_mut(|node| {
            if let Some(theirs) = other.node(&node.element) {
                change(node, theirs);
            }
            !node.is_empty()
        });
    }

    /// The paths that both have.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut nodes = Vec::new();
        for node in &self.nodes {
            let Some(their) = other.node(&node.element) else { continue };
            let both = Node {
                element: node.element.clone(),
                member: node.member && their.member,
                below: node.below.intersection(&their.below),
            };
            if !both.is_empty() {
                nodes.push(both);
            }
        }
        Self { nodes }
    }

    /// Whether both have a path.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let (few, many) = if self.nodes.len() < other.nodes.len() { (self, other) } else { (other, self) };
        few.nodes.iter().any(|node| {
            let their = many.node(&node.element);
            their.is_some_and(|their| (node.member && their.member) || node.below.meets(&their.below))
        })
    }

    /// Whether another set has all that this one has.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        let mut theirs = other.nodes.iter();
        self.nodes.iter().all(|node| {
            let their = theirs.find(|their| their.element.cmp(&node.element) != Ordering::Less);
            their.is_some_and(|their| {
                their.element == node.element && (!node.member || their.member) && node.below.is_within(&their.below)
            })
        })
    }

    /// Whether there is an item of a list of which not even a key is in it.
    pub(crate) fn has_bare_items(&self) -> bool {
        self.nodes.iter().any(|node| match node.element {
            Element::Key(_) if node.below.is_empty() => true,
            _ => node.below.has_bare_items(),
        })
    }

    /// The paths in it, in words; those of one level before those below it.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        let _ = self.walk(&mut |path| {
            paths.push(path_text(path));
            ControlFlow::Continue(())
        });
        paths
    }

    /// Visits the paths in it, until that is enough; those of one level before those below it.
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(&[&Element]) -> ControlFlow<()>) -> ControlFlow<()> {
        self.walk_below(&mut Vec::new(), visit)
    }

    fn walk_below<'a>(
        &'a self,
        way: &mut Vec<&'a Element>,
        visit: &mut dyn FnMut(&[&Element]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for node in self.nodes.iter().filter(|node| node.member) {
            way.push(&node.element);
            visit(way)?;
            way.pop();
        }
        for node in self.nodes.iter().filter(|node| !node.below.is_empty()) {
            way.push(&node.element);
            node.below.walk_below(way, visit)?;
            way.pop();
        }
        ControlFlow::Continue(())
    }
}

/// A path in words: `.spec.ports[port=80]`.
pub(crate) fn path_text(path: &[&Element]) -> String {
    path.iter().map(|element| element.to_string()).collect()
}

impl fmt::Debug for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.paths()).finish()
    }
}
