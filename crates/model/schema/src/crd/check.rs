//! The rules of definitions, in the words of the real server.

use concert_api::{Fault, FieldError, FieldErrors, names};
use serde_json::Value;

use super::{list, text};
use crate::schema::{dns_1035_faults, is_uri};
use crate::{JsonPath, Kind, Schema};

/// Domains whose groups need an approval.
const PROTECTED: [&str; 2] = ["k8s.io", "kubernetes.io"];

/// What is wrong with a definition; `old` is what it was before an update.
pub(crate) fn check(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = spec(object).0;
    match old {
        Some(old) => {
            // What it is made of cannot change, and that is said there.
            errors.retain(|error| error.field != "metadata.name");
            check_update(object, old, &mut errors);
        }
        None => check_stored(object, &mut errors),
    }
    errors
}

/// What is wrong with the spec, and the compiled schema of each version.
pub(super) fn spec(object: &Value) -> (FieldErrors, Vec<Schema>) {
    let mut errors = FieldErrors::new();
    let spec = &object["spec"];
    let (plural, group) = (text(&spec["names"]["plural"]), text(&spec["group"]));
    let name = text(&object["metadata"]["name"]);
    if name != format!("{plural}.{group}") {
        errors.push(FieldError::invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group"));
    }
    check_group(object, &group, &mut errors);
    check_scope(&spec["scope"], &mut errors);
    if spec["preserveUnknownFields"] == true {
        let detail =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, detail));
    }
    let schemas = check_versions(&spec["versions"], &mut errors);
    check_names(&spec["names"], &mut errors);
    check_conversion(&spec["conversion"], &mut errors);
    (errors, schemas)
}

fn check_group(object: &Value, group: &str, errors: &mut FieldErrors) {
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
        return;
    }
    let faults = names::subdomain_faults(group).into_iter();
    errors.extend(faults.map(|fault| FieldError::invalid("spec.group", group, fault)));
    if !group.contains('.') && names::subdomain_faults(group).is_empty() {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid("spec.group", group, detail));
    }
    let annotation = "api-approved.kubernetes.io";
    let protected = PROTECTED.iter().any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    if protected {
        check_approval(text(&object["metadata"]["annotations"][annotation]), annotation, errors);
    }
}

/// The approval is where it was given, or why there is none.
fn check_approval(approval: String, annotation: &str, errors: &mut FieldErrors) {
    let field = format!("metadata.annotations[{annotation}]");
    let must = format!("protected groups must have approval annotation {annotation:?}");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let is_url = is_uri(&approval)
        && approval.split_once("://").is_some_and(|(_, rest)| !rest.is_empty() && !rest.starts_with(['/', '?', '#']));
    if approval.is_empty() {
        errors.push(FieldError::required(field, format!("{must}, {see}")));
    } else if !is_url && !approval.starts_with("unapproved") {
        let detail = format!("{must} with either a URL or a reason starting with \"unapproved\", {see}");
        errors.push(FieldError::invalid(field, approval, detail));
    }
}

fn check_scope(scope: &Value, errors: &mut FieldErrors) {
    match scope.as_str().unwrap_or_default() {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => {
            let all = vec!["Cluster".to_owned(), "Namespaced".to_owned()];
            errors.push(FieldError::new("spec.scope", Fault::NotSupported(other.into(), all), ""));
        }
    }
}

