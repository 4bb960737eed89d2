//! The functions there are: one line of `functions.txt` per overload.
//!
//! A line is `function overload target.(arguments) result`; capital letters are type parameters. What is there is what
//! kube-apiserver 1.37 lets a new rule use: no `cel.bind`, no `math.*`, no `includes`.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::types::Type;

/// One signature of a function.
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    /// Called on its first argument.
    pub(crate) member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    /// Names of its type parameters.
    pub(crate) parameters: Vec<Arc<str>>,
}

static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    for line in include_str!("functions.txt").lines() {
        if let Some((function, overload)) = read(line) {
            functions.entry(function).or_default().push(overload);
        }
    }
    functions
});

/// The overloads of a function, in order.
pub(crate) fn overloads(function: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(function.trim_start_matches('.')).map(Vec::as_slice)
}

/// A function's name as declared.
pub(crate) fn name(function: &str) -> Option<&'static str> {
    FUNCTIONS.get_key_value(function.trim_start_matches('.')).map(|(name, _)| *name)
}

fn read(line: &'static str) -> Option<(&'static str, Overload)> {
    let (function, rest) = line.split_once(' ')?;
    let (id, rest) = rest.split_once(' ')?;
    // The list of arguments stands between the first "(" after a blank or a dot and its ")".
    let (target, rest) = match rest.split_once(".(") {
        Some((target, rest)) => (Some(target), rest),
        None => (None, rest.strip_prefix('(')?),
    };
    let (args, result) = rest.rsplit_once(") ")?;
    let args: Vec<Type> = target.into_iter().chain(args.split(' ')).filter(|one| !one.is_empty()).map(parse).collect();
    let result = parse(result);
    let mut parameters = Vec::new();
    args.iter().chain([&result]).for_each(|one| collect(one, &mut parameters));
    Some((function, Overload { id, member: target.is_some(), args, result, parameters }))
}

fn collect(of: &Type, parameters: &mut Vec<Arc<str>>) {
    match of {
        Type::Param(name) if !parameters.contains(name) => parameters.push(Arc::clone(name)),
        Type::List(of) | Type::Type(Some(of)) => collect(of, parameters),
        Type::Map(key, value) => [key, value].into_iter().for_each(|one| collect(one, parameters)),
        Type::Opaque(_, of) => of.iter().for_each(|one| collect(one, parameters)),
        _ => {}
    }
}

fn parse(text: &str) -> Type {
    if let Some((outer, inner)) = text.split_once('(') {
        let inner = &inner[..inner.len() - 1];
        return match outer {
            "list" => Type::list(parse(inner)),
            "optional" => Type::optional(parse(inner)),
            "type" => Type::Type(Some(Arc::new(parse(inner)))),
            _ => {
                let (key, value) = inner.split_once(',').unwrap_or((inner, "dyn"));
                Type::map(parse(key), parse(value))
            }
        };
    }
    match text {
        "ip" => Type::Opaque("net.IP", Vec::new()),
        "cidr" => Type::Opaque("net.CIDR", Vec::new()),
        "quantity" => Type::Object("kubernetes.Quantity".into()),
        "url" => Type::Object("kubernetes.URL".into()),
        "semver" => Type::Object("kubernetes.Semver".into()),
        "format" => Type::Object("kubernetes.NamedFormat".into()),
        "authorizer" => Type::Object("kubernetes.authorization.Authorizer".into()),
        "path_check" => Type::Object("kubernetes.authorization.PathCheck".into()),
        "group_check" => Type::Object("kubernetes.authorization.GroupCheck".into()),
        "resource_check" => Type::Object("kubernetes.authorization.ResourceCheck".into()),
        "decision" => Type::Object("kubernetes.authorization.Decision".into()),
        simple => match named(simple) {
            Some(Type::Type(Some(of))) => (*of).clone(),
            _ => Type::Param(simple.into()),
        },
    }
}

/// The type of a type's name, as `int` or `google.protobuf.Duration`.
pub(crate) fn named(name: &str) -> Option<Type> {
    let of = match name.trim_start_matches('.') {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "duration" | "google.protobuf.Duration" => Type::Duration,
        "dyn" => Type::Dyn,
        "int" => Type::Int,
        "list" => Type::list(Type::Param("A".into())),
        "map" => Type::map(Type::Param("A".into()), Type::Param("B".into())),
        "null_type" => Type::Null,
        "string" => Type::String,
        "timestamp" | "google.protobuf.Timestamp" => Type::Timestamp,
        "type" => Type::Type(None),
        "uint" => Type::Uint,
        "optional_type" => Type::optional(Type::Param("V".into())),
        "net.IP" => Type::Opaque("net.IP", Vec::new()),
        "net.CIDR" => Type::Opaque("net.CIDR", Vec::new()),
        _ => return None,
    };
    Some(Type::Type(Some(Arc::new(of))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = include_str!("functions.txt").lines().count();
        assert_eq!(FUNCTIONS.values().map(Vec::len).sum::<usize>(), lines);
    }
}
