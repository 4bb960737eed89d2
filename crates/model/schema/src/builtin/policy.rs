//! Policies of admission and what binds them: how they have to look. Nothing is judged by them here.

use std::collections::{BTreeSet, HashSet};

use concert_api::{FieldErrors, names};
use serde_json::Value;

use super::judge::{Judge, count, items, text, texts};
use super::webhook::{check_conditions, check_rule, expression_fault};

const FAILURES: [&str; 2] = ["Fail", "Ignore"];
const ONE_ITEM: &str = "validations or auditAnnotations must contain at least one item";
/// What a policy may change a request in.
const CHANGING: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
const PATCHES: [&str; 2] = ["ApplyConfiguration", "JSONPatch"];
const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
const RESERVED: [&str; 22] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
    "",
];
/// What expressions can name beside what webhooks can; other names are not judged.
const UNKNOWN: [&str; 4] = ["authorizer", "variables", "Object", "JSONPatch"];

/// What a policy does with requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Judge,
    Change,
}

pub(super) fn check_validating(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    check_policy(spec, old, Act::Judge, &mut judge);
    if count(&spec["validations"]) + count(&spec["auditAnnotations"]) == 0 {
        judge.required("spec.validations", ONE_ITEM);
        judge.required("spec.auditAnnotations", ONE_ITEM);
        return judge.errors;
    }
    let before = old.map(|old| items(&old["spec"]["validations"], "")).unwrap_or_default();
    let before: HashSet<&str> = before.iter().map(|(_, validation)| text(&validation["expression"])).collect();
    for (place, validation) in items(&spec["validations"], "spec.validations") {
        check_validation(validation, spec, &before, &place, &mut judge);
    }
    check_annotations(object, &mut judge);
    judge.errors
}

pub(super) fn check_mutating(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    check_policy(spec, old, Act::Change, &mut judge);
    if count(&spec["mutations"]) == 0 {
        judge.required("spec.mutations", "mutations must contain at least one item");
    }
    for (place, mutation) in items(&spec["mutations"], "spec.mutations") {
        check_mutation(mutation, &place, &mut judge);
    }
    judge.one_of(&spec["reinvocationPolicy"], &["IfNeeded", "Never"], "spec.reinvocationPolicy");
    judge.errors
}

/// What both kinds of policies have.
fn check_policy(spec: &Value, old: Option<&Value>, act: Act, judge: &mut Judge) {
    judge.one_of(&spec["failurePolicy"], &FAILURES, "spec.failurePolicy");
    if spec["paramKind"].is_object() {
        check_parameter_kind(&spec["paramKind"], "spec.paramKind", judge);
    }
    let matched = &spec["matchConstraints"];
    if matched.is_object() {
        check_match(matched, "spec.matchConstraints", judge);
        if count(&matched["resourceRules"]) == 0 {
            judge.required("spec.matchConstraints.resourceRules", "");
        }
        if act == Act::Change {
            check_operations(matched, "spec.matchConstraints", judge);
        }
    } else {
        judge.required("spec.matchConstraints", "");
    }
    let was_there = |expression: &str| {
        let before = old.map(|old| items(&old["spec"]["matchConditions"], "")).unwrap_or_default();
        before.iter().any(|(_, condition)| text(&condition["expression"]).trim() == expression)
    };
    let further: &[&str] = if spec["paramKind"].is_object() { &["params"] } else { &[] };
    check_conditions(&spec["matchConditions"], further, was_there, "spec.matchConditions", judge);
    for (place, variable) in items(&spec["variables"], "spec.variables") {
        check_variable(variable, &place, judge);
    }
}

/// The kind of the objects that hold what a policy is told beside.
fn check_parameter_kind(kind: &Value, path: &str, judge: &mut Judge) {
    let field = format!("{path}.apiVersion");
    if judge.text(&kind["apiVersion"], &field) {
        check_version(text(&kind["apiVersion"]), &field, judge);
    }
    let field = format!("{path}.kind");
    if judge.text(&kind["kind"], &field) {
        let name = text(&kind["kind"]);
        let faults = names::dns_1035_faults(&name.to_lowercase());
        if !faults.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
            judge.invalid(field, name, detail);
        }
    }
}

