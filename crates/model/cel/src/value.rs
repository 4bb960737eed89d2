//! Values while an expression runs. What stands in the object is borrowed and converted when it is looked at.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::declared::{self, Declared, Field, ListKind, Shape};
use crate::library::formats::Format;
use crate::library::net::Cidr;
use crate::library::quantity::Quantity;
use crate::library::semver::Semver;
use crate::library::show;
use crate::library::time::{self, Timestamp};
use crate::library::url::Url;
use crate::types::Type;

/// Why a value could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An error of the expression; `&&` and `||` may make up for it.
    Error(String),
    /// The budget is spent; nothing goes on.
    Spent,
}

impl Fault {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    pub(crate) fn no_overload() -> Self {
        Self::new("no such overload")
    }
}

/// What an evaluation gives.
pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Arc<[u8]>),
    /// In nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    List(List<'a>),
    Map(Map<'a>),
    /// A type, by name.
    Type(&'static str),
    Optional(Option<Arc<Value<'a>>>),
    Quantity(Arc<Quantity>),
    Url(Arc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Semver(Arc<Semver>),
    Format(&'static Format),
}

/// Text of the object, or of the expression.
#[derive(Clone, Debug)]
pub(crate) enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

/// A list of the object, or one that the expression made.
#[derive(Clone, Debug)]
pub(crate) enum List<'a> {
    Json { items: &'a [Json], declared: &'a Declared, kind: &'a ListKind },
    Own(Arc<Vec<Value<'a>>>),
}

/// A map or an object.
#[derive(Clone, Debug)]
pub(crate) enum Map<'a> {
    Json { members: &'a serde_json::Map<String, Json>, values: &'a Declared },
    Object { members: &'a serde_json::Map<String, Json>, fields: &'a BTreeMap<String, Field> },
    Own(Arc<BTreeMap<Key, (Value<'a>, Value<'a>)>>),
}

/// A key of a map; numbers of different types are the same key if they are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    Bool(bool),
    Number(i128),
    String(String),
}

impl Key {
    pub(crate) fn of(value: &Value<'_>) -> Option<Self> {
        match value {
            Value::Bool(flag) => Some(Self::Bool(*flag)),
            Value::Int(number) => Some(Self::Number((*number).into())),
            Value::Uint(number) => Some(Self::Number((*number).into())),
            #[expect(clippy::cast_possible_truncation, reason = "whole and within the range of 64 bits")]
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 1e19 => {
                Some(Self::Number(*number as i128))
            }
            Value::String(text) => Some(Self::String(text.to_string())),
            _ => None,
        }
    }
}

impl<'a> Value<'a> {
    pub(crate) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    pub(crate) fn list(values: Vec<Self>) -> Self {
        Self::List(List::Own(Arc::new(values)))
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// A value of the object, as its declaration sees it.
    pub(crate) fn from_json(json: &'a Json, declared: &'a Declared) -> Result<Self> {
        if json.is_null() {
            return Ok(Self::Null);
        }
        let expected = |what: &str| Fault::new(format!("invalid data, expected {what}"));
        Ok(match &declared.shape {
            Shape::List(items, kind) => {
                let list =
                    json.as_array().ok_or_else(|| expected("an array for the provided schema with type=array"))?;
                Self::List(List::Json { items: list, declared: items, kind })
            }
            Shape::Map(values) => {
                let members =
                    json.as_object().ok_or_else(|| expected("a map for the provided schema with type=object"))?;
                Self::Map(Map::Json { members, values })
            }
            Shape::Object(fields) => {
                let members =
                    json.as_object().ok_or_else(|| expected("a map for the provided schema with type=object"))?;
                Self::Map(Map::Object { members, fields })
            }
            Shape::Simple(of) => Self::simple(json, of)?,
        })
    }

    fn simple(json: &'a Json, of: &Type) -> Result<Self> {
        let wrong = || Fault::new(format!("invalid data, expected {of}"));
        let text = || json.as_str().ok_or_else(wrong);
        Ok(match of {
            Type::Bool => Self::Bool(json.as_bool().ok_or_else(wrong)?),
            Type::Int => Self::Int(integer(json).ok_or_else(wrong)?),
            Type::Double => Self::Double(json.as_f64().ok_or_else(wrong)?),
            Type::String => Self::String(Text::Borrowed(text()?)),
            Type::Bytes => {
                use base64::Engine as _;
                let bytes = base64::engine::general_purpose::STANDARD.decode(text()?).map_err(|why| {
                    Fault::new(format!("Invalid byte formatted string {}: {why}", json.as_str().unwrap_or_default()))
                })?;
                Self::Bytes(bytes.into())
            }
            Type::Duration => {
                let text = text()?;
                let nanos = time::parse_schema_duration(text)
                    .ok_or_else(|| Fault::new(format!("Invalid duration {text}: unable to parse")))?;
                Self::Duration(nanos)
            }
            Type::Timestamp => {
                let text = text()?;
                let at = time::parse_schema_time(text)
                    .ok_or_else(|| Fault::new(format!("Invalid date-time formatted string {text}: unable to parse")))?;
                Self::Timestamp(at)
            }
            // An integer or a text.
            _ => match json {
                Json::String(text) => Self::String(Text::Borrowed(text)),
                other => Self::Int(integer(other).ok_or_else(|| {
                    Fault::new("invalid data, expected XIntOrString value to be either a string or integer")
                })?),
            },
        })
    }

    /// The name of its type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// What `size()` says; one for what has no size.
    pub(crate) fn size(&self) -> u64 {
        let size = match self {
            Self::String(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 16,
            Self::Cidr(cidr) => cidr.size(),
            _ => 1,
        };
        u64::try_from(size).unwrap_or(u64::MAX)
    }
}

fn integer(json: &Json) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "only whole numbers pass")]
    json.as_i64().or_else(|| json.as_f64().filter(|float| float.fract() == 0.0).map(|float| float as i64))
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json { items, .. } => items.len(),
            Self::Own(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Result<Value<'a>>> {
        match self {
            Self::Json { items, declared, .. } => items.get(index).map(|item| Value::from_json(item, declared)),
            Self::Own(items) => items.get(index).cloned().map(Ok),
        }
    }

    pub(crate) fn values(&self) -> Result<Vec<Value<'a>>> {
        (0..self.len()).filter_map(|index| self.get(index)).collect()
    }

    pub(crate) fn contains(&self, value: &Value<'_>) -> Result<bool> {
        for index in 0..self.len() {
            if let Some(item) = self.get(index)
                && item?.equals(value)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json { members, .. } | Self::Object { members, .. } => members.len(),
            Self::Own(entries) => entries.len(),
        }
    }

    /// The value of a key; `None` if it is not there.
    pub(crate) fn get(&self, key: &Value<'_>) -> Option<Result<Value<'a>>> {
        match (self, key) {
            (Self::Own(entries), _) => entries.get(&Key::of(key)?).map(|(_, value)| Ok(value.clone())),
            (_, Value::String(name)) => self.member(name),
            _ => Some(Err(Fault::no_overload())),
        }
    }

    /// The value of a text key.
    pub(crate) fn member(&self, name: &str) -> Option<Result<Value<'a>>> {
        match self {
            Self::Json { members, values } => members.get(name).map(|value| Value::from_json(value, values)),
            Self::Object { members, fields } => {
                let (_, field) = declared::field(fields, name)?;
                let value = members.get(&field.name).filter(|value| !value.is_null())?;
                Some(Value::from_json(value, &field.declared))
            }
            Self::Own(entries) => entries.get(&Key::String(name.to_owned())).map(|(_, value)| Ok(value.clone())),
        }
    }

    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Self::Json { members, .. } => {
                members.keys().map(|name| Value::String(Text::Borrowed(name.as_str()))).collect()
            }
            Self::Object { members, fields } => fields
                .iter()
                .filter(|(_, field)| members.contains_key(&field.name))
                .map(|(name, _)| Value::String(Text::Borrowed(name.as_str())))
                .collect(),
            Self::Own(entries) => entries.values().map(|(key, _)| key.clone()).collect(),
        }
    }

    fn equals(&self, other: &Map<'_>) -> bool {
        if self.len() != other.len() {
            return false;
        }
        if let (Self::Object { members, fields }, Map::Object { members: others, .. }) = (self, other) {
            // Members that no expression sees are compared as they are.
            let declared = |name: &String| fields.values().any(|field| field.name == *name);
            let hidden = members.iter().filter(|(name, _)| !declared(name));
            let mut hidden = hidden.filter(|(name, _)| others.contains_key(*name));
            if hidden.any(|(name, value)| others.get(name) != Some(value)) {
                return false;
            }
        }
        self.keys().iter().all(|key| match (self.get(key), other.get(key)) {
            (Some(Ok(one)), Some(Ok(other))) => one.equals(&other),
            (None, None) => true,
            _ => false,
        })
    }
}

