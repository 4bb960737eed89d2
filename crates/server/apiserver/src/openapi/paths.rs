//! What can be asked of a resource, as OpenAPI tells it.

use std::collections::BTreeMap;

use concert_api::Gvk;
use concert_schema::Subresource;

use super::operation::{self, Operation, item};
use super::schemas::{self, Schemas};
use super::{capital, group_of, uncapital};
use crate::discovery::{self, Part};
use crate::kinds::{Resource, Version};

/// The forms of patches that are served; the last one only for built-in kinds.
const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
/// What only a node could answer: discovery tells of it, but it is always refused.
const OF_NODES: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Adds the paths of a resource in one version, as JSON text, and the schemas they need.
pub(super) fn add(
    paths: &mut BTreeMap<String, String>,
    document: &str,
    resource: &Resource,
    version: &Version,
    schemas: &mut Schemas,
) {
    schemas.add_kind(resource, version);
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("/{document}{scope}/{}", resource.id.resource);
    let everywhere = format!("/{document}/{}", resource.id.resource);
    let one = format!("{collection}/{{name}}");
    let place = if resource.namespaced { "Namespaced" } else { "" };
    let verbs = discovery::verbs(version);
    let mut about = About { resource, version, place, verbs, schemas };
    let mut put = |path: String, operations: Vec<(&str, Operation)>| {
        if !operations.is_empty() {
            let item = item(&path, operations);
            paths.insert(path, item);
        }
    };
    put(collection.clone(), about.of_collection());
    put(one.clone(), about.of_one());
    if resource.namespaced && about.can("list") {
        put(everywhere.clone(), vec![("get", about.list("", "ForAllNamespaces"))]);
    }
    for part in discovery::parts(version).iter().filter(|part| !OF_NODES.contains(&&*part.name)) {
        put(format!("{one}/{}", part.name), about.of_part(part));
    }
    // The old way to watch, which custom resources never had.
    if resource.is_custom() || !about.can("watch") {
        return;
    }
    let watched = |path: &str| path.replacen(&format!("/{document}/"), &format!("/{document}/watch/"), 1);
    put(watched(&collection), vec![("get", about.watch("watchlist", place, "List"))]);
    put(watched(&one), vec![("get", about.watch("watch", place, ""))]);
    if resource.namespaced {
        put(watched(&everywhere), vec![("get", about.watch("watchlist", "", "ListForAllNamespaces"))]);
    }
}

/// What operations are about.
struct About<'a> {
    resource: &'a Resource,
    version: &'a Version,
    place: &'static str,
    verbs: Vec<&'static str>,
    schemas: &'a mut Schemas,
}

