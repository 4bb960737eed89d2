//! What the real library did with generated cases: `tests/vectors/*.jsonl`, written by `xtask/reference/oracle`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

use concert_api::{Gvk, Time};
use concert_merge::{
    ApplyError, Author, Endpoint, FieldSet, Force, Live, ManagedFields, ReplicasPath, SingleVersion, Versions,
    strategic_merge_patch,
};
use concert_schema::{Builtin, Schema};
use serde_json::{Value, json};

/// The kind of the cases: `v2`, if there is one, calls `spec.a` by another name.
struct Kind {
    first: Schema,
    second: Option<Schema>,
    main: FieldSet,
    status: FieldSet,
}

struct At<'a> {
    kind: &'a Kind,
    subresource: &'a str,
}

impl Versions for At<'_> {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        match api_version {
            "g.example/v1" => Some(&self.kind.first),
            "g.example/v2" => self.kind.second.as_ref(),
            _ => None,
        }
    }

    fn ignored(&self, _api_version: &str) -> Option<&FieldSet> {
        (!self.subresource.is_empty()).then_some(&self.kind.status)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        Ok(converted(object, api_version))
    }
}

fn converted(object: &Value, api_version: &str) -> Value {
    let mut object = object.clone();
    if object.is_null() {
        return object;
    }
    if object["apiVersion"] != api_version {
        object["apiVersion"] = api_version.into();
        let (old, new) = if api_version.ends_with("v1") { ("alpha", "a") } else { ("a", "alpha") };
        if let Some(Value::Object(spec)) = object.get_mut("spec")
            && let Some(value) = spec.remove(old)
        {
            spec.insert(new.to_owned(), value);
        }
    }
    object
}

fn compiled(schema: &Value) -> Option<Schema> {
    (!schema.is_null())
        .then(|| Schema::compile(schema, "schema").unwrap_or_else(|errors| panic!("{schema}: {errors:?}")))
}

fn lines(prefix: &str) -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut cases = Vec::new();
    for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with(prefix) {
            for line in std::fs::read_to_string(&file).unwrap().lines() {
                let case: Value = serde_json::from_str(line).unwrap();
                cases.push((format!("{name} {}", case["name"].as_str().unwrap_or_default()), case));
            }
        }
    }
    cases
}

/// One step of a case, from the stored object to the next one.
fn step(kind: &Kind, number: i64, step: &Value, stored: Option<&Value>) -> Result<Value, ApplyError> {
    let text = |name: &str| step[name].as_str().unwrap();
    let gvk = Gvk::new("g.example", text("version"), "Thing");
    let api_version = gvk.api_version();
    let empty = json!({"apiVersion": api_version, "kind": "Thing"});
    let versions = At { kind, subresource: text("subresource") };
    let endpoint = Endpoint {
        gvk: &gvk,
        schema: versions.schema(&api_version).unwrap(),
        subresource: text("subresource"),
        ignored: if text("subresource").is_empty() { &kind.main } else { &kind.status },
        empty: &empty,
        versions: &versions,
    };
    let mut object = stored.map_or_else(|| empty.clone(), |stored| converted(stored, &api_version));
    let managed = ManagedFields::of(&object).unwrap();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    let live = Live { object: &object, managed: &managed };
    let author = Author { manager: text("manager"), now: Time::from_unix_seconds(1_577_836_800 + number) };
    let mut new = step["object"].clone();
    let managed = if text("op") == "update" {
        endpoint.update(live, &mut new, author)
    } else {
        let force = if step["force"] == true { Force::Yes } else { Force::No };
        let applied = endpoint.apply(live, &new, author, force)?;
        new = applied.object;
        applied.managed
    };
    if new["metadata"]["uid"].is_null() {
        new["metadata"]["uid"] = "u".into();
    }
    managed.write_to(&mut new);
    Ok(new)
}

fn told(error: &ApplyError) -> Value {
    let status = error.status();
    let mut causes: Vec<Value> = Vec::new();
    for cause in status.details.iter().flat_map(|details| &details.causes) {
        causes.push(json!({"reason": cause.reason, "message": cause.message, "field": cause.field}));
    }
    json!({"code": status.code, "message": status.message, "causes": causes})
}

fn check_apply(name: &str, case: &Value) -> Result<usize, String> {
    let kind = Kind {
        first: compiled(&case["schema"]).unwrap(),
        second: compiled(&case["second"]),
        main: FieldSet::of(&[&["status"]]),
        status: FieldSet::of(&[&["metadata"], &["spec"]]),
    };
    let mut stored: Option<Value> = None;
    let steps = case["steps"].as_array().unwrap();
    for (index, wanted) in steps.iter().enumerate() {
        let got = step(&kind, i64::try_from(index).unwrap() + 1, wanted, stored.as_ref());
        let differs = |ours: &Value, theirs: &Value| {
            let live = stored.as_ref().unwrap_or(&Value::Null);
            Err(format!(
                "{name}, step {}\nschema {}\nsecond {}\nlive {live}\nstep {wanted}\n  ours {ours}\ntheirs {theirs}",
                index + 1,
                case["schema"],
                case["second"]
            ))
        };
        // The library gives the first version, whichever was asked for.
        let theirs = converted(&wanted["result"], "g.example/v1");
        match (got, &wanted["error"]) {
            (Ok(ours), Value::Null) if converted(&ours, "g.example/v1") == theirs => stored = Some(ours),
            (Ok(ours), Value::Null) => return differs(&ours, &theirs),
            (Ok(ours), theirs) => return differs(&ours, theirs),
            (Err(error), theirs) => {
                let mut ours = told(&error);
                if theirs["message"] == "*" {
                    ours["message"] = "*".into();
                }
                let sorted = |causes: &Value| {
                    let mut causes = causes.as_array().cloned().unwrap_or_default();
                    causes.sort_by_key(Value::to_string);
                    causes
                };
                let same = ours["code"] == theirs["code"]
                    && ours["message"] == theirs["message"]
                    && sorted(&ours["causes"]) == sorted(&theirs["causes"]);
                if !same {
                    return differs(&ours, if theirs.is_null() { &wanted["result"] } else { theirs });
                }
            }
        }
    }
    Ok(steps.len())
}

