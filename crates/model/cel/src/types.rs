//! Types, and how they fit together.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The type of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Anything: decided when it runs.
    Dyn,
    /// Of an expression with a mistake.
    Error,
    /// `null`.
    Null,
    /// `bool`.
    Bool,
    /// 64 bits, signed.
    Int,
    /// 64 bits, unsigned.
    Uint,
    /// A 64-bit float.
    Double,
    /// Unicode text.
    String,
    /// Bytes.
    Bytes,
    /// A span of time.
    Duration,
    /// A point in time.
    Timestamp,
    /// A type as a value.
    Type(Option<Arc<Type>>),
    /// A list.
    List(Arc<Type>),
    /// A map.
    Map(Arc<Type>, Arc<Type>),
    /// An object with declared fields, by name.
    Object(Arc<str>),
    /// A type of a library, by name, with parameters (`optional_type(int)`).
    Opaque(&'static str, Vec<Type>),
    /// A type still to be found.
    Param(Arc<str>),
}

/// The name of optional values' type.
pub(crate) const OPTIONAL: &str = "optional_type";

impl Type {
    pub(crate) fn list(of: Self) -> Self {
        Self::List(Arc::new(of))
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub(crate) fn optional(of: Self) -> Self {
        Self::Opaque(OPTIONAL, vec![of])
    }

    /// What an optional holds; the type itself if it is none.
    pub(crate) fn unwrapped(&self) -> (&Self, bool) {
        match self {
            Self::Opaque(OPTIONAL, parameters) if parameters.len() == 1 => (&parameters[0], true),
            other => (other, false),
        }
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Its size is known to be one.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Double | Self::Duration | Self::Int | Self::Timestamp | Self::Uint => true,
            other => matches!(other.unwrapped(), (inner, true) if inner.is_scalar()),
        }
    }

    fn is_nullable(&self) -> bool {
        matches!(self, Self::Null | Self::Opaque(..) | Self::Object(_) | Self::Duration | Self::Timestamp)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let simple = match self {
            Self::Dyn => "dyn",
            Self::Error => "!error!",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "duration",
            Self::Timestamp => "timestamp",
            Self::Type(None) => "type",
            Self::Object(name) | Self::Param(name) => name,
            Self::Type(Some(of)) => return write!(f, "type({of})"),
            Self::List(of) => return write!(f, "list({of})"),
            Self::Map(key, value) => return write!(f, "map({key}, {value})"),
            Self::Opaque(name, parameters) if parameters.is_empty() => name,
            Self::Opaque(name, parameters) => {
                let parameters: Vec<String> = parameters.iter().map(ToString::to_string).collect();
                return write!(f, "{name}({})", parameters.join(", "));
            }
        };
        f.write_str(simple)
    }
}

/// What is known of types still to be found. A failed attempt leaves no trace.
#[derive(Default)]
pub(crate) struct Bindings {
    found: HashMap<Arc<str>, Type>,
    /// What was there before each change, to undo an attempt.
    trail: Vec<(Arc<str>, Option<Type>)>,
}

impl Bindings {
    fn bind(&mut self, name: &Arc<str>, to: Type) {
        let before = self.found.insert(Arc::clone(name), to);
        self.trail.push((Arc::clone(name), before));
    }