impl About<'_> {
    fn can(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// The name of an operation: `patchSharedExampleComV1NamespacedWidgetStatus`.
    fn id(&self, verb: &str, place: &str, suffix: &str) -> String {
        let gvk = &self.version.gvk;
        format!("{verb}{}{}{place}{}{suffix}", group_of(self.resource), capital(&gvk.version), gvk.kind)
    }

    fn operation(&self, action: &str, id: String, gvk: &Gvk) -> Operation {
        let tag = format!("{}_{}", uncapital(&group_of(self.resource)), self.version.gvk.version);
        Operation::new(&tag, &id).does(action, gvk)
    }

    fn forms(&self) -> &'static [&'static str] {
        if self.resource.is_custom() { &operation::CUSTOM_FORMS } else { &operation::BUILTIN_FORMS }
    }

    fn streams(&self) -> &'static [&'static str] {
        if self.resource.is_custom() { &operation::CUSTOM_FORMS } else { &operation::BUILTIN_STREAMS }
    }

    fn taken(&self) -> &'static [&'static str] {
        if self.resource.is_custom() { &operation::CUSTOM_FORMS } else { &operation::ANY_FORM }
    }

    fn of_collection(&mut self) -> Vec<(&'static str, Operation)> {
        let mut found = Vec::new();
        if self.can("list") {
            found.push(("get", self.list(self.place, "")));
        }
        if self.can("create") {
            let schema = schemas::name_of(self.resource, self.version);
            found.push(("post", self.write("post", &self.version.gvk, "", &schema)));
        }
        if self.can("deletecollection") {
            found.push(("delete", self.delete_collection()));
        }
        found
    }

    fn of_one(&mut self) -> Vec<(&'static str, Operation)> {
        let schema = schemas::name_of(self.resource, self.version);
        let verbs = self.verbs.clone();
        let mut found = self.of_object(&verbs, &self.version.gvk, "", &schema);
        if self.can("delete") {
            found.push(("delete", self.delete(&schema)));
        }
        found
    }

    /// What can be done with a part of an object, or with an object as a whole.
    fn of_object(&mut self, verbs: &[&str], gvk: &Gvk, suffix: &str, schema: &str) -> Vec<(&'static str, Operation)> {
        let mut found = Vec::new();
        if verbs.contains(&"get") {
            found.push(("get", self.read(gvk, suffix, schema)));
        }
        if verbs.contains(&"update") {
            found.push(("put", self.write("put", gvk, suffix, schema)));
        }
        if verbs.contains(&"patch") {
            found.push(("patch", self.patch(gvk, suffix, schema)));
        }
        found
    }

    fn of_part(&mut self, part: &Part) -> Vec<(&'static str, Operation)> {
        let known = self
            .version
            .builtin
            .and_then(|builtin| builtin.part(&part.name))
            .map(|part: &Subresource| part.schema_name);
        let schema = match (known, part.name.as_str()) {
            (Some(name), _) => self.schemas.refer(name),
            (None, "scale") => self.schemas.refer("autoscaling.v1.Scale"),
            (None, _) => schemas::name_of(self.resource, self.version),
        };
        // Parts of custom resources are told to be of their kind, whatever is sent.
        let gvk = if self.resource.is_custom() { &self.version.gvk } else { &part.gvk };
        let suffix = capital(&part.name);
        let verbs: Vec<&str> = part.verbs.iter().map(String::as_str).collect();
        let mut found = self.of_object(&verbs, gvk, &suffix, &schema);
        if verbs.contains(&"create") {
            found.push(("post", self.write("post", gvk, &suffix, &schema)));
        }
        found
    }

    fn list(&self, place: &str, suffix: &str) -> Operation {
        let list = schemas::list_name_of(self.resource, self.version);
        self.operation("list", self.id("list", place, suffix), &self.version.gvk).takes(operation::LIST).answers(
            &[200],
            self.streams(),
            &list,
        )
    }

    fn watch(&mut self, action: &str, place: &str, suffix: &str) -> Operation {
        let event = self.schemas.refer("meta.v1.WatchEvent");
        self.operation(action, self.id("watch", place, suffix), &self.version.gvk).takes(operation::LIST).answers(
            &[200],
            &operation::BUILTIN_STREAMS,
            &event,
        )
    }

    fn read(&self, gvk: &Gvk, suffix: &str, schema: &str) -> Operation {
        self.operation("get", self.id("read", self.place, suffix), gvk)
            .takes(self.resource.is_custom().then_some("resourceVersion"))
            .answers(&[200], self.forms(), schema)
    }

    fn write(&self, method: &str, gvk: &Gvk, suffix: &str, schema: &str) -> Operation {
        let (verb, codes) = match method {
            "post" => ("create", &[200, 201, 202][..]),
            _ => ("replace", &[200, 201][..]),
        };
        self.operation(method, self.id(verb, self.place, suffix), gvk)
            .takes(operation::WRITE)
            .body(self.taken(), schema, true)
            .answers(codes, self.forms(), schema)
    }

    fn patch(&mut self, gvk: &Gvk, suffix: &str, schema: &str) -> Operation {
        let (patches, codes) =
            if self.resource.is_custom() { (&PATCHES[..3], &[200][..]) } else { (&PATCHES[..], &[200, 201][..]) };
        let patch = self.schemas.refer_patch();
        self.operation("patch", self.id("patch", self.place, suffix), gvk)
            .takes(operation::PATCH)
            .body(patches, &patch, true)
            .answers(codes, self.forms(), schema)
    }

    /// Some kinds are answered with the object that is gone.
    fn delete(&mut self, schema: &str) -> Operation {
        let returned = self.version.builtin.is_some_and(|builtin| builtin.returned);
        let answer = if returned { schema.to_owned() } else { self.schemas.refer("meta.v1.Status") };
        let options = self.schemas.refer("meta.v1.DeleteOptions");
        self.operation("delete", self.id("delete", self.place, ""), &self.version.gvk)
            .takes(operation::DELETE)
            .body(self.taken(), &options, false)
            .answers(&[200, 202], self.forms(), &answer)
    }

    fn delete_collection(&mut self) -> Operation {
        let status = self.schemas.refer("meta.v1.Status");
        let id = self.id("delete", &format!("Collection{}", self.place), "");
        let operation =
            self.operation("deletecollection", id, &self.version.gvk).answers(&[200], self.forms(), &status);
        if self.resource.is_custom() {
            return operation.takes(operation::LIST);
        }
        let options = self.schemas.refer("meta.v1.DeleteOptions");
        let chosen = operation::LIST.into_iter().filter(|name| !matches!(*name, "allowWatchBookmarks" | "watch"));
        operation.takes(chosen).takes(operation::DELETE).body(self.taken(), &options, false)
    }
}