/// Fails with the smallest of what differs.
fn judge(all: Vec<Result<usize, String>>, least: usize) {
    let agreed: usize = all.iter().flatten().sum();
    let mut faults: Vec<String> = all.into_iter().filter_map(Result::err).collect();
    faults.sort_by_key(String::len);
    let smallest = faults.iter().take(3).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(faults.is_empty(), "{} cases differ, {agreed} steps agree; the smallest:\n{smallest}", faults.len());
    assert!(agreed >= least, "only {agreed} steps");
}

#[test]
fn applies_and_updates_do_what_the_real_library_does() {
    judge(lines("apply").iter().map(|(name, case)| check_apply(name, case)).collect(), 250);
}

fn check_strategic(name: &str, case: &Value, schema: &Schema) -> Result<usize, String> {
    let mut document = case["document"].clone();
    let (ours, theirs) = match strategic_merge_patch(&mut document, &case["patch"], schema, "Root") {
        Ok(()) => (json!({"result": document}), json!({"result": case["result"]})),
        Err(error) => {
            assert_eq!(document, case["document"], "{error}");
            (json!({"code": error.code(), "message": error.to_string()}), case["error"].clone())
        }
    };
    if ours == theirs { Ok(1) } else { Err(format!("{name}\ncase {case}\n  ours {ours}\ntheirs {theirs}")) }
}

#[test]
fn strategic_patches_do_what_the_real_library_does() {
    let cases = lines("strategic");
    let schema = cases.iter().find_map(|(_, case)| compiled(&case["schema"])).unwrap();
    let cases = cases.iter().filter(|(_, case)| case["schema"].is_null());
    judge(cases.map(|(name, case)| check_strategic(name, case, &schema)).collect(), 200);
}

fn check_scale(name: &str, case: &Value) -> Result<usize, String> {
    let spec = FieldSet::of(&[&["spec", "replicas"]]);
    let paths =
        [ReplicasPath { api_version: "g/v1", path: Some(&spec) }, ReplicasPath { api_version: "g/v2", path: None }];
    let parent = ManagedFields::parse(&case["parent"]).unwrap();
    let list = |value: &Value| if value.is_null() { json!([]) } else { value.clone() };
    let seen = parent.to_scale(&paths).to_value();
    if seen != list(&case["seen"]) {
        return Err(format!("{name}\ncase {case}\nseen {seen}"));
    }
    let back = parent.from_scale(&ManagedFields::parse(&case["scale"]).unwrap(), "g/v1", &paths).to_value();
    if back == list(&case["back"]) { Ok(1) } else { Err(format!("{name}\ncase {case}\nback {back}")) }
}

#[test]
fn scales_have_the_managers_that_the_real_library_gives_them() {
    judge(lines("scale").iter().map(|(name, case)| check_scale(name, case)).collect(), 20);
}

/// An object without what Go writes though it is nothing: the library adds that to what we merge.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, member)| (name.clone(), plain(member)));
            let nothing = [json!(null), json!({}), json!([]), json!(""), json!("0"), json!(0), json!(false)];
            Value::Object(members.filter(|(_, member)| !nothing.contains(member)).collect())
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

fn check_builtin(name: &str, case: &Value) -> Result<usize, String> {
    let text = |name: &str| case[name].as_str().unwrap();
    let gvk = Gvk::from_api_version(text("apiVersion"), text("kind")).unwrap();
    let ignored = FieldSet::of(&[&["status"]]);
    let endpoint = Endpoint {
        gvk: &gvk,
        schema: &Builtin::find(&gvk).unwrap().schema,
        subresource: "",
        ignored: &ignored,
        empty: &case["empty"],
        versions: &SingleVersion,
    };
    let steps = case["steps"].as_array().unwrap();
    for (number, step) in (1..).zip(steps) {
        let mut object = step["live"].clone();
        let managed = ManagedFields::of(&object).unwrap();
        ManagedFields::default().write_to(&mut object);
        let live = Live { object: &object, managed: &managed };
        let now = Time::from_unix_seconds(1_577_836_800 + number);
        let author = Author { manager: step["manager"].as_str().unwrap(), now };
        let mut new = step["object"].clone();
        let done = if step["op"] == "update" {
            Ok(endpoint.update(live, &mut new, author))
        } else {
            let force = if step["force"] == true { Force::Yes } else { Force::No };
            endpoint.apply(live, &new, author, force).map(|applied| {
                new = applied.object;
                applied.managed
            })
        };
        let (ours, theirs) = match done {
            Ok(managed) => {
                new["metadata"]["uid"] = "u".into();
                managed.write_to(&mut new);
                let books = |object: &Value| object["metadata"]["managedFields"].clone();
                (json!([plain(&new), books(&new)]), json!([plain(&step["result"]), books(&step["result"])]))
            }
            Err(error) => (told(&error)["message"].clone(), step["error"]["message"].clone()),
        };
        if ours != theirs {
            return Err(format!("{name}, step {number}\nstep {step}\n  ours {ours}\ntheirs {theirs}"));
        }
    }
    Ok(steps.len())
}

#[test]
fn built_in_kinds_have_the_owners_that_the_real_library_gives_them() {
    judge(lines("builtin").iter().map(|(name, case)| check_builtin(name, case)).collect(), 100);
}