fn check_versions(versions: &Value, errors: &mut FieldErrors) -> Vec<Schema> {
    let all: Vec<&Value> = list(versions).collect();
    let mut schemas = Vec::new();
    for (index, version) in all.iter().enumerate() {
        let at = format!("spec.versions[{index}]");
        let name = text(&version["name"]);
        for fault in dns_1035_faults(&name) {
            errors.push(FieldError::invalid(format!("{at}.name"), name.as_str(), fault.clone()));
            // The first one has a second place in the real server's form of it.
            let has_another = index == 0 && !name.is_empty();
            errors.extend(has_another.then(|| FieldError::invalid("spec.version", name.as_str(), fault)));
        }
        let warning = &version["deprecationWarning"];
        if warning.is_string() && version["deprecated"] != true {
            let field = format!("{at}.deprecationWarning");
            errors.push(FieldError::invalid(field, warning.clone(), "can only be set for deprecated versions"));
        }
        if warning == "" {
            let field = format!("{at}.deprecationWarning");
            errors.push(FieldError::invalid(field, "", "must not be an empty string"));
        }
        schemas.extend(check_version(version, &all, &at, errors));
    }
    let mut fail = |detail: &str| {
        let fault = Fault::InvalidShown(Some(shown(versions, &all)));
        errors.push(FieldError::new("spec.versions", fault, detail));
    };
    if all.iter().enumerate().any(|(index, version)| all[..index].iter().any(|other| other["name"] == version["name"]))
    {
        fail("must contain unique version names");
    }
    if all.iter().filter(|version| version["storage"] == true).count() != 1 {
        fail("must have exactly one version marked as storage version");
    }
    schemas
}

/// The Go struct behind the versions, as messages print it, in the order of its fields. What every version says alike
/// stands elsewhere in it.
fn shown(versions: &Value, all: &[&Value]) -> String {
    if versions.is_null() {
        return "null".to_owned();
    }
    let show = |version: &&Value| {
        let is = |name: &str| version[name] == true;
        format!(
            r#"{{"Name":{},"Served":{},"Storage":{},"Deprecated":{},"DeprecationWarning":{},"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}}"#,
            version["name"],
            is("served"),
            is("storage"),
            is("deprecated"),
            version["deprecationWarning"]
        )
    };
    format!("[{}]", all.iter().map(show).collect::<Vec<_>>().join(","))
}

fn check_version(version: &Value, all: &[&Value], at: &str, errors: &mut FieldErrors) -> Option<Schema> {
    // What all versions say alike is reported once, at the place it had before versions could differ.
    let place = |member: &str, shared: &str, own: &str| {
        let same = all.iter().all(|other| other[member] == version[member]);
        if same { format!("spec.{shared}") } else { format!("{at}.{own}") }
    };
    let repeated = all.first().is_some_and(|first| !std::ptr::eq(*first, version));
    let mut found = FieldErrors::new();
    let mut keep = |member: &str, found: &mut FieldErrors| {
        let same = all.iter().all(|other| other[member] == version[member]);
        let news = std::mem::take(found);
        if !(same && repeated) {
            errors.extend(news);
        }
    };
    check_columns(
        version,
        &place("additionalPrinterColumns", "additionalPrinterColumns", "additionalPrinterColumns"),
        &mut found,
    );
    keep("additionalPrinterColumns", &mut found);
    check_scale(&version["subresources"]["scale"], &place("subresources", "subresources", "subresources"), &mut found);
    keep("subresources", &mut found);
    let source = &version["schema"]["openAPIV3Schema"];
    if !source.is_object() {
        found.push(FieldError::required(format!("{at}.schema.openAPIV3Schema"), ""));
        errors.extend(found);
        return None;
    }
    let schema = Schema::compile(source, &place("schema", "validation.openAPIV3Schema", "schema.openAPIV3Schema"));
    let schema = schema.map_err(|why| found.extend(why)).ok();
    keep("schema", &mut found);
    if let Some(schema) = &schema {
        check_selectable(
            version,
            schema,
            &place("selectableFields", "selectableFields", "selectableFields"),
            &mut found,
        );
        keep("selectableFields", &mut found);
    }
    schema
}

fn check_columns(version: &Value, at: &str, errors: &mut FieldErrors) {
    for (index, column) in list(&version["additionalPrinterColumns"]).enumerate() {
        let at = format!("{at}[{index}]");
        let value = |name: &str| column[name].as_str().unwrap_or_default();
        if value("name").is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        }
        let mut one_of = |name: &str, all: &str, may_be_empty: bool| match value(name) {
            "" if may_be_empty => {}
            "" => errors.push(FieldError::required(format!("{at}.{name}"), format!("must be one of {all}"))),
            found if !all.split(',').any(|one| one == found) => {
                errors.push(FieldError::invalid(format!("{at}.{name}"), found, format!("must be one of {all}")));
            }
            _ => {}
        };
        one_of("type", "boolean,date,integer,number,string", false);
        one_of("format", "byte,date,date-time,double,float,int32,int64,password", true);
        check_path(value("jsonPath"), &format!("{at}.JSONPath"), true, errors);
    }
}

