//! What the rules of a definition must be like.

use concert_api::{Fault, FieldError, FieldErrors};
use serde_json::Value;

use super::declare::LARGEST;
use super::{Compiled, Rule, compiled, field_path};
use crate::schema::{Additional, Kind, Schema};

/// The most that one rule may cost, at the worst.
const RULE_LIMIT: u64 = 10_000_000;
/// The most that all rules of a version may cost.
const TOTAL_LIMIT: u64 = 100_000_000;
/// How many of the dearest rules are named.
const NAMED: usize = 4;

/// What is wrong with the rules of a schema.
pub(in crate::schema) fn check(source: &Value, schema: &Schema, path: &str) -> FieldErrors {
    let mut checker = Checker { total: 0, dearest: Vec::new() };
    let found = checker.visit(source, schema, &Place { path, cardinality: Some(1), uncorrelatable: None, root: true });
    let mut errors = found.schema;
    errors.extend(found.rules);
    if checker.total > TOTAL_LIMIT {
        for (path, _) in &checker.dearest {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.push(FieldError::forbidden(path, detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(path, too_dear(what, checker.total, TOTAL_LIMIT)));
    }
    errors
}

/// Where a node stands.
struct Place<'p> {
    path: &'p str,
    /// How often it may occur in an object; `None` if nothing bounds it.
    cardinality: Option<u64>,
    /// The list whose items cannot be told apart, if it is inside of one.
    uncorrelatable: Option<&'p str>,
    root: bool,
}

/// Errors of how rules are written, and of the rules themselves.
#[derive(Default)]
struct Found {
    schema: FieldErrors,
    rules: FieldErrors,
}

struct Checker {
    total: u64,
    dearest: Vec<(String, u64)>,
}

impl Checker {
    fn visit(&mut self, source: &Value, schema: &Schema, place: &Place<'_>) -> Found {
        let mut found = Found::default();
        let node = schema.node();
        let path = place.path;
        let cardinality = place.cardinality.and_then(|times| Some(times.saturating_mul(most_children(schema)?)));
        let mut child = |checker: &mut Self, source: &Value, schema: &Schema, path: &str, uncorrelatable| {
            let below = checker.visit(source, schema, &Place { path, cardinality, uncorrelatable, root: false });
            found.schema.extend(below.schema);
            found.rules.extend(below.rules);
        };
        if let Additional::Schema(values) = &node.additional {
            let at = format!("{path}.additionalProperties");
            child(self, &source["additionalProperties"], values, &at, place.uncorrelatable);
        }
        for (name, property) in node.properties.iter() {
            let at = format!("{path}.properties[{name}]");
            child(self, &source["properties"][name], property, &at, place.uncorrelatable);
        }
        if let Some(items) = &node.items {
            let keyed = source["x-kubernetes-list-type"] == "map";
            let uncorrelatable = if keyed { place.uncorrelatable } else { Some(path) };
            child(self, &source["items"], items, &format!("{path}.items"), uncorrelatable);
        }
        for (index, rule) in node.rules.iter().enumerate() {
            let at = format!("{path}.x-kubernetes-validations[{index}]");
            check_written(rule, schema, &at, &mut found.schema);
        }
        if found.schema.is_empty() && !node.rules.is_empty() {
            let compiled = compiled(schema, place.root || node.embedded);
            self.check_compiled(compiled, &node.rules, place, &mut found.rules);
        }
        found
    }

    fn check_compiled(&mut self, compiled: &Compiled, sources: &[Value], place: &Place<'_>, errors: &mut FieldErrors) {
        let unbounded = compiled.declared.as_ref().map_or(LARGEST, |declared| LARGEST / (declared.least_bytes + 1));
        for (index, (rule, source)) in compiled.rules.iter().zip(sources).enumerate() {
            let at = format!("{}.x-kubernetes-validations[{index}]", place.path);
            let field = format!("{at}.rule");
            let once = rule.program().map_or(0, concert_cel::Program::max_cost);
            let cost = once.saturating_mul(place.cardinality.unwrap_or(unbounded));
            if cost > RULE_LIMIT {
                errors.push(FieldError::forbidden(&field, too_dear("estimated rule cost", cost, RULE_LIMIT)));
            }
            self.add(&field, cost);
            if let Some(Err(why)) = &rule.program {
                errors.push(FieldError::new(&field, Fault::InvalidShown(Some(shown(source))), why.as_str()));
            }
            self.check_message(rule, source, &at, errors);
            if rule.uses_old() {
                if let Some(list) = place.uncorrelatable {
                    let why =
                        format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
                    errors.push(FieldError::invalid(&field, rule.text.as_str(), why));
                }
            } else if source["optionalOldSelf"].is_boolean() {
                let detail = "may not be set if oldSelf is not used in rule";
                errors.push(FieldError::invalid(
                    format!("{at}.optionalOldSelf"),
                    source["optionalOldSelf"].clone(),
                    detail,
                ));
            }
        }
    }

    fn check_message(&mut self, rule: &Rule, source: &Value, at: &str, errors: &mut FieldErrors) {
        let field = format!("{at}.messageExpression");
        match &rule.message_expression {
            None => {}
            Some(Err(why)) => {
                errors.push(FieldError::new(&field, Fault::InvalidShown(Some(shown(source))), why.as_str()));
            }
            Some(Ok(program)) => {
                let cost = program.max_cost();
                if cost > RULE_LIMIT {
                    let detail = too_dear("estimated messageExpression cost", cost, RULE_LIMIT);
                    errors.push(FieldError::forbidden(&field, detail));
                }
                self.add(&field, cost);
            }
        }
    }

    fn add(&mut self, field: &str, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost < TOTAL_LIMIT / 100 {
            return;
        }
        self.dearest.push((field.to_owned(), cost));
        self.dearest.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        self.dearest.truncate(NAMED);
    }
}

/// How often a child of this node may occur in one of it.
fn most_children(schema: &Schema) -> Option<u64> {
    let node = schema.node();
    let most = match (node.kind, &node.additional) {
        (Some(Kind::Object), Additional::Unsaid) => return Some(1),
        (Some(Kind::Object), _) => node.limits().sizes.max_properties?,
        (Some(Kind::Array), _) => node.limits().sizes.max_items?,
        _ => return Some(1),
    };
    Some(u64::try_from(most).unwrap_or(0))
}

/// The Go struct of a rule, as messages print it.
fn shown(rule: &Value) -> String {
    let text = |name: &str| Value::from(rule[name].as_str().unwrap_or_default());
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        go_json(&text("rule")),
        go_json(&text("message")),
        go_json(&text("messageExpression")),
        go_json(&rule["reason"]),
        go_json(&text("fieldPath")),
        rule["optionalOldSelf"],
    )
}

