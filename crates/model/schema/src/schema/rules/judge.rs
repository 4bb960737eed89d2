//! Running rules on an object.

use std::cell::OnceCell;

use concert_api::{Fault, FieldError, FieldErrors};
use concert_cel::{Budget, Declared, Program, RunError};
use serde_json::Value;

use super::{Compiled, OLD_SELF, Rule, SELF, compiled};
use crate::schema::listtype::{self, Counterparts};
use crate::schema::path::Path;
use crate::schema::{Additional, Kind, Schema};

/// What all rules may cost on one object.
const OBJECT_BUDGET: u64 = 10_000_000;
/// What one rule may cost.
const RULE_BUDGET: u64 = 1_000_000;
/// The longest message that an expression may make.
const LONGEST_MESSAGE: usize = 5 << 10;

const SPENT: &str = "validation failed due to running out of cost budget, no further validation rules will be run";

/// Runs all rules of an object; see [`Schema::check_rules`].
pub(in crate::schema) fn judge(
    schema: &Schema,
    object: &Value,
    old: Option<&Value>,
    errors: &mut FieldErrors,
) -> Vec<String> {
    if !schema.has_rules() {
        return Vec::new();
    }
    if errors.is_full() || errors.iter().any(blocks) {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        errors.push(FieldError::invalid("<nil>", Value::Null, detail));
        return Vec::new();
    }
    let mut judge = Judge::new();
    let at = Place { schema, value: object, old, was: old, same: OnceCell::new(), parent: None, root: true };
    // A spent budget is told by an error already.
    let _ = judge.visit(&at, &Path::TOP);
    errors.extend(judge.errors);
    judge.forgiven.iter().map(ToString::to_string).collect()
}

/// Runs the rules of a default, as it would be before and after.
pub(in crate::schema) fn judge_default(schema: &Schema, default: &Value, path: &str) -> FieldErrors {
    let run = |old: Option<&Value>| {
        let mut judge = Judge::new();
        let root = schema.node().embedded;
        let at = Place { schema, value: default, old, was: None, same: OnceCell::new(), parent: None, root };
        let _ = judge.visit(&at, &Path::Root(path));
        judge.errors
    };
    let errors = run(Some(default));
    if errors.is_empty() { run(None) } else { errors }
}

/// Errors after which rules might see what they cannot expect.
fn blocks(error: &FieldError) -> bool {
    match error.fault {
        Fault::NotSupported(..)
        | Fault::NotSupportedShown(..)
        | Fault::Required
        | Fault::TooLong
        | Fault::TooMany(_)
        | Fault::TypeInvalid(_) => true,
        Fault::Invalid(_)
        | Fault::InvalidShown(_)
        | Fault::Duplicate(_)
        | Fault::DuplicateShown(_)
        | Fault::NotFound(_)
        | Fault::Forbidden => false,
    }
}

/// A value, what it was, and what it is compared with to forgive what has not changed.
struct Place<'v> {
    schema: &'v Schema,
    value: &'v Value,
    /// What rules call `oldSelf`.
    old: Option<&'v Value>,
    /// What it was, where that can be told.
    was: Option<&'v Value>,
    /// Whether it is what it was; asked at most once, because many rules may break in one place.
    same: OnceCell<bool>,
    /// The nearest ancestor that can be told, if this cannot.
    parent: Option<&'v Place<'v>>,
    root: bool,
}

/// The budget of the object is spent.
struct Spent;

struct Judge {
    left: u64,
    errors: FieldErrors,
    /// What was wrong before.
    forgiven: FieldErrors,
}

impl Judge {
    fn new() -> Self {
        Self { left: OBJECT_BUDGET, errors: FieldErrors::new(), forgiven: FieldErrors::new() }
    }

    fn visit(&mut self, place: &Place<'_>, path: &Path<'_>) -> Result<(), Spent> {
        let schema = place.schema;
        if place.value.is_null() || !schema.has_rules() {
            return Ok(());
        }
        let compiled = compiled(schema, place.root || schema.node().embedded);
        if !compiled.rules.is_empty() {
            self.run_rules(compiled, place, path)?;
        }
        match place.value {
            Value::Array(items) => self.visit_items(items, place, path),
            Value::Object(_) => self.visit_members(place, path),
            _ => Ok(()),
        }
    }

    fn visit_items(&mut self, items: &[Value], place: &Place<'_>, path: &Path<'_>) -> Result<(), Spent> {
        let Some(schema) = place.schema.items() else { return Ok(()) };
        let (olds, wases) = (Counterparts::new(place.schema, place.old), Counterparts::new(place.schema, place.was));
        for (index, item) in items.iter().enumerate() {
            let (old, was) = (olds.of(item), wases.of(item));
            let parent = place.nearest();
            let below = Place { schema, value: item, old, was, same: OnceCell::new(), parent, root: false };
            self.visit(&below, &Path::Item(path, index))?;
        }
        Ok(())
    }

    fn visit_members(&mut self, place: &Place<'_>, path: &Path<'_>) -> Result<(), Spent> {
        let node = place.schema.node();
        let members = place.value.as_object().into_iter().flatten();
        for (name, member) in members {
            let (schema, at) = match (node.properties.get(name), &node.additional) {
                (Some(schema), _) => (schema, Path::Member(path, name)),
                (None, Additional::Schema(schema)) => (schema, Path::Entry(path, name)),
                (None, Additional::Unsaid | Additional::Any | Additional::Never) => continue,
            };
            let of_old = place.old.and_then(|old| old.get(name)).filter(|old| !old.is_null());
            let of_was = place.was.and_then(|was| was.get(name)).filter(|was| !was.is_null());
            let unseen = place.root && place.parent.is_none() && matches!(name.as_str(), "apiVersion" | "kind");
            let below = Place {
                schema,
                value: member,
                old: of_old,
                was: if unseen { None } else { of_was },
                same: OnceCell::new(),
                parent: if unseen { None } else { place.nearest() },
                root: false,
            };
            self.visit(&below, &at)?;
        }
        Ok(())
    }

