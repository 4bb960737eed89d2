use super::*;
use serde_json::json;
use std::sync::LazyLock;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let source = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"},
            "image": {"type": "string"},
            "ports": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
                "items": {"type": "object", "required": ["port"], "properties": {
                    "port": {"type": "integer"}, "name": {"type": "string"},
                }},
            },
        }},
        "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
    }});
    Schema::compile(&source, "schema").unwrap()
});
static KIND: LazyLock<Gvk> = LazyLock::new(|| Gvk::new("apps.example", "v1", "Web"));
static EMPTY: LazyLock<Value> = LazyLock::new(|| json!({"apiVersion": "apps.example/v1", "kind": "Web"}));
static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&[&["status"]]));
static REST: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&[&["metadata"], &["spec"]]));

fn endpoint(subresource: &'static str) -> Endpoint<'static> {
    let ignored = if subresource.is_empty() { &*STATUS } else { &*REST };
    Endpoint { gvk: &KIND, schema: &SCHEMA, subresource, ignored, empty: &EMPTY, versions: &SingleVersion }
}

/// A stored object, changed step by step; each step is a minute later.
struct Web {
    object: Value,
    managed: ManagedFields,
    minute: i64,
}

impl Web {
    fn new() -> Self {
        Self { object: EMPTY.clone(), managed: ManagedFields::default(), minute: 0 }
    }

    fn author<'a>(&mut self, manager: &'a str) -> Author<'a> {
        self.minute += 1;
        Author { manager, now: Time::from_unix_seconds(1_767_225_600 + 60 * self.minute) }
    }

    fn keep(&mut self, mut object: Value, managed: ManagedFields) {
        object["metadata"]["uid"] = "u".into();
        (self.object, self.managed) = (object, managed);
    }

    fn apply(&mut self, manager: &str, spec: &Value, force: Force) -> Result<bool, ApplyError> {
        let author = self.author(manager);
        let live = Live { object: &self.object, managed: &self.managed };
        let applied = endpoint("").apply(live, &web(spec), author, force)?;
        let changed = applied.changed;
        self.keep(applied.object, applied.managed);
        Ok(changed)
    }

    fn update_at(&mut self, subresource: &'static str, manager: &str, change: impl Fn(&mut Value)) {
        let author = self.author(manager);
        let mut new = self.object.clone();
        change(&mut new);
        let live = Live { object: &self.object, managed: &self.managed };
        let managed = endpoint(subresource).update(live, &mut new, author);
        self.keep(new, managed);
    }

    fn update(&mut self, manager: &str, change: impl Fn(&mut Value)) {
        self.update_at("", manager, change);
    }

    fn owners(&self) -> Vec<(&str, Vec<String>)> {
        self.managed.entries().iter().map(|entry| (entry.manager.as_str(), entry.fields.paths())).collect()
    }
}

fn web(spec: &Value) -> Value {
    json!({"apiVersion": "apps.example/v1", "kind": "Web", "metadata": {"name": "w", "namespace": "n"}, "spec": spec})
}

