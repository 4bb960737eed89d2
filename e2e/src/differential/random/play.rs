//! A random sequence of writes by several managers.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::strategic::directed;
use super::subject::{Door, Subject};
use super::value::{Partial, Values};
use crate::Dice;
use crate::differential::scenario::{Patch, Step};

/// Who writes. The last one has applied on its own side before, as kubectl does.
const MANAGERS: [&str; 4] = ["one", "two", "three", "kubectl"];

/// How kubectl calls itself when it merges on its own side.
const CLIENT_SIDE: &str = "kubectl-client-side-apply";

/// The writes to one object.
pub(super) struct Play<'a> {
    pub(super) dice: &'a mut Dice,
    pub(super) subject: &'a Subject,
    wild: bool,
    managers: usize,
    /// What each manager applied last, in each version.
    configurations: BTreeMap<(&'static str, usize), Value>,
}

impl<'a> Play<'a> {
    pub(super) fn new(dice: &'a mut Dice, subject: &'a Subject) -> Self {
        // The embedded server does not know all rules of the built-in kinds, so their objects are as they should be.
        let wild = subject.definition.is_some() && dice.one_in(4);
        let managers = 2 + dice.place(3);
        Self { dice, subject, wild, managers, configurations: BTreeMap::new() }
    }

    /// From the creation to a last look.
    pub(super) fn steps(mut self) -> Vec<Step> {
        let count = 5 + self.dice.below(11);
        let mut steps: Vec<Step> = self.subject.definition.iter().cloned().collect();
        steps.push(self.create());
        for _ in 2..count {
            let step = self.act();
            steps.push(step);
        }
        for door in &self.subject.doors {
            steps.push(Step { request: Some(format!("GET {}/{}", door.path, self.subject.name)), ..Step::default() });
        }
        steps
    }

    fn create(&mut self) -> Step {
        if !self.dice.one_in(4) {
            return self.apply(Partial::Never);
        }
        let (place, door) = self.door();
        let mut body = self.object(door, Partial::Never);
        body["metadata"]["name"] = self.subject.name.clone().into();
        let manager = self.manager();
        self.configurations.insert((manager, place), body.clone());
        let request = format!("POST {}?fieldManager={manager}", door.path);
        Step { request: Some(request), kind: Some(door.kind.clone()), body: Some(body), ..Step::default() }
    }

    fn act(&mut self) -> Step {
        match self.dice.below(100) {
            0..50 => self.apply(Partial::Merged),
            50..60 => self.patch(Patch::Merge),
            60..68 => self.json_patch(),
            68..76 if self.subject.strategic => self.patch(Patch::Strategic),
            68..82 => self.edit(),
            82..86 => self.client_side(),
            86..91 if self.subject.status.is_some() => self.status(),
            91..94 if self.subject.scale => self.scale(),
            86..95 => self.reset(),
            95 => self.delete(),
            _ => self.odd(),
        }
    }

    /// A configuration: often the manager's last one with changes.
    fn apply(&mut self, detail: Partial) -> Step {
        let ((place, door), manager) = (self.door(), self.manager());
        let fresh = self.object(door, detail);
        let mut others = self.configurations.iter().filter(|((_, other), _)| *other == place);
        let own = self.configurations.get(&(manager, place));
        let old = own.filter(|_| !self.dice.one_in(4)).or_else(|| others.next_back().map(|(_, old)| old)).cloned();
        let body = match old {
            Some(old) if !self.dice.one_in(4) => self.values(detail).changed(&old, &fresh, Some(&door.shape)),
            _ => fresh,
        };
        self.configurations.insert((manager, place), body.clone());
        let force = *self.dice.pick(&["", "", "&force=true"]);
        let options = self.options();
        let request = self.request("PATCH", door, "", manager, &format!("{force}{options}"));
        let kind = Some(door.kind.clone());
        Step { request, kind, patch: Some(Patch::Apply), body: Some(body), ..Step::default() }
    }

