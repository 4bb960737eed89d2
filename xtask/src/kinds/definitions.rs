//! The schemas of the kinds: Go structs, with what OpenAPI says beyond them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use anyhow::{Result, anyhow, bail};
use serde_json::{Map, Value};

use super::source::{Field, Source};

/// What is needed beside the kinds of resources and subresources.
const FURTHER: [&str; 14] = [
    "meta.v1.DeleteOptions",
    "meta.v1.ListMeta",
    "meta.v1.ObjectMeta",
    "autoscaling.v1.Scale",
    "meta.v1.Status",
    "meta.v1.WatchEvent",
    "version.Info",
    "meta.v1.PartialObjectMetadata",
    "meta.v1.PartialObjectMetadataList",
    "meta.v1.APIVersions",
    "meta.v1.APIGroup",
    "meta.v1.APIGroupList",
    "meta.v1.APIResourceList",
    "apidiscovery.v2.APIGroupDiscoveryList",
];

/// Types that are something of their own in JSON and in protobuf.
const SPECIAL: [(&str, &str); 11] = [
    ("meta.v1.Time", "time"),
    ("meta.v1.MicroTime", "microtime"),
    ("meta.v1.Duration", "duration"),
    ("meta.v1.FieldsV1", "fields"),
    ("resource.Quantity", "quantity"),
    ("intstr.IntOrString", "intorstring"),
    ("runtime.RawExtension", "raw"),
    ("apiextensions.v1.JSON", "json"),
    ("apiextensions.v1.JSONSchemaPropsOrBool", "schemaorbool"),
    ("apiextensions.v1.JSONSchemaPropsOrArray", "schemaorarray"),
    ("apiextensions.v1.JSONSchemaPropsOrStringArray", "schemaorstrings"),
];

/// Prefixes of names in OpenAPI, and what we write instead; the last is that of most groups.
const PREFIXES: [(&str, &str); 8] = [
    ("io.k8s.apimachinery.pkg.apis.meta.", "meta."),
    ("io.k8s.apimachinery.pkg.api.resource.", "resource."),
    ("io.k8s.apimachinery.pkg.util.intstr.", "intstr."),
    ("io.k8s.apimachinery.pkg.runtime.", "runtime."),
    ("io.k8s.apimachinery.pkg.version.", "version."),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.", "apiextensions."),
    ("io.k8s.kube-aggregator.pkg.apis.apiregistration.", "apiregistration."),
    ("io.k8s.api.", ""),
];

/// The name of a schema as we write it: `core.v1.Pod`.
pub(super) fn short(name: &str) -> String {
    let shortened = PREFIXES.iter().find_map(|(long, short)| Some(format!("{short}{}", name.strip_prefix(long)?)));
    shortened.unwrap_or_else(|| name.to_owned())
}

/// All definitions that the kinds need, in the order of their names.
pub(super) fn text(facts: &[&Value], kinds: &[Value], source: &mut Source) -> Result<String> {
    let documents = facts.iter().filter_map(|facts| facts.as_object()).flatten();
    let schemas = documents.filter_map(|(_, document)| document["schemas"].as_object()).flatten();
    let openapi: BTreeMap<String, &Value> = schemas.map(|(name, schema)| (short(name), schema)).collect();
    let parts = kinds.iter().flat_map(|kind| kind["parts"].as_array().into_iter().flatten());
    let named = kinds.iter().chain(parts).filter_map(|kind| kind["schema"].as_str());
    let mut pending: VecDeque<(String, Value)> =
        named.chain(FURTHER).map(|name| (name.to_owned(), Value::Null)).collect();
    let mut blocks = BTreeMap::new();
    let mut seen = BTreeSet::new();
    while let Some((name, around)) = pending.pop_front() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let Some(fields) = source.fields(&name)? else { bail!("{name} is no struct") };
        let schema = openapi.get(&name).map_or(around, |schema| (*schema).clone());
        let head = if openapi.contains_key(&name) { head(&name, &schema)? } else { String::new() };
        let mut block = Block { text: head + "\n", schema, needed: Vec::new(), source };
        for field in fields {
            block.field(&field)?;
        }
        let Block { text, needed, .. } = block;
        pending.extend(needed);
        blocks.insert(name, text);
    }
    Ok(blocks.into_iter().map(|(name, block)| format!("{name}{block}")).collect())
}

