//! Why bytes that are JSON are no object of their kind, in the words of Go's decoder.

use concert_api::{FieldError, FieldErrors, Time, names};
use serde_json::Value;

use super::path::Path;
use super::{Additional, Kind, Node, Schema, member_path};
use crate::builtin::quantity;
use crate::meta;

const DNS_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// The first value of the wrong type in what is decoded into the Go struct `name`.
pub(super) fn fault(schema: &Schema, value: &Value, name: &str) -> Option<String> {
    Place { structure: name, path: String::new() }.fault(schema, value)
}

/// Why a custom resource cannot be decoded.
pub(super) fn custom_fault(schema: &Schema, object: &Value) -> Option<String> {
    if let Some(fault) = object.get("metadata").and_then(metadata_fault) {
        return Some(fault);
    }
    let mut found = None;
    visit_embedded(schema, object, &Path::TOP, &mut |path, resource| {
        if found.is_none() {
            found = embedded_fault(path, resource);
        }
    });
    found
}

fn embedded_fault(path: &Path<'_>, resource: &Value) -> Option<String> {
    for name in ["apiVersion", "kind"] {
        let value = resource.get(name).filter(|value| !value.is_string());
        if let Some(value) = value {
            return Some(format!("{path}.{name}: Invalid value: {value}: must be a string"));
        }
    }
    let metadata = resource.get("metadata")?;
    metadata_fault(metadata).map(|fault| format!("{path}.metadata: Invalid value: {metadata}: {fault}"))
}

fn metadata_fault(metadata: &Value) -> Option<String> {
    match metadata {
        Value::Object(_) | Value::Null => fault(meta::schema(), metadata, "ObjectMeta"),
        other => Some(format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", found(other))),
    }
}

/// What is wrong with the identity and the metadata of embedded objects.
pub(super) fn embedded_errors(schema: &Schema, object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    visit_embedded(schema, object, &Path::TOP, &mut |path, resource| check_embedded(path, resource, &mut errors));
    errors
}

/// What is wrong with the identity and the metadata of a default at a place, and of the embedded objects inside.
pub(super) fn default_errors(schema: &Schema, default: &Value, is_resource: bool, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = Path::Root(path);
    if is_resource && default.is_object() {
        check_embedded(&path, default, &mut errors);
    }
    visit_embedded(schema, default, &path, &mut |path, resource| check_embedded(path, resource, &mut errors));
    errors
}

/// Visits every embedded object inside (not the object itself).
fn visit_embedded(schema: &Schema, value: &Value, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, &Value)) {
    let mut enter = |schema: &Schema, value: &Value, path: &Path<'_>| {
        if schema.is_embedded_resource() && value.is_object() {
            visit(path, value);
        }
        visit_embedded(schema, value, path, visit);
    };
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(schema) = schema.member(name) {
                    enter(schema, member, &Path::Member(path, name));
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return };
            for (index, item) in items.iter().enumerate() {
                enter(schema, item, &Path::Item(path, index));
            }
        }
        _ => {}
    }
}

