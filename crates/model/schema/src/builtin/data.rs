//! The data of the built-in kinds, as `cargo xtask kinds` writes them, read piece by piece when they are needed.
//!
//! `definitions.txt` has a block for each Go struct: its name, then a line for each field,
//!
//! ```text
//! core.v1.Container
//!  name 1 z string r
//!  ports 6 o []core.v1.ContainerPort l=map(containerPort,protocol) s=merge k=containerPort
//! core.v1.Volume
//!  name 1 z string r
//!  ~ 2 core.v1.VolumeSource
//! ```
//!
//! with its name in JSON, its number in protobuf (0: it is not there), what Go does when it has no value ([`Presence`]),
//! its type ([`Type`]) and marks: `r` required, `l` list type and keys, `m` map type, `s` patch strategy, `k` merge key,
//! `d` default, `e` the values there are (`_` is a space), `D` a zero that OpenAPI calls the default although Go does not
//! write it, `$` a reference that OpenAPI does not wrap. A `~` is a struct whose fields are those of the struct around it
//! in JSON, but not in protobuf. Behind the name of a block may stand `m=atomic`, `g` the group of a kind, and `u` the
//! fields of which one is chosen, behind the name of the field that says which.

use std::collections::HashMap;
use std::sync::LazyLock;

/// All of it.
pub(crate) static TEXT: &str = include_str!("definitions.txt");
/// The blocks by name: the rest of the first line, and the fields.
static BLOCKS: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| blocks(TEXT));

/// Prefixes of our names, and what OpenAPI has instead.
const PREFIXES: [(&str, &str); 6] = [
    ("meta.", "io.k8s.apimachinery.pkg.apis.meta."),
    ("apiextensions.", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions."),
    ("apiregistration.", "io.k8s.kube-aggregator.pkg.apis.apiregistration."),
    ("intstr.", "io.k8s.apimachinery.pkg.util.intstr."),
    ("runtime.", "io.k8s.apimachinery.pkg.runtime."),
    ("version.", "io.k8s.apimachinery.pkg.version."),
];

/// What Go does with a field that has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// A pointer: there or not, and then kept even if it is zero.
    Pointer,
    /// Left out when it is zero or empty.
    Omitted,
    /// Null when it is empty.
    Null,
    /// There even if it is zero.
    Zero,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// A list.
    List(&'static str),
    /// A list in a message of its own.
    Listed(&'static str),
    /// A map with texts as keys.
    Map(&'static str),
    /// A text, and its Go type if it has one of its own.
    Text(&'static str),
    /// A truth.
    Bool(&'static str),
    /// A number of 32 bits.
    Int32(&'static str),
    /// A number of 64 bits.
    Int64(&'static str),
    /// A floating number.
    Double,
    /// Bytes, in base64.
    Bytes,
    /// Something of its own.
    Special(Special),
    /// A struct.
    Struct(&'static str),
}

/// Types that are something of their own in JSON and in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    /// A moment with whole seconds.
    Time,
    /// A moment with microseconds.
    MicroTime,
    /// A length of time as Go writes it.
    Duration,
    /// A set of fields.
    Fields,
    /// An amount.
    Quantity,
    /// A number or a text.
    IntOrString,
    /// An object of any kind.
    Raw,
    /// Any JSON.
    Json,
    /// A schema, or a truth.
    SchemaOrBool,
    /// A schema, or many.
    SchemaOrArray,
    /// A schema, or names.
    SchemaOrStrings,
}

/// A field of a struct.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// Its name in JSON; empty for what is inlined.
    pub(crate) name: &'static str,
    /// Its number in protobuf.
    pub(crate) number: u32,
    pub(crate) presence: Presence,
    pub(crate) kind: Type,
    /// What else there is, in one text.
    marks: &'static str,
}

/// The fields of a struct, in the order of its source.
pub(crate) fn fields(name: &str) -> Option<impl Iterator<Item = Field>> {
    let block = BLOCKS.get(name)?;
    Some(block.lines().skip(1).filter_map(Field::read))
}

/// Its fields and those of what it inlines, as they are in JSON.
pub(crate) fn flat_fields(name: &str) -> Vec<Field> {
    let mut found = Vec::new();
    for field in fields(name).into_iter().flatten() {
        match field.kind {
            Type::Struct(inner) if field.name.is_empty() => found.extend(flat_fields(inner)),
            _ => found.push(field),
        }
    }
    found
}

/// The name as it stands in the data, which lives as long as the program.
pub(crate) fn known(name: &str) -> Option<&'static str> {
    BLOCKS.get_key_value(name).map(|(name, _)| *name)
}

/// All names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    BLOCKS.keys().copied()
}

/// Whether a struct is replaced as a whole.
pub(crate) fn is_atomic(name: &str) -> bool {
    heads(name, 'm').next() == Some("atomic")
}

/// The group of a kind, if the struct is one that OpenAPI marks.
pub(crate) fn group(name: &str) -> Option<&'static str> {
    heads(name, 'g').next()
}

/// The unions of a struct: the field that says which one is chosen, which may be empty, and those there are.
pub(crate) fn unions(name: &str) -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let union = |text: &'static str| {
        let (chooser, fields) = text.trim_end_matches(')').split_once('(')?;
        Some((chooser, fields.split(',').collect()))
    };
    heads(name, 'u').filter_map(union)
}

/// What is said of a struct as a whole under a letter.
fn heads(name: &str, letter: char) -> impl Iterator<Item = &'static str> {
    let head = BLOCKS.get(name).and_then(|block| block.lines().next()).unwrap_or_default();
    head.split(' ').filter_map(move |mark| mark.strip_prefix(letter)?.strip_prefix('='))
}