impl Value<'_> {
    /// `==`: numbers are equal across types, everything else only within one.
    pub(crate) fn equals(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Self::Null, Value::Null) => true,
            (Self::Bool(one), Value::Bool(other)) => one == other,
            (Self::String(one), Value::String(other)) => **one == **other,
            (Self::Bytes(one), Value::Bytes(other)) => one == other,
            (Self::Duration(one), Value::Duration(other)) => one == other,
            (Self::Timestamp(one), Value::Timestamp(other)) => one.instant() == other.instant(),
            (Self::List(one), Value::List(other)) => lists_equal(one, other),
            (Self::Map(one), Value::Map(other)) => one.equals(other),
            (Self::Type(one), Value::Type(other)) => one == other,
            (Self::Optional(one), Value::Optional(other)) => match (one, other) {
                (None, None) => true,
                (Some(one), Some(other)) => one.equals(other),
                _ => false,
            },
            (Self::Quantity(one), Value::Quantity(other)) => one.compare(other) == Ordering::Equal,
            (Self::Url(one), Value::Url(other)) => one == other,
            (Self::Ip(one), Value::Ip(other)) => one == other,
            (Self::Cidr(one), Value::Cidr(other)) => one == other,
            (Self::Semver(one), Value::Semver(other)) => one.compare(other) == Ordering::Equal,
            (Self::Format(one), Value::Format(other)) => one.name == other.name,
            _ => self.compare_numbers(other) == Some(Ordering::Equal),
        }
    }

    /// Numbers of any two types.
    fn compare_numbers(&self, other: &Value<'_>) -> Option<Ordering> {
        let integer = |value: &Value<'_>| match value {
            Value::Int(number) => Some(i128::from(*number)),
            Value::Uint(number) => Some(i128::from(*number)),
            _ => None,
        };
        match (self, other) {
            (Value::Double(one), Value::Double(other)) => one.partial_cmp(other),
            (Value::Double(one), other) => integer(other).and_then(|other| compare_float(*one, other)),
            (one, Value::Double(other)) => {
                integer(one).and_then(|one| compare_float(*other, one)).map(Ordering::reverse)
            }
            (one, other) => Some(integer(one)?.cmp(&integer(other)?)),
        }
    }

    /// `<` and its kin; `None` where there is no order.
    pub(crate) fn compare(&self, other: &Value<'_>) -> Option<Ordering> {
        match (self, other) {
            (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
            (Value::String(one), Value::String(other)) => Some((**one).cmp(&**other)),
            (Value::Bytes(one), Value::Bytes(other)) => Some(one.cmp(other)),
            (Value::Duration(one), Value::Duration(other)) => Some(one.cmp(other)),
            (Value::Timestamp(one), Value::Timestamp(other)) => Some(one.instant().cmp(&other.instant())),
            _ => self.compare_numbers(other),
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Value::Int(_) | Value::Uint(_) | Value::Double(_))
    }
}