/// JSON as Go writes it: `<`, `>` and `&` are escaped.
fn go_json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[expect(clippy::cast_precision_loss, reason = "a factor for people")]
fn too_dear(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// How a rule is written down, apart from its expressions.
fn check_written(rule: &Value, schema: &Schema, at: &str, errors: &mut FieldErrors) {
    let text = |name: &str| rule[name].as_str().unwrap_or_default();
    let broken = |text: &str| text.contains(['\n', '\r']);
    let (expression, message) = (text("rule").trim(), text("message").trim());
    let mut refuse = |name: &str, value: &str, detail: &str| {
        errors.push(FieldError::invalid(format!("{at}.{name}"), value, detail));
    };
    if expression.is_empty() {
        errors.push(FieldError::required(format!("{at}.rule"), "rule is not specified"));
    } else if !text("message").is_empty() && message.is_empty() {
        refuse("message", text("message"), "must be non-empty if specified");
    } else if broken(message) {
        refuse("message", text("message"), "must not contain line breaks");
    } else if broken(expression) && message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(format!("{at}.message"), detail));
    }
    if !text("messageExpression").is_empty() && text("messageExpression").trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(format!("{at}.messageExpression"), detail));
    }
    let reasons = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    if rule["reason"].is_string() && !reasons.contains(&text("reason")) {
        let fault = Fault::NotSupported(rule["reason"].clone(), reasons.map(str::to_owned).into());
        errors.push(FieldError::new(format!("{at}.reason"), fault, ""));
    }
    check_field_path(text("fieldPath"), schema, &format!("{at}.fieldPath"), errors);
}

fn check_field_path(path: &str, schema: &Schema, at: &str, errors: &mut FieldErrors) {
    if path.is_empty() {
        return;
    }
    let mut refuse = |detail: &str| errors.push(FieldError::invalid(at, path, detail));
    if path.trim().is_empty() {
        refuse("must be non-empty if specified");
    }
    if path.contains(['\n', '\r']) {
        refuse("must not contain line breaks");
    }
    if field_path::normalized(path, schema).is_none() {
        refuse("must be a valid path");
    }
}