/// A name as OpenAPI writes it: `io.k8s.api.core.v1.Pod`.
pub(crate) fn long_name(short: &str) -> String {
    if short == "resource.Quantity" {
        return "io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned();
    }
    let known = PREFIXES.iter().find_map(|(ours, theirs)| Some(format!("{theirs}{}", short.strip_prefix(ours)?)));
    known.unwrap_or_else(|| format!("io.k8s.api.{short}"))
}

/// The Go type of a struct as messages have it: `v1.Pod`.
pub(crate) fn go_name(short: &str) -> &str {
    let dots: Vec<usize> = short.match_indices('.').map(|(at, _)| at).collect();
    dots.len().checked_sub(2).map_or(short, |place| &short[dots[place] + 1..])
}

impl Field {
    fn read(line: &'static str) -> Option<Self> {
        let mut words = line.trim_start().splitn(3, ' ');
        let (name, number, rest) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
        if name == "~" {
            let kind = Type::read(rest);
            return Some(Self { name: "", number, presence: Presence::Zero, kind, marks: "" });
        }
        let (presence, rest) = rest.split_once(' ')?;
        let (kind, marks) = rest.split_once(' ').unwrap_or((rest, ""));
        let presence = match presence {
            "p" => Presence::Pointer,
            "o" => Presence::Omitted,
            "n" => Presence::Null,
            _ => Presence::Zero,
        };
        Some(Self { name, number, presence, kind: Type::read(kind), marks })
    }

    /// Whether OpenAPI calls it required.
    pub(crate) fn is_required(&self) -> bool {
        self.is("r")
    }

    /// Whether it has a mark without a value.
    pub(crate) fn is(&self, wanted: &str) -> bool {
        self.marks.split(' ').any(|mark| mark == wanted)
    }

    /// What is said of it under a letter.
    pub(crate) fn mark(&self, letter: &str) -> Option<&'static str> {
        self.marks.split(' ').find_map(|mark| mark.strip_prefix(letter)?.strip_prefix('='))
    }
}

impl Type {
    /// Reads a type; what is not known is taken for a struct.
    pub(crate) fn read(text: &'static str) -> Self {
        if let Some(inner) = text.strip_prefix("[]") {
            return Self::List(inner);
        }
        if let Some(inner) = text.strip_prefix("<>") {
            return Self::Listed(inner);
        }
        if let Some(inner) = text.strip_prefix("{}") {
            return Self::Map(inner);
        }
        let (kind, go) = text.split_once('=').unwrap_or((text, ""));
        match kind {
            "string" => Self::Text(go),
            "bool" => Self::Bool(go),
            "int32" => Self::Int32(go),
            "int64" => Self::Int64(go),
            "float64" => Self::Double,
            "byte" => Self::Bytes,
            "time" => Self::Special(Special::Time),
            "microtime" => Self::Special(Special::MicroTime),
            "duration" => Self::Special(Special::Duration),
            "fields" => Self::Special(Special::Fields),
            "quantity" => Self::Special(Special::Quantity),
            "intorstring" => Self::Special(Special::IntOrString),
            "raw" => Self::Special(Special::Raw),
            "json" => Self::Special(Special::Json),
            "schemaorbool" => Self::Special(Special::SchemaOrBool),
            "schemaorarray" => Self::Special(Special::SchemaOrArray),
            "schemaorstrings" => Self::Special(Special::SchemaOrStrings),
            _ => Self::Struct(text),
        }
    }
}

fn blocks(text: &'static str) -> HashMap<&'static str, &'static str> {
    let mut found = HashMap::with_capacity(700);
    let mut start = 0;
    let mut at = 0;
    let mut add = |block: &'static str| {
        let end = block.find([' ', '\n']).unwrap_or(block.len());
        if end > 0 {
            found.insert(&block[..end], &block[end..]);
        }
    };
    for line in text.split_inclusive('\n') {
        if !line.starts_with(' ') && at > start {
            add(&text[start..at]);
            start = at;
        }
        at += line.len();
    }
    add(&text[start..]);
    found
}
