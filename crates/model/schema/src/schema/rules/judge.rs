//! Running rules on an object.

use concert_api::{Fault, FieldError, FieldErrors};
use concert_cel::{Budget, Declared, Program, RunError};
use serde_json::Value;

use super::{Compiled, OLD_SELF, Rule, SELF, compiled};
use crate::schema::listtype::{self, Counterparts};
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
    if errors.iter().any(blocks) {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        errors.push(FieldError::invalid("<nil>", Value::Null, detail));
        return Vec::new();
    }
    let mut judge = Judge { left: OBJECT_BUDGET, errors: FieldErrors::new(), warnings: Vec::new() };
    let at = Place { value: object, old, was: old, parent: None, root: true };
    // A spent budget is told by an error already.
    let _ = judge.visit(schema, &at, "");
    errors.extend(judge.errors);
    judge.warnings
}

/// Runs the rules of a default, as it would be before and after.
pub(in crate::schema) fn judge_default(schema: &Schema, default: &Value, path: &str) -> FieldErrors {
    let run = |old: Option<&Value>| {
        let mut judge = Judge { left: OBJECT_BUDGET, errors: FieldErrors::new(), warnings: Vec::new() };
        let at = Place { value: default, old, was: None, parent: None, root: schema.node().embedded };
        let _ = judge.visit(schema, &at, path);
        judge.errors
    };
    let errors = run(Some(default));
    if errors.is_empty() { run(None) } else { errors }
}

/// Errors after which rules might see what they cannot expect.
fn blocks(error: &FieldError) -> bool {
    match error.fault {
        Fault::NotSupported(..) | Fault::Required | Fault::TooLong | Fault::TooMany(_) | Fault::TypeInvalid(_) => true,
        Fault::Invalid(_)
        | Fault::InvalidShown(_)
        | Fault::Duplicate(_)
        | Fault::DuplicateUnshown
        | Fault::NotFound(_)
        | Fault::Forbidden => false,
    }
}

/// A value, what it was, and what it is compared with to forgive what has not changed.
struct Place<'v> {
    value: &'v Value,
    /// What rules call `oldSelf`.
    old: Option<&'v Value>,
    /// What it was, where that can be told.
    was: Option<&'v Value>,
    /// The nearest ancestor that can be told, if this cannot.
    parent: Option<(&'v Schema, &'v Value, &'v Value)>,
    root: bool,
}

/// The budget of the object is spent.
struct Spent;

struct Judge {
    left: u64,
    errors: FieldErrors,
    warnings: Vec<String>,
}

impl Judge {
    fn visit<'v>(&mut self, schema: &'v Schema, place: &Place<'v>, path: &str) -> Result<(), Spent> {
        if place.value.is_null() {
            return Ok(());
        }
        if !schema.has_rules() {
            return Ok(());
        }
        let compiled = compiled(schema, place.root || schema.node().embedded);
        if !compiled.rules.is_empty() {
            self.run_rules(compiled, schema, place, path)?;
        }
        match place.value {
            Value::Array(items) => self.visit_items(schema, items, place, path),
            Value::Object(_) => self.visit_members(schema, place, path),
            _ => Ok(()),
        }
    }

    fn visit_items<'v>(
        &mut self,
        schema: &'v Schema,
        items: &'v [Value],
        place: &Place<'v>,
        path: &str,
    ) -> Result<(), Spent> {
        let Some(child) = schema.items() else { return Ok(()) };
        let (olds, wases) = (Counterparts::new(schema, place.old), Counterparts::new(schema, place.was));
        for (index, item) in items.iter().enumerate() {
            let (old, was) = (olds.of(item), wases.of(item));
            let below = Place { value: item, old, was, parent: self.ancestor(schema, place), root: false };
            self.visit(child, &below, &format!("{path}[{index}]"))?;
        }
        Ok(())
    }

    fn visit_members<'v>(&mut self, schema: &'v Schema, place: &Place<'v>, path: &str) -> Result<(), Spent> {
        let node = schema.node();
        let members = place.value.as_object().into_iter().flatten();
        for (name, member) in members {
            let (child, at) = match (node.properties.get(name), &node.additional) {
                (Some(child), _) if path.is_empty() => (child, name.clone()),
                (Some(child), _) => (child, format!("{path}.{name}")),
                (None, Additional::Schema(child)) => (child, format!("{path}[{name}]")),
                (None, Additional::Unsaid | Additional::Any | Additional::Never) => continue,
            };
            let get = |from: Option<&'v Value>| from.and_then(|from| from.get(name)).filter(|from| !from.is_null());
            let unseen = place.root && place.parent.is_none() && matches!(name.as_str(), "apiVersion" | "kind");
            let below = Place {
                value: member,
                old: get(place.old),
                was: if unseen { None } else { get(place.was) },
                parent: if unseen { None } else { self.ancestor(schema, place) },
                root: false,
            };
            self.visit(child, &below, &at)?;
        }
        Ok(())
    }

    /// What a part of this value is compared with if it has no counterpart of its own.
    fn ancestor<'v>(&self, schema: &'v Schema, place: &Place<'v>) -> Option<(&'v Schema, &'v Value, &'v Value)> {
        match place.was {
            Some(was) => Some((schema, place.value, was)),
            None => place.parent,
        }
    }

    fn run_rules(&mut self, compiled: &Compiled, schema: &Schema, place: &Place<'_>, path: &str) -> Result<(), Spent> {
        let Some(declared) = &compiled.declared else { return Ok(()) };
        let kind = schema.kind().map_or("", Kind::name);
        let at = if path.is_empty() { "<nil>" } else { path };
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
                Ok(_) => self.broken(rule, schema, place, path, declared)?,
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
    fn broken(
        &mut self,
        rule: &Rule,
        schema: &Schema,
        place: &Place<'_>,
        path: &str,
        declared: &Declared,
    ) -> Result<(), Spent> {
        let forgiven = !rule.uses_old() && place.is_unchanged(schema);
        let at = match (path.is_empty(), rule.field_path.is_empty()) {
            (true, true) => "<nil>".to_owned(),
            (false, true) => path.to_owned(),
            (true, false) => rule.field_path.clone(),
            (false, false) => format!("{path}.{}", rule.field_path),
        };
        let kind = schema.kind().map_or("", Kind::name);
        let detail = match self.message(rule, place, declared) {
            Ok(message) => message.unwrap_or_else(|| rule.detail()),
            Err(why) => {
                self.add(FieldError::invalid(at, kind, why), forgiven);
                return Err(Spent);
            }
        };
        let unshown = matches!(schema.kind(), Some(Kind::Object | Kind::Array));
        let fault = match rule.reason.as_str() {
            "FieldValueForbidden" => Fault::Forbidden,
            "FieldValueRequired" => Fault::Required,
            "FieldValueDuplicate" if unshown => Fault::DuplicateUnshown,
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
            self.warnings.push(error.to_string());
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

impl Place<'_> {
    /// Whether the value, or the nearest part around it that can be told, is as it was.
    fn is_unchanged(&self, schema: &Schema) -> bool {
        match (self.was, self.parent) {
            (Some(was), _) => listtype::unchanged(schema, self.value, was),
            (None, Some((schema, value, was))) => listtype::unchanged(schema, value, was),
            (None, None) => false,
        }
    }
}