    /// Whether all of `from` fit their counterparts in `to`; if so, what follows from it is remembered.
    pub(crate) fn assign_all(&mut self, from: &[Type], to: &[Type]) -> bool {
        self.trail.clear();
        let fits = from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.fits(from, to, 0));
        if !fits {
            while let Some((name, before)) = self.trail.pop() {
                match before {
                    Some(before) => self.found.insert(name, before),
                    None => self.found.remove(&name),
                };
            }
        }
        fits
    }

    pub(crate) fn assign(&mut self, from: &Type, to: &Type) -> bool {
        self.assign_all(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    fn fits(&mut self, from: &Type, to: &Type, depth: usize) -> bool {
        if depth > 100 {
            return false;
        }
        if let Type::Param(name) = to {
            let (valid, known) = self.substitutes(from, to, name, depth);
            if valid || known {
                return valid;
            }
        }
        if let Type::Param(name) = from {
            return self.substitutes(to, from, name, depth).0;
        }
        if from.is_dyn_or_error() || to.is_dyn_or_error() {
            return true;
        }
        match (from, to) {
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::Type(_), other) => matches!(other, Type::Type(_)),
            (Type::List(a), Type::List(b)) => self.fits(a, b, depth + 1),
            (Type::Map(ka, va), Type::Map(kb, vb)) => self.fits(ka, kb, depth + 1) && self.fits(va, vb, depth + 1),
            (Type::Opaque(a, pa), Type::Opaque(b, pb)) => {
                a == b && pa.len() == pb.len() && pa.iter().zip(pb).all(|(a, b)| self.fits(a, b, depth + 1))
            }
            (a, b) => a == b,
        }
    }

    /// Whether the parameter may stand for `wanted`, and whether it already stands for something.
    fn substitutes(&mut self, wanted: &Type, parameter: &Type, name: &Arc<str>, depth: usize) -> (bool, bool) {
        if wanted == parameter {
            return (true, true);
        }
        if let Some(bound) = self.found.get(name).cloned() {
            if *wanted == bound {
                return (true, true);
            }
            if !self.fits(wanted, &bound, depth + 1) {
                return (false, true);
            }
            let general = most_general(wanted, &bound).clone();
            if self.is_free_of(parameter, &general) {
                self.bind(name, general);
            }
            return (true, true);
        }
        if self.is_free_of(parameter, wanted) {
            self.bind(name, wanted.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Whether a parameter does not occur in a type.
    fn is_free_of(&self, parameter: &Type, within: &Type) -> bool {
        if parameter == within {
            return false;
        }
        match within {
            Type::Param(name) => self.found.get(name).is_none_or(|bound| self.is_free_of(parameter, bound)),
            Type::List(of) | Type::Type(Some(of)) => self.is_free_of(parameter, of),
            Type::Map(key, value) => self.is_free_of(parameter, key) && self.is_free_of(parameter, value),
            Type::Opaque(_, parameters) => parameters.iter().all(|one| self.is_free_of(parameter, one)),
            _ => true,
        }
    }

    /// The type with everything found put in; with `settle`, what was not found is dynamic.
    pub(crate) fn resolve(&self, of: &Type, settle: bool) -> Type {
        match of {
            Type::Param(name) => match self.found.get(name) {
                Some(bound) => self.resolve(bound, settle),
                None if settle => Type::Dyn,
                None => of.clone(),
            },
            Type::List(of) => Type::list(self.resolve(of, settle)),
            Type::Map(key, value) => Type::map(self.resolve(key, settle), self.resolve(value, settle)),
            Type::Type(Some(of)) => Type::Type(Some(Arc::new(self.resolve(of, settle)))),
            Type::Opaque(name, parameters) => {
                Type::Opaque(name, parameters.iter().map(|one| self.resolve(one, settle)).collect())
            }
            other => other.clone(),
        }
    }
}

/// Of two types that fit, the one that says less.
pub(crate) fn most_general<'t>(a: &'t Type, b: &'t Type) -> &'t Type {
    if is_no_more_specific(a, b) { a } else { b }
}

fn is_no_more_specific(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::Opaque(na, pa), Type::Opaque(nb, pb)) => {
            na == nb && pa.len() == pb.len() && pa.iter().zip(pb).all(|(a, b)| is_no_more_specific(a, b))
        }
        (Type::List(a), Type::List(b)) => is_no_more_specific(a, b),
        (Type::Map(ka, va), Type::Map(kb, vb)) => is_no_more_specific(ka, kb) && is_no_more_specific(va, vb),
        (Type::Type(_), Type::Type(_)) => true,
        (a, b) => a == b,
    }
}