fn check_version(whole: &str, field: &str, judge: &mut Judge) {
    let (group, version) = whole.split_once('/').unwrap_or(("", whole));
    if version.contains('/') {
        return judge.invalid(field, whole, format!("unexpected GroupVersion string: {whole}"));
    }
    let joined = |faults: Vec<String>| (!faults.is_empty()).then(|| faults.join(","));
    if let Some(faults) = joined(names::subdomain_faults(group)).filter(|_| !group.is_empty()) {
        judge.invalid(field, group, faults);
    }
    if version.is_empty() {
        judge.invalid(field, whole, "version must be specified");
    } else if let Some(faults) = joined(names::dns_1035_faults(version)) {
        judge.invalid(field, version, faults);
    }
}

/// Which requests are meant.
fn check_match(matched: &Value, path: &str, judge: &mut Judge) {
    judge.one_of(&matched["matchPolicy"], &["Equivalent", "Exact"], &format!("{path}.matchPolicy"));
    for name in ["namespaceSelector", "objectSelector"] {
        judge.selector(&matched[name], &format!("{path}.{name}"));
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for (place, rule) in items(&matched[list], &format!("{path}.{list}")) {
            let mut known = BTreeSet::new();
            for (place, name) in items(&rule["resourceNames"], &format!("{place}.resourceNames")) {
                let name = text(name);
                judge.faults(name, names::path_segment_faults(name), &place);
                if !known.insert(name) {
                    judge.duplicate(place, name);
                }
            }
            check_rule(rule, &place, judge);
        }
    }
}

/// What is deleted is not changed before.
fn check_operations(matched: &Value, path: &str, judge: &mut Judge) {
    for (_, rule) in items(&matched["resourceRules"], "") {
        for operation in texts(&rule["operations"]).into_iter().filter(|one| !CHANGING.contains(one)) {
            judge.not_supported(operation, &CHANGING, &format!("{path}.resourceRules.operations"));
        }
    }
}

fn check_variable(variable: &Value, path: &str, judge: &mut Judge) {
    let name = text(&variable["name"]);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    if name.trim().is_empty() {
        judge.required(format!("{path}.name"), "name is not specified");
    } else if !starts || !name.bytes().all(fits) || RESERVED.contains(&name) {
        judge.invalid(format!("{path}.name"), name, "must be a valid CEL identifier");
    }
    if text(&variable["expression"]).trim().is_empty() {
        judge.required(format!("{path}.expression"), "expression is not specified");
    }
}

fn check_validation(validation: &Value, spec: &Value, before: &HashSet<&str>, path: &str, judge: &mut Judge) {
    const EMPTY: &str = "must be non-empty if specified";
    let expression = text(&validation["expression"]);
    let further: &[&str] = if spec["paramKind"].is_object() { &["params"] } else { &[] };
    if expression.trim().is_empty() {
        judge.required(format!("{path}.expression"), "expression is not specified");
    } else if !UNKNOWN.iter().any(|name| expression.contains(name))
        && !before.contains(expression)
        && let Some(fault) = expression_fault(expression, further)
    {
        judge.invalid(format!("{path}.expression"), expression, fault);
    }
    let (message, made) = (text(&validation["message"]), text(&validation["messageExpression"]));
    if !made.is_empty() && made.trim().is_empty() {
        judge.invalid(format!("{path}.messageExpression"), made, EMPTY);
    }
    if !message.is_empty() && message.trim().is_empty() {
        judge.invalid(format!("{path}.message"), message, EMPTY);
    } else if message.trim().contains(['\n', '\r']) {
        judge.invalid(format!("{path}.message"), message, "must not contain line breaks");
    }
    judge.choice(&validation["reason"], &REASONS, &format!("{path}.reason"));
}

