//! Where the content of volumes comes from.

use std::collections::{BTreeMap, BTreeSet};

use concert_api::{Fault, FieldError, names, quoted};
use serde_json::Value;

use super::environment::{Told, check_field, check_resource};
use crate::builtin::judge::{Judge, count, items, members, text};
use crate::builtin::{NameRule, quantity, volume};

const MANY: &str = "may not specify more than 1 volume type";
const CONFLICT: &str = "conflicting duplicate paths";
/// Where the content of a volume can come from, in the order in which it is looked for.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];
/// What has to be said of some sources, and nothing else is looked at.
const NEEDED: [(&str, &[&str]); 11] = [
    ("azureFile", &["secretName", "shareName"]),
    ("cephfs", &["monitors"]),
    ("cinder", &["volumeID"]),
    ("glusterfs", &["endpoints", "path"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("rbd", &["monitors", "image"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("storageos", &["volumeName"]),
    ("vsphereVolume", &["volumePath"]),
];
const HOST_KINDS: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

impl Judge {
    /// A path that does not lead upwards.
    pub(in crate::builtin) fn no_backsteps(&mut self, path: &str, field: &str) {
        if path.split('/').any(|part| part == "..") {
            self.invalid(field, path, "must not contain '..'");
        }
    }

    /// A path that leads downwards from where it begins.
    pub(super) fn descending(&mut self, path: &str, field: &str) {
        if path.starts_with('/') {
            self.invalid(field, path, "must be a relative path");
        }
        self.no_backsteps(path, field);
    }

    /// Such a path that no name of the server's own begins.
    fn inside(&mut self, path: &str, field: &str) {
        self.descending(path, field);
        if path.starts_with("..") && !path.starts_with("../") {
            self.invalid(field, path, "must not start with '..'");
        }
    }

    /// Who may do what with a file.
    fn mode(&mut self, mode: &Value, field: &str) {
        if let Some(mode) = mode.as_i64().filter(|mode| !(0..=0o777).contains(mode)) {
            self.invalid(field, mode, "must be a number between 0 and 0777 (octal), both inclusive");
        }
    }

    /// The name of a driver of storage.
    pub(in crate::builtin) fn driver(&mut self, driver: &Value, field: &str) {
        if self.text(driver, field) {
            let name = text(driver);
            self.short(name, 63, field);
            self.faults(name, names::subdomain_faults(&name.to_lowercase()), field);
        }
    }
}

/// The volumes that are as they should be, by name.
pub(super) fn check_volumes<'a>(
    volumes: &'a Value,
    pod: &str,
    path: &str,
    judge: &mut Judge,
) -> BTreeMap<&'a str, &'a Value> {
    let all = items(volumes, path);
    let claim = |volume: &Value| format!("{pod}-{}", text(&volume["name"]));
    let made = all.iter().filter(|(_, volume)| !pod.is_empty() && volume["ephemeral"].is_object());
    let made: BTreeSet<String> = made.map(|(_, volume)| claim(volume)).collect();
    let mut known = BTreeMap::new();
    for (place, volume) in all {
        let before = judge.errors.len();
        check_volume(volume, pod, &place, judge);
        judge.label(&volume["name"], &format!("{place}.name"));
        let name = text(&volume["name"]);
        if known.contains_key(name) {
            judge.duplicate(format!("{place}.name"), name);
        }
        if judge.errors.len() == before {
            known.insert(name, volume);
        }
        let used = text(&volume["persistentVolumeClaim"]["claimName"]);
        if made.contains(used) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            judge.invalid(format!("{place}.persistentVolumeClaim.claimName"), used, detail);
        }
    }
    known
}

fn check_volume(volume: &Value, pod: &str, place: &str, judge: &mut Judge) {
    let mut given = SOURCES.into_iter().filter(|name| volume[*name].is_object());
    match given.next() {
        None => judge.required(place, "must specify a volume type"),
        Some(kind) => {
            // What is said of it has another name there.
            let shown = if kind == "gcePersistentDisk" { "persistentDisk" } else { kind };
            check_source(&volume[kind], kind, &format!("{place}.{shown}"), judge);
            if kind == "ephemeral" && !pod.is_empty() && !text(&volume["name"]).is_empty() {
                let (name, claim) = (text(&volume["name"]), format!("{pod}-{}", text(&volume["name"])));
                for fault in names::subdomain_faults(&claim) {
                    judge.invalid(format!("{place}.name"), name, format!("PVC name {}: {fault}", quoted(&claim)));
                }
            }
        }
    }
    for further in given {
        let shown = match further {
            "cephfs" => "cephFS",
            "downwardAPI" => "downwarAPI",
            other => other,
        };
        judge.forbidden(format!("{place}.{shown}"), MANY);
    }
}

/// What volumes of pods have in common with those of the cluster.
pub(in crate::builtin) fn check_source(source: &Value, kind: &str, path: &str, judge: &mut Judge) {
    if let Some((_, needed)) = NEEDED.iter().find(|(name, _)| *name == kind) {
        for field in needed.iter().filter(|field| text(&source[**field]).is_empty() && count(&source[**field]) == 0) {
            judge.required(format!("{path}.{field}"), "");
        }
        return;
    }
    match kind {
        "emptyDir" => check_empty(source, path, judge),
        "hostPath" => check_host(source, path, judge),
        "gitRepo" => {
            judge.text(&source["repository"], &format!("{path}.repository"));
            judge.descending(text(&source["directory"]), &format!("{path}.directory"));
        }
        "gcePersistentDisk" => check_disk(source, "pdName", path, judge),
        "awsElasticBlockStore" => check_disk(source, "volumeID", path, judge),
        "secret" => check_files(source, "secretName", path, judge),
        "configMap" => check_files(source, "name", path, judge),
        "nfs" => {
            judge.text(&source["server"], &format!("{path}.server"));
            judge.text(&source["path"], &format!("{path}.path"));
            if !text(&source["path"]).starts_with('/') {
                judge.invalid(format!("{path}.path"), text(&source["path"]), "must be an absolute path");
            }
        }
        "iscsi" => {
            judge.text(&source["targetPortal"], &format!("{path}.targetPortal"));
            judge.text(&source["iqn"], &format!("{path}.iqn"));
            judge.between(&source["lun"], (0, 255), &format!("{path}.lun"));
        }
        "fc" => check_fibre(source, path, judge),
        "flocker" => check_flocker(source, path, judge),
        "quobyte" => {
            if text(&source["registry"]).is_empty() {
                let detail = "must be a host:port pair or multiple pairs separated by commas";
                judge.required(format!("{path}.registry"), detail);
            }
            judge.text(&source["volume"], &format!("{path}.volume"));
        }
        "downwardAPI" => {
            judge.mode(&source["defaultMode"], &format!("{path}.defaultMode"));
            for (_, file) in items(&source["items"], path) {
                check_told(file, path, judge);
            }
        }
        "flexVolume" => check_flex(source, path, judge),
        "azureDisk" => check_azure(source, path, judge),
        "projected" => check_projected(source, path, judge),
        "csi" => check_driver(source, path, judge),
        "ephemeral" => check_made(source, path, judge),
        "image" => {
            judge.text(&source["reference"], &format!("{path}.reference"));
            judge.one_of(&source["pullPolicy"], &["Always", "IfNotPresent", "Never"], &format!("{path}.pullPolicy"));
        }
        _ => {}
    }
}

fn check_empty(source: &Value, path: &str, judge: &mut Judge) {
    if quantity::millis(&source["sizeLimit"]).is_some_and(|limit| limit < 0) {
        judge.forbidden(format!("{path}.sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
}

fn check_host(source: &Value, path: &str, judge: &mut Judge) {
    if judge.text(&source["path"], &format!("{path}.path")) {
        judge.no_backsteps(text(&source["path"]), &format!("{path}.path"));
        judge.choice(&source["type"], &HOST_KINDS, &format!("{path}.type"));
    }
}

fn check_disk(source: &Value, name: &str, path: &str, judge: &mut Judge) {
    judge.text(&source[name], &format!("{path}.{name}"));
    if let Some(part) = source["partition"].as_i64().filter(|part| !(0..=255).contains(part)) {
        judge.invalid(format!("{path}.partition"), part, "must be between 1 and 255, inclusive");
    }
}

/// Files from the keys of a config map or a secret.
fn check_files(source: &Value, name: &str, path: &str, judge: &mut Judge) {
    judge.text(&source[name], &format!("{path}.{name}"));
    judge.mode(&source["defaultMode"], &format!("{path}.defaultMode"));
    for (place, item) in items(&source["items"], &format!("{path}.items")) {
        check_item(item, &place, judge);
    }
}

fn check_item(item: &Value, place: &str, judge: &mut Judge) {
    judge.text(&item["key"], &format!("{place}.key"));
    judge.text(&item["path"], &format!("{place}.path"));
    judge.inside(text(&item["path"]), &format!("{place}.path"));
    judge.mode(&item["mode"], &format!("{place}.mode"));
}

/// A file that tells something of the pod.
fn check_told(file: &Value, path: &str, judge: &mut Judge) {
    judge.text(&file["path"], &format!("{path}.path"));
    judge.inside(text(&file["path"]), &format!("{path}.path"));
    let (field, resource) = (&file["fieldRef"], &file["resourceFieldRef"]);
    if field.is_object() {
        check_field(field, Told::ByFile, &format!("{path}.fieldRef"), judge);
        if resource.is_object() {
            judge.invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
        }
    } else if resource.is_object() {
        check_resource(resource, Told::ByFile, &format!("{path}.resourceFieldRef"), judge);
    } else {
        judge.required(path, "one of fieldRef and resourceFieldRef is required");
    }
    judge.mode(&file["mode"], &format!("{path}.mode"));
}

/// One volume from many sources: no two of them make the same file.
fn check_projected(source: &Value, path: &str, judge: &mut Judge) {
    judge.mode(&source["defaultMode"], &format!("{path}.defaultMode"));
    let mut known = BTreeSet::new();
    for (place, one) in items(&source["sources"], &format!("{path}.sources")) {
        for kind in ["secret", "configMap"] {
            if one[kind].is_object() {
                check_projected_files(&one[kind], &mut known, (path, &format!("{place}.{kind}")), judge);
            }
        }
        for (_, file) in items(&one["downwardAPI"]["items"], "") {
            check_told(file, &format!("{place}.downwardAPI"), judge);
            let at = text(&file["path"]);
            if !at.is_empty() && !known.insert(at.to_owned()) {
                judge.invalid(path, at, CONFLICT);
            }
        }
        if one["serviceAccountToken"].is_object() {
            check_token(&one["serviceAccountToken"], path, &format!("{place}.serviceAccountToken"), judge);
        }
        if one["clusterTrustBundle"].is_object() {
            let bundle = &one["clusterTrustBundle"];
            check_bundle(bundle, &format!("{place}.clusterTrustBundle"), judge);
            if !known.insert(text(&bundle["path"]).to_owned()) {
                judge.invalid(path, text(&bundle["path"]), CONFLICT);
            }
        }
        if one.as_object().is_some_and(|kinds| kinds.values().filter(|kind| kind.is_object()).count() > 1) {
            judge.forbidden(place, "may not specify more than 1 volume type per source");
        }
    }
}

fn check_projected_files(one: &Value, known: &mut BTreeSet<String>, (whole, path): (&str, &str), judge: &mut Judge) {
    judge.text(&one["name"], &format!("{path}.name"));
    for (place, item) in items(&one["items"], &format!("{path}.items")) {
        check_item(item, &place, judge);
        let at = text(&item["path"]);
        if !at.is_empty() && !known.insert(at.to_owned()) {
            judge.invalid(whole, text(&one["name"]), CONFLICT);
        }
    }
}

fn check_token(token: &Value, whole: &str, path: &str, judge: &mut Judge) {
    let field = format!("{path}.expirationSeconds");
    match token["expirationSeconds"].as_i64() {
        None => judge.required(field, ""),
        Some(seconds) if seconds < 600 => {
            judge.invalid(field, seconds, "may not specify a duration less than 10 minutes");
        }
        Some(seconds) if seconds > 1 << 32 => {
            judge.invalid(field, seconds, "may not specify a duration larger than 2^32 seconds");
        }
        Some(_) => {}
    }
    // The real server forgets which source it speaks of.
    if judge.text(&token["path"], &format!("{whole}.path")) {
        judge.inside(text(&token["path"]), &format!("{whole}.path"));
    }
}

/// The certificates of those who are trusted: of one name, or of one signer.
fn check_bundle(bundle: &Value, path: &str, judge: &mut Judge) {
    let field = format!("{path}.name");
    match (bundle["name"].as_str(), bundle["signerName"].as_str()) {
        (Some(name), Some(signer)) => {
            let shown = format!(
                r#"{{"Name":{},"SignerName":{},"LabelSelector":{},"Optional":{},"Path":{},"User":null}}"#,
                quoted(name),
                quoted(signer),
                bundle["labelSelector"],
                bundle["optional"],
                quoted(text(&bundle["path"]))
            );
            let detail = "only one of name and signerName may be used";
            judge.errors.push(FieldError::new(path, Fault::InvalidShown(Some(shown)), detail));
        }
        (Some(name), None) => {
            if name.is_empty() {
                judge.required(&field, "must be a valid object name");
            }
            let own = name.rsplit_once(':').map_or(name, |(_, own)| own);
            for fault in names::subdomain_faults(own) {
                judge.invalid(&field, name, format!("not a valid clustertrustbundlename: {fault}"));
            }
            let selector = &bundle["labelSelector"];
            if selector.is_object() {
                let detail = "labelSelector must be unset if name is specified";
                judge.invalid(format!("{path}.labelSelector"), selector.clone(), detail);
            }
        }
        (None, Some(signer)) => {
            let field = format!("{path}.signerName");
            if signer.is_empty() {
                judge.required(&field, "must be a valid signer name");
            }
            if signer.split('/').count() != 2 {
                let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
                judge.invalid(field, signer, detail);
            }
            judge.selector(&bundle["labelSelector"], &format!("{path}.labelSelector"));
        }
        (None, None) => judge.required(path, "either name or signerName must be specified"),
    }
    judge.text(&bundle["path"], &format!("{path}.path"));
    judge.inside(text(&bundle["path"]), &format!("{path}.path"));
}

fn check_fibre(source: &Value, path: &str, judge: &mut Judge) {
    let (targets, names) = (&source["targetWWNs"], &source["wwids"]);
    let field = format!("{path}.targetWWNs");
    match (count(targets) > 0, count(names) > 0) {
        (false, false) => judge.required(field, "must specify either targetWWNs or wwids, but not both"),
        (true, true) => {
            judge.invalid(field, targets.clone(), "targetWWNs and wwids can not be specified simultaneously");
        }
        _ => {}
    }
    if count(targets) > 0 && source["lun"].is_null() {
        judge.required(format!("{path}.lun"), "lun is required if targetWWNs is specified");
    } else if count(targets) > 0 {
        judge.between(&source["lun"], (0, 255), &format!("{path}.lun"));
    }
}

fn check_flocker(source: &Value, path: &str, judge: &mut Judge) {
    let (name, id) = (text(&source["datasetName"]), text(&source["datasetUUID"]));
    match (name.is_empty(), id.is_empty()) {
        (true, true) => judge.required(path, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            judge.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously");
        }
        _ => {}
    }
    if name.contains('/') {
        judge.invalid(format!("{path}.datasetName"), name, "must not contain '/'");
    }
}

fn check_flex(source: &Value, path: &str, judge: &mut Judge) {
    judge.text(&source["driver"], &format!("{path}.driver"));
    for (key, _) in members(&source["options"]) {
        let group = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
        if group.ends_with(".kubernetes.io") || group.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            judge.invalid(format!("{path}.options[{key}]"), key, detail);
        }
    }
}

fn check_azure(source: &Value, path: &str, judge: &mut Judge) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    judge.text(&source["diskName"], &format!("{path}.diskName"));
    judge.text(&source["diskURI"], &format!("{path}.diskURI"));
    judge.choice(&source["cachingMode"], &["None", "ReadOnly", "ReadWrite"], &format!("{path}.cachingMode"));
    judge.choice(&source["kind"], &["Dedicated", "Managed", "Shared"], &format!("{path}.kind"));
    let (prefix, form) = if source["kind"] == "Managed" { ("/subscriptions/", MANAGED) } else { ("https://", BLOB) };
    let uri = text(&source["diskURI"]);
    if !source["kind"].is_null() && !uri.starts_with(prefix) {
        judge.not_supported(uri, &[form], &format!("{path}.diskURI"));
    }
}

fn check_driver(source: &Value, path: &str, judge: &mut Judge) {
    judge.driver(&source["driver"], &format!("{path}.driver"));
    let secret = &source["nodePublishSecretRef"];
    if secret.is_object() && judge.text(&secret["name"], &format!("{path}.nodePublishSecretRef.name")) {
        let name = text(&secret["name"]);
        judge.faults(name, NameRule::Subdomain.faults(name), &format!("{path}.name"));
    }
}

/// A volume that is made for its pod.
fn check_made(source: &Value, path: &str, judge: &mut Judge) {
    let (template, path) = (&source["volumeClaimTemplate"], format!("{path}.volumeClaimTemplate"));
    if !template.is_object() {
        return judge.required(path, "");
    }
    super::check_template_metadata(template, &format!("{path}.metadata"), judge);
    volume::claim::check_spec(&template["spec"], &format!("{path}.spec"), judge);
}