/// What OpenAPI says of a struct as a whole: ` m=atomic`, ` g=apps` for a kind, ` u=type(user,group)` for a union.
fn head(name: &str, schema: &Value) -> Result<String> {
    let mut text = String::new();
    if schema["x-kubernetes-map-type"] == "atomic" {
        text.push_str(" m=atomic");
    }
    // What is in every group says first that it is in none.
    if let Some(gvk) = schema["x-kubernetes-group-version-kind"].get(0) {
        let [group, version, kind] = ["group", "version", "kind"].map(|part| gvk[part].as_str().unwrap_or_default());
        if !name.ends_with(&format!("{version}.{kind}")) {
            bail!("{name} is {kind} in version {version}");
        }
        write!(text, " g={group}")?;
    }
    for union in schema["x-kubernetes-unions"].as_array().into_iter().flatten() {
        let fields = union["fields-to-discriminateBy"].as_object().into_iter().flatten();
        let mut names = Vec::new();
        for (field, value) in fields {
            if value.as_str().is_none_or(|value| value != capital(field)) {
                bail!("{name}: {field} is chosen by {value}");
            }
            names.push(field.as_str());
        }
        write!(text, " u={}({})", union["discriminator"].as_str().unwrap_or_default(), names.join(","))?;
    }
    Ok(text)
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().collect::<String>() + letters.as_str()).unwrap_or_default()
}

/// A definition as it is being written.
struct Block<'a> {
    text: String,
    /// What OpenAPI says of it, or of the struct it is inlined in.
    schema: Value,
    needed: Vec<(String, Value)>,
    source: &'a mut Source,
}

impl Block<'_> {
    fn field(&mut self, field: &Field) -> Result<()> {
        if field.name.is_empty() && field.go == "meta.v1.TypeMeta" {
            self.text.push_str(" apiVersion 0 o string\n kind 0 o string\n");
            return Ok(());
        }
        let kind = self.kind(&field.go, field.repeated, false)?;
        if field.name.is_empty() {
            self.text.push_str(&format!(" ~ {} {kind}\n", field.number));
            return Ok(());
        }
        let presence = presence(field, &kind);
        write!(self.text, " {} {} {presence} {kind}", field.name, field.number)?;
        let required = self.schema["required"].as_array().into_iter().flatten();
        if required.into_iter().any(|name| *name == *field.name) {
            self.text.push_str(" r");
        }
        if let Some(property) = self.schema["properties"][&field.name].as_object().cloned() {
            self.marks(&property)?;
            self.values(&property, presence == 'z')?;
        }
        self.text.push('\n');
        Ok(())
    }

    /// What OpenAPI says of a field beyond its type.
    fn marks(&mut self, property: &Map<String, Value>) -> Result<()> {
        let text = |name: &str| property.get(name).and_then(Value::as_str);
        if let Some(kind) = text("x-kubernetes-list-type") {
            let keys = property.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let keys: Vec<&str> = keys.into_iter().flatten().filter_map(Value::as_str).collect();
            let keys = if keys.is_empty() { String::new() } else { format!("({})", keys.join(",")) };
            write!(self.text, " l={kind}{keys}")?;
        }
        for (mark, name) in [
            ("m", "x-kubernetes-map-type"),
            ("s", "x-kubernetes-patch-strategy"),
            ("k", "x-kubernetes-patch-merge-key"),
        ] {
            if let Some(value) = text(name) {
                write!(self.text, " {mark}={value}")?;
            }
        }
        if let Some(default) = property.get("default").filter(|default| !is_empty(default)) {
            let default = default.to_string();
            if default.contains(' ') {
                bail!("a default with spaces: {default}");
            }
            write!(self.text, " d={default}")?;
        }
        Ok(())
    }

    /// Which values OpenAPI names, what it says of a zero that Go does not write, and references without a wrapping.
    fn values(&mut self, property: &Map<String, Value>, is_zero: bool) -> Result<()> {
        let values = property.get("enum").or_else(|| {
            let inner = property.get("items").or_else(|| property.get("additionalProperties"))?;
            inner.get("enum")
        });
        if let Some(values) = values.and_then(Value::as_array) {
            let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            if values.iter().any(|value| value.contains([',', '_'])) {
                bail!("a value with a comma or an underscore: {values:?}");
            }
            write!(self.text, " e={}", values.join(",").replace(' ', "_"))?;
        }
        if !is_zero && property.get("default").is_some_and(is_empty) {
            self.text.push_str(" D");
        }
        if property.contains_key("$ref") {
            self.text.push_str(" $");
        }
        Ok(())
    }

    /// A Go type as we write it.
    fn kind(&mut self, go: &str, repeated: bool, inside: bool) -> Result<String> {
        if let Some(rest) = go.strip_prefix('*') {
            return self.kind(rest, repeated, inside);
        }
        if go == "[]byte" {
            return Ok("byte".to_owned());
        }
        if let Some(rest) = go.strip_prefix("[]") {
            return Ok(format!("[]{}", self.kind(rest, repeated, true)?));
        }
        if let Some(rest) = go.strip_prefix("map[string]") {
            return Ok(format!("{{}}{}", self.kind(rest, repeated, true)?));
        }
        if matches!(go, "string" | "bool" | "int32" | "int64" | "float64") {
            return Ok(go.to_owned());
        }
        if let Some((_, special)) = SPECIAL.iter().find(|(name, _)| *name == go) {
            if special.starts_with("schema") {
                self.needed.push(("apiextensions.v1.JSONSchemaProps".to_owned(), Value::Null));
            }
            return Ok((*special).to_owned());
        }
        if self.source.fields(go)?.is_some() {
            self.needed.push((go.to_owned(), self.schema.clone()));
            return Ok(go.to_owned());
        }
        let meaning = self.source.meaning(go)?.ok_or_else(|| anyhow!("what is {go}?"))?;
        let kind = self.kind(&meaning, repeated, true)?;
        // A list with a name of its own is a message with one field, unless the field itself is repeated.
        if let Some(items) = kind.strip_prefix("[]").filter(|_| inside || !repeated) {
            return Ok(format!("<>{items}"));
        }
        let mut parts = go.rsplit('.');
        let (name, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let is_scalar = !kind.contains(['[', '{', '.', '=', '<']) && kind != "byte";
        Ok(if is_scalar { format!("{kind}={package}.{name}") } else { kind })
    }
}