fn check_embedded(path: &Path<'_>, resource: &Value, errors: &mut FieldErrors) {
    if errors.is_full() {
        return;
    }
    match resource["apiVersion"].as_str().unwrap_or_default() {
        "" => errors.push(FieldError::required(format!("{path}.apiVersion"), "")),
        version if version.matches('/').count() > 1 => {
            let detail = format!("unexpected GroupVersion string: {version}");
            errors.push(FieldError::invalid(format!("{path}.apiVersion"), version, detail));
        }
        _ => {}
    }
    match resource["kind"].as_str().unwrap_or_default() {
        "" => errors.push(FieldError::required(format!("{path}.kind"), "")),
        kind if !is_dns_1035(&kind.to_lowercase()) => {
            let detail = format!("may have mixed case, but should otherwise match: {DNS_1035}");
            errors.push(FieldError::invalid(format!("{path}.kind"), kind, detail));
        }
        _ => {}
    }
    let metadata = &resource["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let faults = names::path_segment_faults(name).into_iter();
    errors.extend(faults.map(|fault| FieldError::invalid(format!("{path}.metadata.name"), name, fault)));
    errors.extend(names::check_labels(&metadata["labels"], &format!("{path}.metadata.labels")));
    errors.extend(names::check_annotations(&metadata["annotations"], &format!("{path}.metadata.annotations")));
}

/// What is wrong with a name that must be a DNS-1035 label.
pub(crate) fn dns_1035_faults(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > 63 {
        faults.push("must be no more than 63 characters".to_owned());
    }
    if !is_dns_1035(name) {
        faults.push(DNS_1035.to_owned());
    }
    faults
}

fn is_dns_1035(name: &str) -> bool {
    names::label_faults(name).iter().all(|fault| fault.starts_with("must be no more"))
        && name.starts_with(|first: char| first.is_ascii_lowercase())
}

/// Why a tree cannot be made a Go struct, where it is not read from text.
pub(super) fn restore_fault(schema: &Schema, value: &Value) -> Option<String> {
    let node = schema.node();
    let is_structure = !node.properties.is_empty() || !node.go_type().is_empty();
    match (value, node.kind) {
        (Value::Null, _) => None,
        (_, Some(_)) if matches!(node.go_type(), "v1.FieldsV1" | "runtime.RawExtension") => None,
        // These read themselves.
        (_, None) => Place { structure: "", path: String::new() }.special_fault(node, value),
        (Value::String(text), Some(Kind::String)) if &*node.format_name == "byte" => {
            base64_fault(text).map(|at| format!("error decoding from json: illegal base64 data at input byte {at}"))
        }
        (Value::String(text), Some(Kind::String)) => text_fault(node, text),
        (_, Some(Kind::String)) if matches!(node.go_type(), "v1.Time" | "v1.MicroTime") => {
            Some(format!("json: cannot unmarshal {} into Go value of type string", found(value)))
        }
        (Value::Object(members), Some(Kind::Object)) => {
            members.iter().find_map(|(name, member)| restore_fault(schema.member(name)?, member))
        }
        (Value::Array(items), Some(Kind::Array)) => {
            let schema = schema.items()?;
            items.iter().find_map(|item| restore_fault(schema, item))
        }
        (_, Some(Kind::Object)) if is_structure => Some(format!("cannot restore struct from: {}", go_kind(value))),
        (_, Some(Kind::Object)) => Some(format!("cannot restore map from {}", go_kind(value))),
        (_, Some(Kind::Array)) => Some(format!("cannot restore slice from {}", go_kind(value))),
        (_, Some(Kind::String)) if &*node.format_name == "byte" => {
            Some(format!("cannot restore slice from {}", go_kind(value)))
        }
        (Value::Bool(_), Some(Kind::Boolean)) | (Value::Number(_), Some(Kind::Number)) => None,
        (Value::Number(number), Some(Kind::Integer)) if number.is_i64() => None,
        (Value::Number(number), Some(Kind::String)) if number.is_i64() => {
            Some(format!("cannot convert int64 to {}", go_type(node)))
        }
        (Value::Number(_), Some(Kind::Integer)) => Some(format!("cannot convert float64 to {}", go_type(node))),
        (_, Some(Kind::String)) => Some("unrecognized type: string".to_owned()),
        (_, Some(_)) => Some(format!("unrecognized type: {}", go_type(node))),
    }
}

/// Cuts numbers that have more than 32 bits where they have room for no more: so does Go with a tree.
pub(super) fn cut_numbers(schema: &Schema, value: &mut Value) {
    let node = schema.node();
    match value {
        Value::Object(members) => members.iter_mut().for_each(|(name, member)| {
            if let Some(schema) = schema.member(name) {
                cut_numbers(schema, member);
            }
        }),
        Value::Array(items) => {
            if let Some(schema) = schema.items() {
                items.iter_mut().for_each(|item| cut_numbers(schema, item));
            }
        }
        Value::Number(number) if node.kind == Some(Kind::Integer) && &*node.format_name == "int32" => {
            #[expect(clippy::cast_possible_truncation, reason = "Go cuts it off, too")]
            if let Some(long) = number.as_i64() {
                *number = (long as i32).into();
            }
        }
        _ => {}
    }
}

/// What Go calls a value that was read from JSON.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

/// Where a value stands: in which Go struct, and its path from the root without indices and map keys.
struct Place<'a> {
    structure: &'a str,
    path: String,
}

