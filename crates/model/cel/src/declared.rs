//! What a variable looks like: the types of its parts, and how large they may be.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::Type;

/// A declared type: what a schema says of a value, as far as expressions see it.
#[derive(Clone, Debug)]
pub struct Declared {
    /// What sort of value.
    pub shape: Shape,
    /// How many elements, members or bytes it has at most; 0 for scalars and objects.
    pub most: u64,
    /// The fewest bytes of it as JSON.
    pub least_bytes: u64,
}

/// The sort of a declared value.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A simple type (`int`, `string`, `timestamp`…), or `dyn`.
    Simple(Type),
    /// A list.
    List(Box<Declared>, ListKind),
    /// A map with text keys.
    Map(Box<Declared>),
    /// An object, by the names that expressions use.
    Object(BTreeMap<String, Field>),
}

/// How the items of a list are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// By their place.
    Atomic,
    /// By their value.
    Set,
    /// By these members.
    Map(Vec<String>),
}

/// A field of an object.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name in JSON.
    pub name: String,
    /// What it looks like.
    pub declared: Arc<Declared>,
}

/// What the type of a root object is called; only messages show it. The real server ends it with random digits.
const ROOT: &str = "selfType1";

impl Declared {
    /// A simple type.
    #[must_use]
    pub fn simple(of: Type, most: u64, least_bytes: u64) -> Self {
        Self { shape: Shape::Simple(of), most, least_bytes }
    }

    /// A list of at most so many items.
    #[must_use]
    pub fn list(items: Self, kind: ListKind, most: u64) -> Self {
        Self { shape: Shape::List(Box::new(items), kind), most, least_bytes: 2 }
    }

    /// A map of at most so many members.
    #[must_use]
    pub fn map(values: Self, most: u64) -> Self {
        Self { shape: Shape::Map(Box::new(values)), most, least_bytes: 2 }
    }

    /// The type of a variable that looks like this.
    #[must_use]
    pub fn root_type(&self) -> Type {
        self.cel_type(ROOT)
    }

    /// Its type; `name` is what it is called if it is an object.
    pub(crate) fn cel_type(&self, name: &str) -> Type {
        match &self.shape {
            Shape::Simple(of) => of.clone(),
            Shape::List(items, _) => Type::list(items.cel_type(&format!("{name}.@idx"))),
            Shape::Map(values) => Type::map(Type::String, values.cel_type(&format!("{name}.@elem"))),
            Shape::Object(_) => Type::Object(name.into()),
        }
    }

    /// The part that an object type's name stands for.
    pub(crate) fn find(&self, name: &str) -> Option<&Self> {
        let mut at = self;
        for part in name.strip_prefix(ROOT)?.split('.').skip(1) {
            at = match (&at.shape, part) {
                (Shape::List(items, _), "@idx") => items,
                (Shape::Map(values), "@elem") => values,
                (Shape::Object(fields), part) => &fields.get(part)?.declared,
                _ => return None,
            };
        }
        Some(at)
    }

    /// The part a path of the cost estimate leads to.
    pub(crate) fn at_path(&self, path: &[String]) -> Option<u64> {
        let mut at = self;
        for (index, part) in path.iter().enumerate() {
            at = match (&at.shape, part.as_str()) {
                (Shape::List(items, _), "@items" | "@values") => items,
                (Shape::Map(values), "@items" | "@values") => values,
                (Shape::Map(_), "@keys") => return (index + 1 == path.len()).then_some(0),
                (Shape::Object(fields), part) => &fields.get(part)?.declared,
                _ => return None,
            };
        }
        Some(at.most)
    }
}

/// A field of an object by the name that an expression uses; a word of the language stands for its escaped form.
pub(crate) fn field<'f>(fields: &'f BTreeMap<String, Field>, name: &str) -> Option<(&'f str, &'f Field)> {
    let found = fields.get_key_value(name);
    let found = found.or_else(|| is_reserved(name).then(|| fields.get_key_value(&format!("__{name}__"))).flatten());
    found.map(|(name, field)| (name.as_str(), field))
}

/// A field's name as expressions write it; `None` if they cannot.
#[must_use]
pub fn escape(name: &str) -> Option<String> {
    let first = name.chars().next()?;
    if first.is_ascii_digit() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c)) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let escaped = name.replace("__", "__underscores__");
    Some(escaped.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__"))
}

fn is_reserved(name: &str) -> bool {
    matches!(
        name,
        "true"
            | "false"
            | "null"
            | "in"
            | "as"
            | "break"
            | "const"
            | "continue"
            | "else"
            | "for"
            | "function"
            | "if"
            | "import"
            | "let"
            | "loop"
            | "package"
            | "namespace"
            | "return"
            | "var"
            | "void"
            | "while"
    )
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn names_are_escaped_as_the_real_server_does() {
        let cases = [
            ("a", Some("a")),
            ("namespace", Some("__namespace__")),
            ("a-b.c/d", Some("a__dash__b__dot__c__slash__d")),
            ("a__b", Some("a__underscores__b")),
            ("a_b", Some("a_b")),
            ("1a", None),
            ("a$", None),
            ("ä", None),
            ("", None),
        ];
        for (name, escaped) in cases {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }
}
