//! Judging values, in the words and with the habits of the Go validator of the real server.

use concert_api::{Fault, FieldError, FieldErrors, quoted};
use serde_json::{Map, Value};

use super::path::Path;
use super::{Additional, Kind, Node, Schema, listtype, number, unplaced};

/// What a judgement found.
#[derive(Default)]
struct Verdict {
    errors: FieldErrors,
    /// How many nodes were looked at: of several failing alternatives, the one that got furthest is told about.
    seen: usize,
}

/// What is wrong with a value. Parts that are equal in `old` are not judged.
pub(super) fn errors(schema: &Schema, value: &Value, old: Option<&Value>) -> FieldErrors {
    let mut verdict = Verdict::default();
    judge(schema, value, old, &Path::TOP, &mut verdict);
    verdict.errors
}

fn judge(schema: &Schema, value: &Value, old: Option<&Value>, path: &Path<'_>, verdict: &mut Verdict) {
    if verdict.errors.is_full() || old.is_some_and(|old| listtype::unchanged(schema, value, old)) {
        return;
    }
    verdict.seen += 1;
    let node = schema.node();
    check_type(node, value, path, &mut verdict.errors);
    if value.is_null() {
        check_choices(node, value, path, &mut verdict.errors);
        return;
    }
    check_alternatives(node, value, path, verdict);
    match value {
        Value::String(text) => check_text(node, text, path, &mut verdict.errors),
        Value::Number(_) => check_number(node, value, path, &mut verdict.errors),
        Value::Array(items) => check_items(schema, items, old, path, verdict),
        _ => {}
    }
    check_choices(node, value, path, &mut verdict.errors);
    if let Value::Object(members) = value {
        check_members(node, members, old, path, verdict);
    }
}