    /// A merge patch, or a strategic one.
    fn patch(&mut self, patch: Patch) -> Step {
        let ((_, door), manager) = (self.door(), self.manager());
        let detail = if patch == Patch::Strategic { Partial::Merged } else { Partial::Outside };
        let fresh = self.object(door, detail);
        let body = match patch {
            Patch::Strategic => directed(self.dice, &fresh, Some(&door.shape)),
            Patch::Apply | Patch::Json | Patch::Merge => self.with_nulls(&fresh, 0),
        };
        let options = self.options();
        let request = self.request("PATCH", door, "", manager, &options);
        Step { request, patch: Some(patch), body: Some(body), ..Step::default() }
    }

    fn json_patch(&mut self) -> Step {
        let ((_, door), manager) = (self.door(), self.manager());
        let fresh = self.object(door, Partial::Outside);
        let mut operations = Vec::new();
        for _ in 0..=self.dice.below(2) {
            let (path, value) = self.place(&fresh);
            operations.push(match *self.dice.pick(&["add", "add", "replace", "remove"]) {
                "remove" => json!({"op": "remove", "path": path}),
                operation => json!({"op": operation, "path": path, "value": value}),
            });
        }
        let request = self.request("PATCH", door, "", manager, "");
        Step { request, patch: Some(Patch::Json), body: Some(operations.into()), ..Step::default() }
    }

    /// What a controller does: it reads, changes and writes back.
    fn edit(&mut self) -> Step {
        let ((_, door), manager) = (self.door(), self.manager());
        let fresh = self.object(door, Partial::Outside);
        let edit = self.with_nulls(&fresh, 0);
        let options = self.options();
        let request = self.request("PUT", door, "", manager, &options);
        Step { request, edit: Some(edit), ..Step::default() }
    }

    /// What kubectl does without the server.
    fn client_side(&mut self) -> Step {
        let (_, door) = self.door();
        let mut body = self.object(door, Partial::Outside);
        let mut last = body.clone();
        let (version, kind) = door.kind.rsplit_once('/').unwrap_or(("<group>/v1", &door.kind));
        last["apiVersion"] = version.into();
        last["kind"] = kind.into();
        body["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = last.to_string().into();
        let manager = if self.dice.one_in(3) { self.manager() } else { CLIENT_SIDE };
        let request = self.request("PATCH", door, "", manager, "");
        Step { request, patch: Some(Patch::Merge), body: Some(body), ..Step::default() }
    }

    fn status(&mut self) -> Step {
        let ((_, door), manager) = (self.door(), self.manager());
        let mut body = if self.dice.one_in(4) { self.object(door, Partial::Outside) } else { json!({}) };
        if let Some(shape) = &self.subject.status {
            body["status"] = self.values(Partial::Never).value(shape);
        }
        let patch = *self.dice.pick(&[Patch::Apply, Patch::Apply, Patch::Merge]);
        let force = if patch == Patch::Apply && self.dice.one_in(2) { "&force=true" } else { "" };
        let request = self.request("PATCH", door, "/status", manager, force);
        let kind = (patch == Patch::Apply).then(|| door.kind.clone());
        Step { request, kind, patch: Some(patch), body: Some(body), ..Step::default() }
    }

    fn scale(&mut self) -> Step {
        let ((_, door), manager) = (self.door(), self.manager());
        let body = Some(json!({"spec": {"replicas": self.dice.below(4)}}));
        if self.dice.one_in(2) {
            let request = self.request("PATCH", door, "/scale", manager, "");
            return Step { request, body, ..Step::default() };
        }
        let force = *self.dice.pick(&["", "&force=true"]);
        let request = self.request("PATCH", door, "/scale", manager, force);
        let kind = Some("autoscaling/v1/Scale".to_owned());
        Step { request, kind, patch: Some(Patch::Apply), body, ..Step::default() }
    }

    /// Who owns what is forgotten.
    fn reset(&mut self) -> Step {
        let ((_, door), manager) = (self.door(), self.manager());
        let mut body = if self.dice.one_in(2) { self.object(door, Partial::Outside) } else { json!({}) };
        body["metadata"]["managedFields"] = if self.dice.one_in(3) { json!([]) } else { json!([{}]) };
        let request = self.request("PATCH", door, "", manager, "");
        Step { request, body: Some(body), ..Step::default() }
    }

    fn delete(&mut self) -> Step {
        let (_, door) = self.door();
        Step { request: Some(format!("DELETE {}/{}", door.path, self.subject.name)), ..Step::default() }
    }

    /// A configuration with something wrong.
    fn odd(&mut self) -> Step {
        let mut step = self.apply(Partial::Merged);
        let body = step.body.get_or_insert_default();
        match self.dice.below(8) {
            0 => step.request = step.request.map(|request| request.replace("fieldManager", "manager")),
            1 => body["metadata"]["managedFields"] = json!([]),
            2 => body["metadata"]["resourceVersion"] = "1".into(),
            3 => body["metadata"]["uid"] = "11111111-1111-4111-8111-111111111111".into(),
            4 => body["metadata"]["name"] = "other".into(),
            5 => step.kind = None,
            6 => step.kind = Some("example.com/v9/Odd".to_owned()),
            _ => body["unknown"] = json!({"a": 1}),
        }
        step
    }

    fn door(&mut self) -> (usize, &'a Door) {
        let place = self.dice.place(self.subject.doors.len());
        (place, &self.subject.doors[place])
    }

    fn manager(&mut self) -> &'static str {
        let first = MANAGERS.len() - self.managers;
        MANAGERS[first + self.dice.place(self.managers)]
    }

