//! What kind a parameters struct belongs to.

use concert_external::Gvk;

/// A struct that is the parameters (`spec.forProvider`) of a kind. Derive it: `#[derive(Kind)]` with
/// `#[kind(group = "…", version = "…")]`.
pub trait Kind {
    /// Names, scope and columns of the kind.
    const SHAPE: Shape;

    /// Its group, version and kind.
    #[must_use]
    fn gvk() -> Gvk {
        Gvk::new(Self::SHAPE.group, Self::SHAPE.version, Self::SHAPE.kind)
    }
}

/// Names, scope and columns of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// API group.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Plural, as in URLs.
    pub plural: &'static str,
    /// Singular.
    pub singular: &'static str,
    /// Short names for command lines.
    pub short: &'static [&'static str],
    /// Lives in a namespace; cluster-scoped otherwise.
    pub namespaced: bool,
    /// Columns that `kubectl get` prints beside the usual ones.
    pub columns: &'static [Column],
}

/// A column that `kubectl get` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its head.
    pub name: &'static str,
    /// Where the value is: `.status.atProvider.path`.
    pub path: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: &'static str,
}