    fn run_rules(&mut self, compiled: &Compiled, place: &Place<'_>, path: &Path<'_>) -> Result<(), Spent> {
        let Some(declared) = &compiled.declared else { return Ok(()) };
        let kind = place.schema.kind().map_or("", Kind::name);
        let at = if path.is_empty() { &Path::Root("<nil>") } else { path };
        for rule in &compiled.rules {
            let program = match &rule.program {
                None => continue,
                Some(Ok(program)) => program,
                Some(Err(why)) => {
                    self.errors.push(FieldError::invalid(at, kind, format!("rule compile error: {why}")));
                    continue;
                }
            };
            if rule.uses_old() && place.old.is_none() && !rule.optional_old {
                continue;
            }
            let (result, cost) = run(program, rule, place, declared, RULE_BUDGET);
            if cost > self.left {
                self.errors.push(FieldError::invalid(at, kind, SPENT));
                return Err(Spent);
            }
            self.left -= cost;
            match result {
                Ok(Value::Bool(true)) => {}
                Ok(_) => self.broken(rule, place, path, declared)?,
                Err(RunError::Spent) => {
                    let why = "operation cancelled: actual cost limit exceeded";
                    let detail = format!(
                        "'{why}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                        rule.shown()
                    );
                    self.errors.push(FieldError::invalid(at, kind, detail));
                    return Err(Spent);
                }
                Err(RunError::Failed(why)) => {
                    let detail = if why.starts_with("no such overload") {
                        format!(
                            "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                            rule.shown()
                        )
                    } else {
                        format!("{why} evaluating rule: {}", rule.shown())
                    };
                    self.errors.push(FieldError::invalid(at, kind, detail));
                }
            }
        }
        Ok(())
    }

    /// A rule that does not hold.
    fn broken(&mut self, rule: &Rule, place: &Place<'_>, path: &Path<'_>, declared: &Declared) -> Result<(), Spent> {
        let forgiven = !rule.uses_old() && place.is_unchanged();
        if (if forgiven { &self.forgiven } else { &self.errors }).is_full() {
            return Ok(());
        }
        let at = match (path.is_empty(), rule.field_path.is_empty()) {
            (true, true) => "<nil>".to_owned(),
            (false, true) => path.to_string(),
            (true, false) => rule.field_path.clone(),
            (false, false) => format!("{path}.{}", rule.field_path),
        };
        let kind = place.schema.kind().map_or("", Kind::name);
        let detail = match self.message(rule, place, declared) {
            Ok(message) => message.unwrap_or_else(|| rule.detail()),
            Err(why) => {
                self.add(FieldError::invalid(at, kind, why), forgiven);
                return Err(Spent);
            }
        };
        let unshown = matches!(place.schema.kind(), Some(Kind::Object | Kind::Array));
        let fault = match rule.reason.as_str() {
            "FieldValueForbidden" => Fault::Forbidden,
            "FieldValueRequired" => Fault::Required,
            "FieldValueDuplicate" if unshown => Fault::DuplicateShown(None),
            "FieldValueDuplicate" => Fault::Duplicate(place.value.clone()),
            _ if unshown => Fault::InvalidShown(None),
            _ => Fault::Invalid(place.value.clone()),
        };
        let detail = if rule.reason == "FieldValueDuplicate" { String::new() } else { detail };
        self.add(FieldError::new(at, fault, detail), forgiven);
        Ok(())
    }

    fn add(&mut self, error: FieldError, forgiven: bool) {
        if forgiven {
            self.forgiven.push(error);
        } else {
            self.errors.push(error);
        }
    }

    /// The message that the rule's expression makes; `None` if it makes no good one, an error if the budget is spent.
    fn message(&mut self, rule: &Rule, place: &Place<'_>, declared: &Declared) -> Result<Option<String>, String> {
        let Some(Ok(program)) = &rule.message_expression else { return Ok(None) };
        let (result, cost) = run(program, rule, place, declared, RULE_BUDGET);
        if cost > self.left {
            let why = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
            return Err(why.to_owned());
        }
        self.left -= cost;
        match result {
            Err(RunError::Spent) => Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {:?}",
                rule.text
            )),
            Ok(Value::String(text)) => {
                let text = text.trim();
                let good = !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
                Ok(good.then(|| text.to_owned()))
            }
            _ => Ok(None),
        }
    }
}

fn run(
    program: &Program,
    rule: &Rule,
    place: &Place<'_>,
    declared: &Declared,
    budget: u64,
) -> (Result<Value, RunError>, u64) {
    let variables = [(SELF, Some(place.value)), (OLD_SELF, place.old)];
    let optionals: &[&str] = if rule.optional_old { &[OLD_SELF] } else { &[] };
    let outcome = program.run_with(&variables, optionals, declared, Budget(budget));
    (outcome.result, outcome.cost)
}

impl<'v> Place<'v> {
    /// What a part of this value is compared with if it has no counterpart of its own.
    fn nearest(&'v self) -> Option<&'v Self> {
        if self.was.is_some() { Some(self) } else { self.parent }
    }

    /// Whether the value, or the nearest part around it that can be told, is as it was.
    fn is_unchanged(&self) -> bool {
        match (self.was, self.parent) {
            (Some(was), _) => *self.same.get_or_init(|| listtype::unchanged(self.schema, self.value, was)),
            (None, Some(parent)) => parent.is_unchanged(),
            (None, None) => false,
        }
    }
}