fn is_empty(value: &Value) -> bool {
    matches!(value.to_string().as_str(), "{}" | "\"\"" | "0" | "false" | "null")
}

/// What Go does with a field that has no value: `p` a pointer, which is there or not; `o` left out when it is zero; `n`
/// null; `z` there even if it is zero.
fn presence(field: &Field, kind: &str) -> char {
    let moment = matches!(kind, "time" | "microtime" | "raw");
    let structure = matches!(kind, "quantity" | "intorstring" | "duration") || is_struct(kind);
    let many = kind.starts_with(['[', '{', '<']) || kind == "byte";
    match (field.go.starts_with('*'), field.omits_empty) {
        (true, true) => 'p',
        (true, false) => 'n',
        (false, _) if moment => {
            if field.omits_zero {
                'o'
            } else {
                'n'
            }
        }
        (false, _) if structure => {
            if field.omits_zero {
                'o'
            } else {
                'z'
            }
        }
        (false, true) => 'o',
        (false, false) if many => 'n',
        (false, false) => 'z',
    }
}

/// Whether a type is a struct of ours: only those have dots and no equals sign.
fn is_struct(kind: &str) -> bool {
    kind.contains('.') && !kind.contains(['=', '[', '{', '<'])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn heads_tell_groups_and_unions() {
        let schema = json!({
            "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Subject"}, {"group": "apps"}],
            "x-kubernetes-map-type": "atomic",
            "x-kubernetes-unions": [
                {"discriminator": "kind", "fields-to-discriminateBy": {"user": "User", "group": "Group"}},
                {"fields-to-discriminateBy": {"all": "All"}},
            ],
        });
        assert_eq!(head("core.v1.Subject", &schema).unwrap(), " m=atomic g= u=kind(group,user) u=(all)");
        assert!(head("core.v1.Other", &schema).is_err());
    }
}