fn check_type(node: &Node, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let expected = match (node.kind, node.int_or_string) {
        (None, false) => return,
        (None, true) => "integer,string",
        (Some(kind), _) => kind.name(),
    };
    let found = type_name(value);
    let fits = match value {
        Value::Null => node.nullable,
        _ => expected.split(',').any(|one| one == found) || (expected == "number" && found == "integer"),
    };
    if fits {
        return;
    }
    let is_sized = matches!(&*node.format_name, "int32" | "int64" | "float" | "double");
    let (expected, found) = match value {
        _ if node.format.is_none() && !is_sized => (expected, found),
        // The real server leaves lists to the format, which only looks at texts.
        Value::Array(_) if !is_sized => return,
        Value::Null | Value::Array(_) | Value::String(_) => (expected, found),
        // Formats are told apart by Go types.
        Value::Bool(_) | Value::Object(_) => (&*node.format_name, ""),
        Value::Number(number) => (&*node.format_name, if number.is_i64() { "int64" } else { "float64" }),
    };
    let detail = format!("{path} in body must be of type {expected}: {found:?}");
    errors.push(FieldError::new(path, Fault::TypeInvalid(found.into()), detail));
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if number::is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn check_text(node: &Node, text: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if let Some(error) = text_error(node, text, path) {
        errors.push(error);
    }
    if let Some(format) = &node.format
        && !format.accepts(text)
    {
        let detail = format!("{path} in body must be of type {}: {}", node.format_name, quoted(text));
        errors.push(FieldError::new(path, Fault::TypeInvalid(text.into()), detail));
    }
}

/// The first rule a text breaks; the others are not told.
fn text_error(node: &Node, text: &str, path: &Path<'_>) -> Option<FieldError> {
    if !matches!(node.kind, Some(Kind::String) | None) {
        return None;
    }
    let length = size(text.chars().count());
    if let Some(most) = node.limits().sizes.max_length.filter(|most| length > *most) {
        return Some(FieldError::new(path, Fault::TooLong, format!("may not be more than {most} bytes")));
    }
    if let Some(least) = node.limits().sizes.min_length.filter(|least| length < *least) {
        let detail = format!("{path} in body should be at least {least} chars long");
        return Some(FieldError::invalid(path, text, detail));
    }
    let pattern = node.limits().pattern.as_ref().filter(|pattern| !pattern.matches(text))?;
    Some(FieldError::invalid(path, text, format!("{path} in body should match '{}'", pattern.text)))
}

fn check_number(node: &Node, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let integer = node.kind == Some(Kind::Integer);
    let fits = match &*node.format_name {
        "int32" if integer => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        _ => number::is_integer(value),
    };
    if integer && !fits {
        let format = match &*node.format_name {
            "int32" => "with format int32",
            "int64" => "with format int64",
            _ => "(default format)",
        };
        errors.push(unplaced(format!("Checked value must be of type integer {format} in {path}")));
    }
    #[expect(clippy::cast_possible_truncation, reason = "what is too large becomes infinite")]
    let too_large = value.as_f64().is_some_and(|number| (number as f32).is_infinite());
    if node.kind == Some(Kind::Number) && &*node.format_name == "float" && too_large {
        errors.push(unplaced(format!("Checked value must be of type number with format float in {path}")));
    }
    node.limits().bounds.check(value, path, errors);
}

fn check_items(schema: &Schema, items: &[Value], old: Option<&Value>, path: &Path<'_>, verdict: &mut Verdict) {
    let node = schema.node();
    if let Some(child) = &node.items {
        let counterparts = listtype::Counterparts::new(schema, old);
        for (index, item) in items.iter().enumerate() {
            judge(child, item, counterparts.of(item), &Path::Item(path, index), verdict);
        }
    }
    let count = size(items.len());
    if let Some(least) = node.limits().sizes.min_items.filter(|least| count < *least) {
        let detail = format!("{path} in body should have at least {least} items");
        verdict.errors.push(FieldError::invalid(path, count, detail));
    }
    if let Some(most) = node.limits().sizes.max_items.filter(|most| count > *most) {
        verdict.errors.push(too_many(path, items.len(), most));
    }
}

fn check_choices(node: &Node, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let choices = &node.limits().choices;
    if choices.is_empty() || choices.iter().any(|choice| is_chosen(choice, value)) {
        return;
    }
    let told = choices.iter().map(|choice| match choice {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    errors.push(FieldError::new(path, Fault::NotSupported(value.clone(), told.collect()), ""));
}

/// Whether a value is a choice once Go has made it one of the choice's type: a fraction is cut off, and an integer is
/// the letter with that number. Nothing is never chosen.
fn is_chosen(choice: &Value, value: &Value) -> bool {
    match (choice, value) {
        (_, Value::Null) => false,
        (Value::Number(choice), Value::Number(number)) if choice.is_i64() => {
            number.as_i64() == choice.as_i64() || number.as_f64().map(f64::trunc) == choice.as_f64()
        }
        (Value::Number(choice), Value::Number(number)) => choice.as_f64() == number.as_f64(),
        (Value::String(choice), Value::Number(number)) => number.as_i64().is_some_and(|number| {
            let letter = u32::try_from(number).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            choice.chars().eq([letter])
        }),
        (choice, value) => choice == value,
    }
}

fn check_members(
    node: &Node,
    members: &Map<String, Value>,
    old: Option<&Value>,
    path: &Path<'_>,
    verdict: &mut Verdict,
) {
    let count = size(members.len());
    if let Some(least) = node.limits().sizes.min_properties.filter(|least| count < *least) {
        let detail = format!("{path} in body should have at least {least} properties");
        verdict.errors.push(FieldError::invalid(path, count, detail));
    }
    if let Some(most) = node.limits().sizes.max_properties.filter(|most| count > *most) {
        verdict.errors.push(too_many(path, members.len(), most));
    }
    for name in node.required.iter().filter(|name| !members.contains_key(*name)) {
        verdict.errors.push(FieldError::required(&Path::Member(path, name), ""));
    }
    for (name, member) in members {
        let member_path = Path::Member(path, name);
        let old = old.and_then(|old| old.get(name));
        match (node.properties.get(name), &node.additional) {
            (Some(schema), _) | (None, Additional::Schema(schema)) => {
                judge(schema, member, old, &member_path, verdict);
            }
            (None, Additional::Never) => {
                let detail = format!("{member_path} in body is a forbidden property");
                verdict.errors.push(FieldError::invalid(path, name.as_str(), detail));
            }
            (None, Additional::Any | Additional::Unsaid) => {}
        }
    }
}

fn check_alternatives(node: &Node, value: &Value, path: &Path<'_>, verdict: &mut Verdict) {
    let judged = |schema: &Schema| {
        let mut verdict = Verdict::default();
        judge(schema, value, None, path, &mut verdict);
        verdict
    };
    if !node.limits().any_of.is_empty() {
        let verdicts: Vec<Verdict> = node.limits().any_of.iter().map(judged).collect();
        if verdicts.iter().all(|one| !one.errors.is_empty()) {
            verdict.errors.push(unplaced(format!("{:?} must validate at least one schema (anyOf)", path.to_string())));
            verdict.errors.extend(best(verdicts));
        }
    }
    if !node.limits().one_of.is_empty() {
        let verdicts: Vec<Verdict> = node.limits().one_of.iter().map(judged).collect();
        let valid = verdicts.iter().filter(|one| one.errors.is_empty()).count();
        let only = format!("{:?} must validate one and only one schema (oneOf).", path.to_string());
        if valid == 0 {
            verdict.errors.push(unplaced(format!("{only} Found none valid")));
            verdict.errors.extend(best(verdicts));
        } else if valid > 1 {
            verdict.errors.push(unplaced(format!("{only} Found {valid} valid alternatives")));
        }
    }
    let failed: Vec<Verdict> = node.limits().all_of.iter().map(judged).filter(|one| !one.errors.is_empty()).collect();
    if !failed.is_empty() {
        let none = if failed.len() == node.limits().all_of.len() { ". None validated" } else { "" };
        verdict.errors.extend(failed.into_iter().flat_map(|one| one.errors));
        verdict.errors.push(unplaced(format!("{:?} must validate all the schemas (allOf){none}", path.to_string())));
    }
    if node.limits().not.as_ref().is_some_and(|not| judged(not).errors.is_empty()) {
        verdict.errors.push(unplaced(format!("{:?} must not validate the schema (not)", path.to_string())));
    }
}

/// The errors of the first alternative that got furthest.
fn best(verdicts: Vec<Verdict>) -> FieldErrors {
    let mut best = Verdict::default();
    for verdict in verdicts {
        if verdict.seen > best.seen {
            best = verdict;
        }
    }
    best.errors
}

fn too_many(path: &Path<'_>, count: usize, most: i64) -> FieldError {
    FieldError::new(path, Fault::TooMany(count), format!("must have at most {most} items"))
}

fn size(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