fn check_path(path: &str, field: &str, required: bool, errors: &mut FieldErrors) -> bool {
    if path.is_empty() {
        if required {
            errors.push(FieldError::required(field, ""));
        }
        return false;
    }
    if !path.starts_with('.') {
        errors.push(FieldError::invalid(field, path, "must be a simple json path starting with ."));
        return false;
    }
    true
}

fn check_scale(scale: &Value, at: &str, errors: &mut FieldErrors) {
    if !scale.is_object() {
        return;
    }
    let mut under = |name: &str, required: bool, roots: &[&str], detail: &str| {
        let field = format!("{at}.scale.{name}");
        let path = scale[name].as_str().unwrap_or_default();
        if check_path(path, &field, required, errors) && !roots.iter().any(|root| path.starts_with(root)) {
            errors.push(FieldError::invalid(field, path, detail));
        }
    };
    under("specReplicasPath", true, &[".spec."], "should be a json path under .spec");
    under("statusReplicasPath", true, &[".status."], "should be a json path under .status");
    let detail = "should be a json path under either .spec or .status";
    under("labelSelectorPath", false, &[".spec.", ".status."], detail);
}

fn check_selectable(version: &Value, schema: &Schema, at: &str, errors: &mut FieldErrors) {
    let mut seen = Vec::new();
    for (index, field) in list(&version["selectableFields"]).enumerate() {
        let path = field["jsonPath"].as_str().unwrap_or_default();
        let at = format!("{at}[{index}].jsonPath");
        if path.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else if let Some(fault) = selectable_fault(schema, path) {
            errors.push(FieldError::invalid(at, path, fault));
        } else if seen.contains(&path) {
            errors.push(FieldError::new(at, Fault::Duplicate(path.into()), ""));
        } else {
            seen.push(path);
        }
    }
}

fn selectable_fault(schema: &Schema, path: &str) -> Option<String> {
    let wrong = |why: &str| Some(format!("is an invalid path: {why}"));
    if !path.starts_with('.') {
        let head = path.split(['.', '[']).next().unwrap_or_default();
        return wrong(&format!("expected [ or . but got: {head}"));
    }
    if path.contains('[') {
        return wrong("array notation is not allowed");
    }
    let parsed = JsonPath::parse(path).ok();
    let members = parsed.as_ref().and_then(JsonPath::members).filter(|members| members.first() != Some(&"metadata"));
    let mut at = schema;
    for name in members.unwrap_or_else(|| vec![""]) {
        match at.member(name) {
            Some(child) => at = child,
            None => return wrong("does not refer to a valid field"),
        }
    }
    let fits = matches!(at.kind(), Some(Kind::String | Kind::Integer | Kind::Boolean));
    let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
    (!fits).then(|| detail.to_owned())
}

fn check_names(found: &Value, errors: &mut FieldErrors) {
    let mut label = |name: &str, mixed_case: bool| {
        let field = format!("spec.names.{name}");
        let value = text(&found[name]);
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
            return;
        }
        let judged = if mixed_case { value.to_lowercase() } else { value.clone() };
        let prefix = if mixed_case { "may have mixed case, but should otherwise match: " } else { "" };
        let faults = dns_1035_faults(&judged).into_iter();
        errors.extend(faults.map(|fault| FieldError::invalid(&field, value.as_str(), format!("{prefix}{fault}"))));
    };
    label("plural", false);
    label("singular", false);
    label("kind", true);
    label("listKind", true);
    for list_name in ["shortNames", "categories"] {
        for (index, name) in list(&found[list_name]).map(text).enumerate() {
            let field = format!("spec.names.{list_name}[{index}]");
            let faults = dns_1035_faults(&name).into_iter();
            errors.extend(faults.map(|fault| FieldError::invalid(&field, name.as_str(), fault)));
        }
    }
    let kind = text(&found["kind"]);
    if !kind.is_empty() && found["listKind"] == kind.as_str() {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid("spec.names.listKind", kind, detail));
    }
}