#[test]
fn a_conflict_names_the_owner_and_the_field() {
    let mut object = Web::new();
    object.apply("one", &json!({"replicas": 1}), Force::No).unwrap();
    let error = object.apply("two", &json!({"replicas": 2}), Force::No).unwrap_err();
    let status = error.status();
    assert_eq!((status.code, status.reason), (409, "Conflict"));
    assert_eq!(status.message, r#"Apply failed with 1 conflict: conflict with "one": .spec.replicas"#);
    let cause = &status.details.unwrap().causes[0];
    assert_eq!(cause.reason, "FieldManagerConflict");
    assert_eq!((cause.message.as_str(), cause.field.as_str()), (r#"conflict with "one""#, ".spec.replicas"));
}

#[test]
fn several_conflicts_are_told_by_owner() {
    let mut object = Web::new();
    object.update("web", |new| *new = web(&json!({"image": "a", "ports": [{"port": 80, "name": "a"}]})));
    object.apply("one", &json!({"replicas": 1}), Force::No).unwrap();
    let wanted = json!({"replicas": 2, "image": "b", "ports": [{"port": 80, "name": "b"}]});
    let error = object.apply("two", &wanted, Force::No).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"one\":\n- .spec.replicas\n\
         conflicts with \"web\" using apps.example/v1:\n- .spec.image\n- .spec.ports[port=80].name"
    );
}

#[test]
fn force_takes_the_field() {
    let mut object = Web::new();
    object.apply("one", &json!({"replicas": 1}), Force::No).unwrap();
    object.apply("two", &json!({"replicas": 2}), Force::Yes).unwrap();
    assert_eq!(object.owners(), [("two", vec![".spec.replicas".to_owned()])]);
}

#[test]
fn the_same_value_is_shared_without_a_conflict() {
    let mut object = Web::new();
    object.apply("one", &json!({"replicas": 1}), Force::No).unwrap();
    assert!(!object.apply("two", &json!({"replicas": 1}), Force::No).unwrap());
    let times: Vec<bool> = object.managed.entries().iter().map(|entry| entry.time.is_some()).collect();
    assert_eq!(times, [false, true], "who changed nothing has no time, and comes first");
    assert_eq!(object.owners().iter().map(|owner| owner.0).collect::<Vec<_>>(), ["two", "one"]);
}

#[test]
fn what_is_not_applied_any_more_is_removed_unless_another_owns_it() {
    let mut object = Web::new();
    object
        .apply("one", &json!({"replicas": 1, "image": "a", "ports": [{"port": 80}, {"port": 81}]}), Force::No)
        .unwrap();
    object.apply("two", &json!({"image": "a", "ports": [{"port": 81}]}), Force::No).unwrap();
    object.apply("one", &json!({"ports": []}), Force::No).unwrap();
    assert_eq!(object.object["spec"], json!({"image": "a", "ports": [{"port": 81}]}));
}

#[test]
fn what_was_there_before_the_first_apply_has_an_owner() {
    let mut object = Web::new();
    object.object = web(&json!({"replicas": 1, "image": "a"}));
    object.object["metadata"]["uid"] = "u".into();
    let error = object.apply("one", &json!({"replicas": 2}), Force::No).unwrap_err();
    let message =
        r#"Apply failed with 1 conflict: conflict with "before-first-apply" using apps.example/v1: .spec.replicas"#;
    assert_eq!(error.to_string(), message);
    object.apply("one", &json!({"replicas": 2}), Force::Yes).unwrap();
    assert_eq!(object.owners()[1], ("before-first-apply", vec![".spec".to_owned(), ".spec.image".to_owned()]));
}

#[test]
fn writers_of_the_status_are_managers_of_their_own() {
    let mut object = Web::new();
    object.update("web", |new| *new = web(&json!({"replicas": 1})));
    object.update_at("status", "web", |new| new["status"] = json!({"ready": 1}));
    let entries = object.managed.entries();
    assert_eq!(entries.iter().map(|entry| entry.subresource.as_str()).collect::<Vec<_>>(), ["", "status"]);
    assert_eq!(entries[1].fields.paths(), [".status", ".status.ready"]);
}

#[test]
fn an_empty_list_ends_the_bookkeeping() {
    for reset in [json!([]), json!([{}]), json!([null])] {
        let mut object = Web::new();
        object.apply("one", &json!({"replicas": 1}), Force::No).unwrap();
        object.update("two", |new| new["metadata"]["managedFields"] = reset.clone());
        assert!(object.managed.is_empty());
        object.update("two", |new| new["spec"]["replicas"] = 2.into());
        assert!(object.managed.is_empty(), "nobody keeps books until the next apply");
    }
}

#[test]
fn malformed_managed_fields_leave_the_old_ones() {
    let mut object = Web::new();
    object.apply("one", &json!({"replicas": 1}), Force::No).unwrap();
    let before = object.managed.clone();
    for sent in [json!([{"manager": "x"}]), json!("x"), json!([1]), json!(null)] {
        object.update("two", |new| new["metadata"]["managedFields"] = sent.clone());
        assert_eq!(object.managed, before);
    }
}

#[test]
fn the_oldest_of_many_updaters_become_ancient() {
    let mut object = Web::new();
    object.update("first", |new| *new = web(&json!({"replicas": 0})));
    for number in 0..12 {
        object.update(&format!("m{number:02}"), |new| new["metadata"]["labels"][format!("l{number}")] = "x".into());
    }
    let names: Vec<&str> = object.owners().iter().map(|owner| owner.0).collect();
    assert_eq!(names, ["ancient-changes", "m03", "m04", "m05", "m06", "m07", "m08", "m09", "m10", "m11"]);
    let ancient = &object.owners()[0].1;
    assert!(ancient.contains(&".spec.replicas".to_owned()) && ancient.contains(&".metadata.labels.l2".to_owned()));
}

#[test]
fn kubectl_takes_over_what_it_applied_from_the_client() {
    let mut object = Web::new();
    let applied = web(&json!({"replicas": 1, "image": "a"})).to_string();
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    object.update("kubectl-client-side-apply", |new| {
        *new = web(&json!({"replicas": 1, "image": "a"}));
        new["metadata"]["annotations"] = json!({annotation: applied});
    });
    let error = object.apply("someone", &json!({"replicas": 2}), Force::No).unwrap_err();
    assert!(matches!(error, ApplyError::Conflict(_)));
    object.apply("kubectl", &json!({"replicas": 2}), Force::No).unwrap();
    assert_eq!(object.object["spec"]["replicas"], 2);
    let kept = object.object["metadata"]["annotations"][annotation].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(kept).unwrap(), web(&json!({"replicas": 2})));
    assert!(kept.ends_with("}\n"));
}

#[test]
fn wrong_types_are_told_in_the_words_of_the_real_server() {
    let cases = [
        (json!({"replicas": "x"}), ".spec.replicas: expected numeric (int or float), got string"),
        (json!({"image": 1}), ".spec.image: expected string, got &value.valueUnstructured{Value:1}"),
        (json!({"typo": 1}), ".spec.typo: field not declared in schema"),
        (json!({"ports": {}}), ".spec.ports: expected list, got &{map[]}"),
        (json!({"ports": [{"port": 1}, {"port": 1}]}), ".spec.ports: duplicate entries for key [port=1]"),
        (
            json!({"ports": [{"name": "a"}]}),
            ".spec.ports: element 0: associative list with keys has an element that omits all key fields [\"port\"] (and doesn't have default values for any key fields)",
        ),
    ];
    for (spec, wanted) in cases {
        let error = Web::new().apply("one", &spec, Force::No).unwrap_err();
        assert_eq!(error.status().code, 500);
        let message = format!("failed to create typed patch object (n/w; apps.example/v1, Kind=Web): {wanted}");
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn a_configuration_of_another_kind_is_refused() {
    let object = Web::new();
    let config = json!({"apiVersion": "apps.example/v2", "kind": "Web"});
    let live = Live { object: &object.object, managed: &object.managed };
    let author = Author { manager: "one", now: Time::from_unix_seconds(0) };
    let error = endpoint("").apply(live, &config, author, Force::No).unwrap_err();
    assert_eq!(error, ApplyError::BadRequest("invalid object type: apps.example/v2, Kind=Web".to_owned()));
}

#[test]
fn sets_follow_a_schema_that_became_atomic() {
    let list = |kind: &str| {
        let mut ports = json!({"type": "array", "x-kubernetes-list-type": kind, "items": {
            "type": "object", "required": ["port"], "properties": {"port": {"type": "integer"}},
        }});
        if kind == "map" {
            ports["x-kubernetes-list-map-keys"] = json!(["port"]);
        }
        let spec = json!({"type": "object", "properties": {"ports": ports}});
        Schema::compile(&json!({"type": "object", "properties": {"spec": spec}}), "schema").unwrap()
    };
    let (before, after) = (list("map"), list("atomic"));
    let author = Author { manager: "one", now: Time::from_unix_seconds(0) };
    let config = web(&json!({"ports": [{"port": 1}]}));
    let nobody = ManagedFields::default();
    let live = Live { object: &EMPTY, managed: &nobody };
    let first = Endpoint { schema: &before, ..endpoint("") }.apply(live, &config, author, Force::No).unwrap();
    let live = Live { object: &first.object, managed: &first.managed };
    let second = Endpoint { schema: &after, ..endpoint("") };
    let error = second.apply(live, &web(&json!({"ports": []})), Author { manager: "two", ..author }, Force::No);
    assert_eq!(error.unwrap_err().to_string(), r#"Apply failed with 1 conflict: conflict with "one": .spec.ports"#);
}

#[test]
fn only_times_that_differ_are_taken_back() {
    let mut object = Web::new();
    object.update("one", |new| *new = web(&json!({"replicas": 1})));
    let old = object.managed.clone();
    let mut later = old.clone();
    later.entries_mut()[0].time = Some(Time::from_unix_seconds(9));
    assert!(later.keep_times(&old));
    assert_eq!(later, old);
    object.update("two", |new| new["spec"]["replicas"] = 2.into());
    assert!(!object.managed.keep_times(&old));
}

#[test]
fn sets_that_stay_the_same_are_shared() {
    let mut object = Web::new();
    object.update("one", |new| *new = web(&json!({"replicas": 1})));
    object.apply("two", &json!({"image": "a"}), Force::No).unwrap();
    let before = object.managed.clone();
    object.update("one", |new| new["spec"]["replicas"] = 2.into());
    object.apply("two", &json!({"image": "b"}), Force::No).unwrap();
    let pairs = object.managed.entries().iter().zip(before.entries());
    assert!(pairs.into_iter().all(|(new, old)| std::sync::Arc::ptr_eq(&new.fields, &old.fields)));
}
