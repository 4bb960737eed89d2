//! Classes of storage, ingresses and priority: what names none gets the one that is marked, and a claim grows only where
//! its class lets it.

use std::cmp::Reverse;

use concert_api::{GroupResource, ObjectKey, Status, meta};
use concert_store::Key;
use serde_json::Value;

use crate::Server;
use crate::target::{Part, Target};

const STORAGE: [&str; 2] = ["storage.k8s.io", "storageclasses"];
const INGRESS: [&str; 2] = ["networking.k8s.io", "ingressclasses"];
const PRIORITY: [&str; 2] = ["scheduling.k8s.io", "priorityclasses"];
/// What named the class of a claim, once.
const OLD_STORAGE: &str = "volume.beta.kubernetes.io/storage-class";
const OLD_INGRESS: &str = "kubernetes.io/ingress.class";
const MARKS_OF_STORAGE: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const MARKS_OF_INGRESS: [&str; 1] = ["ingressclass.kubernetes.io/is-default-class"];

/// Whether it is about classes of priority.
pub(crate) fn is_priority_class(target: &Target) -> bool {
    target.resource.kind == "PriorityClass" && !target.resource.is_custom()
}

impl Server {
    /// Names the class of what is created or changed, if it has none and there is one for that.
    pub(crate) fn name_class(&self, target: &Target, object: &mut Value, is_new: bool) -> Result<(), Status> {
        if target.part != Part::Whole || target.resource.is_custom() || !object["spec"].is_object() {
            return Ok(());
        }
        let (field, old, classes, marks): (_, _, _, &[&str]) = match target.resource.kind.as_str() {
            "PersistentVolumeClaim" => ("storageClassName", OLD_STORAGE, STORAGE, &MARKS_OF_STORAGE),
            "Ingress" => ("ingressClassName", OLD_INGRESS, INGRESS, &MARKS_OF_INGRESS),
            "Pod" if is_new => return self.set_priority(target, object),
            _ => return Ok(()),
        };
        let is_said = !object["spec"][field].is_null() || meta::annotation(object, old).is_some();
        if !is_said && let Some(class) = self.default_class(classes, marks) {
            object["spec"][field] = class.into();
        }
        Ok(())
    }

    /// The newest of the classes that are marked.
    fn default_class(&self, classes: [&str; 2], marks: &[&str]) -> Option<String> {
        let classes = self.all(classes);
        let is_marked =
            |class: &&Value| marks.iter().any(|mark| meta::annotation(class, mark).is_some_and(|said| said == "true"));
        let order = |class: &&Value| {
            (meta::text(class, "creationTimestamp").to_owned(), Reverse(meta::text(class, "name").to_owned()))
        };
        let newest = classes.iter().filter(is_marked).max_by_key(order);
        newest.map(|class| meta::text(class, "name").to_owned())
    }

    /// What a pod counts, by its class.
    fn set_priority(&self, target: &Target, pod: &mut Value) -> Result<(), Status> {
        let name = pod["spec"]["priorityClassName"].as_str().unwrap_or_default().to_owned();
        let class = if name.is_empty() {
            let all = self.all(PRIORITY).into_iter().filter(|class| class["globalDefault"] == true);
            all.min_by_key(|class| class["value"].as_i64())
        } else {
            self.class(PRIORITY, &name)
        };
        let refuse = |why: String| Err(Status::forbidden(&target.resource.id, meta::text(pod, "name"), &why));
        if class.is_none() && !name.is_empty() {
            return refuse(format!("no PriorityClass with name {name} was found"));
        }
        let class = class.unwrap_or_default();
        let number = class["value"].as_i64().unwrap_or(0);
        let policy = class["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority");
        if let Some(said) = pod["spec"]["priority"].as_i64().filter(|said| *said != number) {
            return refuse(format!(
                "the integer value of priority ({said}) must not be provided in pod spec; priority admission controller computed {number} from the given PriorityClass name"
            ));
        }
        if let Some(said) = pod["spec"]["preemptionPolicy"].as_str().filter(|said| *said != policy) {
            return refuse(format!(
                "the string value of PreemptionPolicy ({said}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            ));
        }
        if let Some(found) = class["metadata"]["name"].as_str() {
            pod["spec"]["priorityClassName"] = found.into();
        }
        pod["spec"]["priority"] = number.into();
        pod["spec"]["preemptionPolicy"] = policy.into();
        Ok(())
    }

    /// Only one class of priority may be the default.
    pub(crate) fn check_default_priority(&self, target: &Target, class: &Value, is_new: bool) -> Result<(), Status> {
        if !is_priority_class(target) || class["globalDefault"] != true {
            return Ok(());
        }
        let name = meta::text(class, "name");
        let all = self.all(PRIORITY).into_iter().filter(|class| class["globalDefault"] == true);
        let default = all.min_by_key(|class| class["value"].as_i64()).unwrap_or_default();
        let other = default["metadata"]["name"].as_str().filter(|other| is_new || *other != name);
        let why = |other| format!("PriorityClass {other} is already marked as default. Only one default can exist");
        other.map_or(Ok(()), |other| Err(Status::forbidden(&target.resource.id, name, &why(other))))
    }

    /// A claim grows only once it is bound, and where its class lets it.
    pub(crate) fn check_growth(&self, target: &Target, claim: &Value, old: &Value) -> Result<(), Status> {
        let size = |claim: &Value| claim["spec"]["resources"]["requests"]["storage"].clone();
        let is_claim = target.resource.kind == "PersistentVolumeClaim" && !target.resource.is_custom();
        if target.part != Part::Whole || !is_claim || !concert_schema::is_more(&size(claim), &size(old)) {
            return Ok(());
        }
        let class = claim["spec"]["storageClassName"].as_str().or_else(|| meta::annotation(claim, OLD_STORAGE));
        let class = class.and_then(|name| self.class(STORAGE, name)).unwrap_or_default();
        let why = match (old["status"]["phase"] == "Bound", class["allowVolumeExpansion"] == true) {
            (true, true) => return Ok(()),
            (false, _) => "Only bound persistent volume claims can be expanded",
            (true, false) => {
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
            }
        };
        Err(Status::forbidden(&target.resource.id, meta::text(claim, "name"), why))
    }

    fn class(&self, [group, resource]: [&str; 2], name: &str) -> Option<Value> {
        let key = Key { resource: GroupResource::new(group, resource), object: ObjectKey::cluster(name) };
        serde_json::from_slice(&self.store().snapshot().get(&key)?.bytes).ok()
    }

    fn all(&self, [group, resource]: [&str; 2]) -> Vec<Value> {
        let (snapshot, resource) = (self.store().snapshot(), GroupResource::new(group, resource));
        let entries = snapshot.range(&resource, None, None);
        entries.filter_map(|(_, entry)| serde_json::from_slice(&entry.bytes).ok()).collect()
    }
}