    fn values(&mut self, detail: Partial) -> Values<'_> {
        let nulls = self.subject.definition.is_some();
        Values { dice: self.dice, wild: self.wild, nulls, partial: detail }
    }

    fn options(&mut self) -> String {
        (*self.dice.pick(&["", "", "", "", "", "", "", "&dryRun=All", "&fieldValidation=Strict"])).to_owned()
    }

    fn request(&self, method: &str, door: &Door, part: &str, manager: &str, options: &str) -> Option<String> {
        Some(format!("{method} {}/{}{part}?fieldManager={manager}{options}", door.path, self.subject.name))
    }

    /// An object without its kind and name.
    fn object(&mut self, door: &Door, detail: Partial) -> Value {
        let mut object = loop {
            let value = self.values(detail).value(&door.shape);
            if value.is_object() {
                break value;
            }
        };
        for (name, names) in [("labels", ["a", "b"]), ("annotations", ["c", "d"])] {
            if self.dice.one_in(4) {
                for member in names.iter().take(1 + self.dice.place(2)) {
                    object["metadata"][name][member] = (*self.dice.pick(&["x", "y"])).into();
                }
            }
        }
        if self.dice.one_in(8) {
            object["metadata"]["finalizers"] = json!([*self.dice.pick(&["e.com/a", "e.com/b"]), "e.com/c"]);
        }
        object
    }

    /// The value with some members null: what a merge patch removes. For Go nothing and an empty map are two things, so
    /// of built-in kinds no maps within the spec are emptied.
    fn with_nulls(&mut self, value: &Value, depth: usize) -> Value {
        let Value::Object(members) = value else { return value.clone() };
        if self.subject.strategic && depth > 1 {
            return value.clone();
        }
        let member = |(name, member): (&String, &Value)| {
            let is_gone = name != "spec" && name != "metadata" && self.dice.one_in(8);
            (name.clone(), if is_gone { Value::Null } else { self.with_nulls(member, depth + 1) })
        };
        members.iter().map(member).collect::<Map<_, _>>().into()
    }

    /// A place in the value as a JSON pointer, and what is there.
    fn place(&mut self, value: &Value) -> (String, Value) {
        let (mut path, mut value) = (String::new(), value);
        while let Value::Object(members) = value
            && !members.is_empty()
            && (path.is_empty() || !self.dice.one_in(3))
        {
            let (name, member) = members.iter().nth(self.dice.place(members.len())).expect("a place among them");
            path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
            value = member;
        }
        (path, value.clone())
    }
}