impl Place<'_> {
    fn fault(&self, schema: &Schema, value: &Value) -> Option<String> {
        let node = schema.node();
        match (value, node.kind) {
            (Value::Null, _) => None,
            (_, None) => self.special_fault(node, value),
            (Value::Object(members), Some(Kind::Object)) => {
                let structure = node.go_type().rsplit('.').next().filter(|name| !name.is_empty());
                let structure = if self.path.is_empty() { self.structure } else { structure.unwrap_or(self.structure) };
                members.iter().find_map(|(name, member)| match node.properties.get(name) {
                    Some(schema) => Place { structure, path: member_path(&self.path, name) }.fault(schema, member),
                    None => Place { structure, path: self.path.clone() }.fault(schema.member(name)?, member),
                })
            }
            (Value::Array(items), Some(Kind::Array)) => {
                let schema = schema.items()?;
                items.iter().find_map(|item| self.fault(schema, item))
            }
            (Value::String(text), Some(Kind::String)) => text_fault(node, text),
            (Value::Bool(_), Some(Kind::Boolean)) | (Value::Number(_), Some(Kind::Number)) => None,
            (Value::Number(_), Some(Kind::Integer)) if fits(node, value) => None,
            (Value::Number(number), Some(Kind::Integer)) => Some(self.wrong(&format!("number {number}"), node)),
            // Go keeps these as they are.
            (_, Some(_)) if matches!(node.go_type(), "v1.FieldsV1" | "runtime.RawExtension") => None,
            (other, Some(_)) => Some(self.wrong(found(other), node)),
        }
    }

    /// Amounts, and what may be a number or a text.
    fn special_fault(&self, node: &Node, value: &Value) -> Option<String> {
        match (node.go_type(), value) {
            // What is neither text nor number is read as if it were an amount written so.
            ("resource.Quantity", Value::String(_) | Value::Number(_)) => quantity::fault(value),
            ("resource.Quantity", other) => quantity::fault(&other.to_string().into()),
            ("intstr.IntOrString", Value::String(_)) => None,
            ("intstr.IntOrString", Value::Number(number)) => {
                let fits = number.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
                let wrong = || format!("json: cannot unmarshal number {number} into Go value of type int32");
                (!fits).then(wrong)
            }
            ("intstr.IntOrString", other) => {
                Some(format!("json: cannot unmarshal {} into Go value of type int32", found(other)))
            }
            _ => None,
        }
    }

    fn wrong(&self, found: &str, node: &Node) -> String {
        let Self { structure, path } = self;
        format!("json: cannot unmarshal {found} into Go struct field {structure}.{path} of type {}", go_type(node))
    }
}

fn fits(node: &Node, value: &Value) -> bool {
    match &*node.format_name {
        "int32" => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        _ => value.is_i64(),
    }
}

fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn go_type(node: &Node) -> String {
    let of = |schema: &Schema| go_type(schema.node());
    match node.kind {
        Some(Kind::String) if matches!(node.go_type(), "v1.Time" | "v1.MicroTime") => "string".to_owned(),
        _ if !node.go_type().is_empty() => node.go_type().to_owned(),
        Some(Kind::String) if &*node.format_name == "byte" => "[]uint8".to_owned(),
        Some(Kind::String) | None => "string".to_owned(),
        Some(Kind::Boolean) => "bool".to_owned(),
        Some(Kind::Number) => "float64".to_owned(),
        Some(Kind::Integer) if &*node.format_name == "int32" => "int32".to_owned(),
        Some(Kind::Integer) => "int64".to_owned(),
        Some(Kind::Array) => format!("[]{}", node.items.as_ref().map_or_else(String::new, of)),
        Some(Kind::Object) => match &node.additional {
            Additional::Schema(schema) => format!("map[string]{}", of(schema)),
            _ => "map[string]interface {}".to_owned(),
        },
    }
}

fn text_fault(node: &Node, text: &str) -> Option<String> {
    match node.go_type() {
        "v1.Time" => time_fault(text, "2006-01-02T15:04:05Z07:00"),
        "v1.MicroTime" => time_fault(text, "2006-01-02T15:04:05.000000Z07:00"),
        _ if &*node.format_name == "byte" => {
            base64_fault(text).map(|at| format!("illegal base64 data at input byte {at}"))
        }
        _ => None,
    }
}

fn time_fault(text: &str, layout: &str) -> Option<String> {
    let (rest, part) = if text.parse::<Time>().is_err() {
        (text, "2006")
    } else {
        let fraction = &text[19..];
        let digits = fraction.bytes().skip(1).take_while(u8::is_ascii_digit).count();
        let is_micro = layout.contains(".000000");
        if is_micro && !(fraction.starts_with('.') && digits >= 6) {
            (fraction, ".000000")
        } else {
            // Microseconds have six digits and no more, and the zone is not spelled `z`.
            let zone = if is_micro {
                &fraction[7..]
            } else {
                fraction.trim_start_matches(['.', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
            };
            if zone.starts_with(['Z', '+', '-']) {
                return None;
            }
            (zone, "Z07:00")
        }
    };
    Some(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {part:?}"))
}

/// Where base64 goes wrong, as Go counts; line ends are not looked at.
pub(crate) fn base64_fault(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate().filter(|(_, byte)| !b"\r\n".contains(byte)).peekable();
    loop {
        for place in 0..4 {
            let Some((at, byte)) = bytes.next() else {
                return (place > 0).then(|| text.len() - place);
            };
            match byte {
                b'=' if place < 2 => return Some(at),
                b'=' => {
                    if place == 2 {
                        match bytes.next() {
                            None => return Some(text.len()),
                            Some((at, byte)) if byte != b'=' => return Some(at - 1),
                            Some(_) => {}
                        }
                    }
                    return bytes.peek().map(|(at, _)| *at);
                }
                b'+' | b'/' => {}
                _ if byte.is_ascii_alphanumeric() => {}
                _ => return Some(at),
            }
        }
    }
}