fn compare_float(float: f64, integer: i128) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float >= 2e19 {
        return Some(Ordering::Greater);
    }
    if float <= -2e19 {
        return Some(Ordering::Less);
    }
    #[expect(clippy::cast_possible_truncation, reason = "within the range of 128 bits")]
    let whole = float.trunc() as i128;
    Some(whole.cmp(&integer).then_with(|| float.fract().partial_cmp(&0.0).unwrap_or(Ordering::Equal)))
}

fn lists_equal(one: &List<'_>, other: &List<'_>) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let (Ok(left), Ok(right)) = (one.values(), other.values()) else { return false };
    match one {
        List::Json { kind: ListKind::Set, .. } => {
            let all = |values: &[Value<'_>]| values.iter().map(|value| value.identity(&[])).collect::<BTreeSet<_>>();
            all(&left) == all(&right)
        }
        List::Json { kind: ListKind::Map(keys), .. } => {
            let before: BTreeMap<String, &Value<'_>> = left.iter().map(|item| (item.identity(keys), item)).collect();
            let mut seen = BTreeSet::new();
            let same = right.iter().all(|item| {
                let identity = item.identity(keys);
                let same = before.get(&identity).is_some_and(|before| before.equals(item));
                seen.insert(identity);
                same
            });
            same && seen.len() == before.len()
        }
        _ => left.iter().zip(&right).all(|(one, other)| one.equals(other)),
    }
}

impl Value<'_> {
    /// A text that is the same for values that are the same item: by these members, or as a whole.
    pub(crate) fn identity(&self, keys: &[String]) -> String {
        match self {
            Value::Map(map) if !keys.is_empty() => {
                let members = keys.iter().map(|key| map.member(key).and_then(Result::ok));
                members
                    .map(|value| value.map_or_else(String::new, |value| show::json(&value).to_string() + ","))
                    .collect()
            }
            _ => show::json(self).to_string(),
        }
    }
}