fn check_conversion(conversion: &Value, errors: &mut FieldErrors) {
    let webhook = &conversion["webhook"];
    match conversion["strategy"].as_str().unwrap_or("None") {
        "None" => {
            for (name, field) in
                [("clientConfig", "webhookClientConfig"), ("conversionReviewVersions", "conversionReviewVersions")]
            {
                if !webhook[name].is_null() {
                    let detail = "should not be set when strategy is not set to Webhook";
                    errors.push(FieldError::forbidden(format!("spec.conversion.{field}"), detail));
                }
            }
        }
        "Webhook" => {
            let client = &webhook["clientConfig"];
            let field = "spec.conversion.webhookClientConfig";
            if client.is_null() {
                errors.push(FieldError::required(field, "required when strategy is set to Webhook"));
            } else if client["url"].is_null() == client["service"].is_null() {
                errors.push(FieldError::required(field, "exactly one of url or service is required"));
            }
            if list(&webhook["conversionReviewVersions"]).next().is_none() {
                errors.push(FieldError::required("spec.conversion.conversionReviewVersions", ""));
            }
        }
        other => {
            let all = vec!["None".to_owned(), "Webhook".to_owned()];
            let fault = Fault::NotSupported(other.into(), all);
            errors.push(FieldError::new("spec.conversion.strategy", fault, ""));
        }
    }
}

/// A new definition stores its first storage version; there may be no other.
fn check_stored(object: &Value, errors: &mut FieldErrors) {
    let mut storage = list(&object["spec"]["versions"]).filter(|version| version["storage"] == true);
    let Some(stored) = storage.next().map(|version| text(&version["name"])) else {
        let detail = "must have at least one stored version";
        errors.push(FieldError::invalid("status.storedVersions", Value::Null, detail));
        return;
    };
    for other in storage.map(|version| text(&version["name"])).filter(|other| *other != stored) {
        let detail = format!("must have the storage version {other}");
        errors.push(FieldError::invalid("status.storedVersions", vec![stored.as_str()], detail));
    }
}

fn check_update(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let established =
        list(&old["status"]["conditions"]).any(|one| one["type"] == "Established" && one["status"] == "True");
    let mut fixed = |pointer: &str, field: &str| {
        let (new, old) = (object.pointer(pointer), old.pointer(pointer));
        if new != old {
            errors.push(FieldError::invalid(field, new.cloned().unwrap_or_default(), "field is immutable"));
        }
    };
    if established {
        fixed("/spec/scope", "spec.scope");
        fixed("/spec/names/kind", "spec.names.kind");
    }
    fixed("/spec/group", "spec.group");
    fixed("/spec/names/plural", "spec.names.plural");
    // Whoever writes the status says what is stored.
    if object["status"] == old["status"] {
        check_still_stored(object, errors);
    }
}

/// What objects are stored in must be there, and the storage version among it.
fn check_still_stored(object: &Value, errors: &mut FieldErrors) {
    let versions = || list(&object["spec"]["versions"]);
    let mut storage = versions().filter(|version| version["storage"] == true).map(|version| &version["name"]);
    let mut all: Vec<&Value> = list(&object["status"]["storedVersions"]).collect();
    all.extend(storage.next().filter(|first| !all.contains(first)));
    for other in storage.filter(|other| !all.contains(other)) {
        let shown: Vec<&Value> = all.clone();
        let detail = format!("must have the storage version {}", text(other));
        errors.push(FieldError::invalid("status.storedVersions", serde_json::json!(shown), detail));
    }
    let kept = |name: &Value| versions().any(|version| version["name"] == *name);
    for (index, stored) in all.into_iter().enumerate().filter(|(_, stored)| !kept(stored)) {
        let name = text(stored);
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        errors.push(FieldError::invalid(format!("status.storedVersions[{index}]"), name, detail));
    }
}