fn check_annotations(object: &Value, judge: &mut Judge) {
    const FIELD: &str = "spec.auditAnnotations";
    let (annotations, name) = (&object["spec"]["auditAnnotations"], text(&object["metadata"]["name"]));
    let mut known = BTreeSet::new();
    if count(annotations) > 20 {
        judge.invalid(FIELD, annotations.clone(), "must not have more than 20 auditAnnotations");
    }
    for (place, annotation) in items(annotations, FIELD) {
        let (key, field) = (text(&annotation["key"]), format!("{place}.key"));
        let whole = format!("{name}/{key}");
        judge.faults(&whole, names::qualified_faults(&whole), &field);
        let (expression, value) = (text(&annotation["valueExpression"]).trim(), format!("{place}.valueExpression"));
        if expression.is_empty() {
            judge.required(value, "valueExpression is not specified");
        } else if expression.len() > 5 * 1024 {
            judge.required(value, "must not exceed 5120 bytes in length");
        }
        if !known.insert(key) {
            judge.duplicate(field, key);
        }
    }
}

/// A change in one of two forms, and not in the other.
fn check_mutation(mutation: &Value, path: &str, judge: &mut Judge) {
    let kind = text(&mutation["patchType"]);
    judge.one_of(&mutation["patchType"], &PATCHES, &format!("{path}.patchType"));
    let (own, other) = match kind {
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        _ => return,
    };
    if !mutation[own].is_object() {
        judge.required(format!("{path}.{own}"), &format!("must be specified when patchType is {kind}"));
    } else if text(&mutation[own]["expression"]).trim().is_empty() {
        judge.required(format!("{path}.{own}.expression"), "");
    }
    if mutation[other].is_object() {
        let detail = format!("must not be specified when patchType is {kind}");
        judge.invalid(format!("{path}.{other}"), format!("{{{other}}}"), detail);
    }
}

pub(super) fn check_validating_binding(object: &Value, _old: Option<&Value>) -> FieldErrors {
    const FIELD: &str = "spec.validationActions";
    let (mut judge, spec) = (Judge::default(), &object["spec"]);
    check_binding(spec, &mut judge);
    let actions = texts(&spec["validationActions"]);
    let mut known = BTreeSet::new();
    for (place, action) in actions.iter().enumerate() {
        let field = format!("{FIELD}[{place}]");
        if !ACTIONS.contains(action) {
            judge.not_supported(action, &ACTIONS, &field);
        }
        if !known.insert(*action) {
            judge.duplicate(field, action);
        }
    }
    if known.contains("Deny") && known.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        judge.invalid(FIELD, spec["validationActions"].clone(), detail);
    }
    // What rules of their own look at comes last.
    judge.text(&spec["policyName"], "spec.policyName");
    if actions.is_empty() {
        judge.required(FIELD, "");
    }
    judge.errors
}

pub(super) fn check_mutating_binding(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let (mut judge, spec) = (Judge::default(), &object["spec"]);
    judge.text(&spec["policyName"], "spec.policyName");
    check_binding(spec, &mut judge);
    check_operations(&spec["matchResources"], "spec.matchResources", &mut judge);
    judge.errors
}

/// What both kinds of bindings have.
fn check_binding(spec: &Value, judge: &mut Judge) {
    let name = text(&spec["policyName"]);
    if !name.is_empty() {
        judge.faults(name, names::subdomain_faults(name), "spec.policyName");
    }
    if spec["paramRef"].is_object() {
        check_parameters(&spec["paramRef"], "spec.paramRef", judge);
    }
    if spec["matchResources"].is_object() {
        check_match(&spec["matchResources"], "spec.matchResources", judge);
    }
}

/// Which objects a policy is told beside: one of a name, or those that are selected.
fn check_parameters(parameters: &Value, path: &str, judge: &mut Judge) {
    const BOTH: &str = "name and selector are mutually exclusive";
    let (name, selects) = (text(&parameters["name"]), parameters["selector"].is_object());
    let both = !name.is_empty() && selects;
    if !name.is_empty() {
        judge.faults(name, names::path_segment_faults(name), &format!("{path}.name"));
    }
    if both {
        judge.forbidden(format!("{path}.name"), BOTH);
    }
    judge.selector(&parameters["selector"], &format!("{path}.selector"));
    if both {
        judge.forbidden(format!("{path}.selector"), BOTH);
    }
    if name.is_empty() && !selects {
        judge.required(path, "one of name or selector must be specified");
    }
    let action = format!("{path}.parameterNotFoundAction");
    judge.one_of(&parameters["parameterNotFoundAction"], &["Deny", "Allow"], &action);
}
