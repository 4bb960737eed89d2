//! Which number a field has on the wire, and what it is in JSON.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The table, read once.
pub(super) static TABLE: LazyLock<Table> =
    LazyLock::new(|| Table::read(include_str!("../protobuf.txt")).expect("protobuf.txt is checked by a test"));

/// Messages by their place.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) messages: Vec<Message>,
    kinds: HashMap<(&'static str, &'static str), usize>,
}

/// A message: its name in errors, and its fields in the order of their numbers.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) name: &'static str,
    pub(super) fields: Vec<Field>,
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u64,
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) sort: Sort,
    /// Whether it is there even if it is zero.
    pub(super) keeps_zero: bool,
}

/// How many of them there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    Many,
    /// A map with texts as keys.
    Map,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Text,
    /// Base64 in JSON.
    Bytes,
    Bool,
    Integer,
    Double,
    /// Whole seconds.
    Time,
    /// With microseconds.
    MicroTime,
    /// JSON inside.
    Fields,
    /// A list of texts in a message of its own.
    List,
    /// The message at this place.
    Message(usize),
}

impl Table {
    fn read(text: &'static str) -> Option<Self> {
        let (kinds, lines): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("= "));
        let names: Vec<&str> = lines.iter().map(|line| line.split(' ').next().unwrap_or_default()).collect();
        let place = |name: &str| names.iter().position(|one| *one == name);
        let messages = lines.iter().map(|line| {
            let mut parts = line.split(' ');
            let name = parts.next()?.rsplit('.').next()?;
            let fields: Option<Vec<Field>> = parts.map(|part| Field::read(part, &place)).collect();
            Some(Message { name, fields: fields? })
        });
        let kinds = kinds.iter().map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            [_, version, kind, message] => Some(((version, kind), place(message)?)),
            _ => None,
        });
        Some(Self { messages: messages.collect::<Option<_>>()?, kinds: kinds.collect::<Option<_>>()? })
    }

    /// The message of a kind; options are of every group.
    pub(super) fn kind(&self, version: &str, kind: &str) -> Option<&Message> {
        let found = self.kinds.get(&(version, kind)).or_else(|| self.kinds.get(&("*", kind)));
        found.map(|place| &self.messages[*place])
    }
}

impl Field {
    fn read(part: &'static str, place: &impl Fn(&str) -> Option<usize>) -> Option<Self> {
        let [number, name, kind] = part.split(':').collect::<Vec<_>>()[..] else { return None };
        let (keeps_zero, kind) = kind.strip_prefix('?').map_or((false, kind), |kind| (true, kind));
        let (shape, kind) = match (kind.strip_prefix("[]"), kind.strip_prefix("{}")) {
            (Some(kind), _) => (Shape::Many, kind),
            (None, Some(kind)) => (Shape::Map, kind),
            (None, None) => (Shape::One, kind),
        };
        let sort = match kind {
            "s" => Sort::Text,
            "y" => Sort::Bytes,
            "b" => Sort::Bool,
            "i" => Sort::Integer,
            "d" => Sort::Double,
            "t" => Sort::Time,
            "u" => Sort::MicroTime,
            "f" => Sort::Fields,
            "list" => Sort::List,
            message => Sort::Message(place(message)?),
        };
        Some(Self { number: number.parse().ok()?, name, shape, sort, keeps_zero })
    }
}
