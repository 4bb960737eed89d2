//! What pods and their containers may do on a node, and what of it other systems than Linux do not know.

use std::collections::HashSet;

use concert_api::{Fault, FieldError, names, quoted};
use serde_json::Value;

use super::container::added;
use crate::builtin::judge::{Judge, items, text};

/// The identities of users and groups.
const IDENTITIES: (i64, i64) = (0, i32::MAX as i64);
const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const SYSCTL_RULE: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
/// What stands for processes that talk to each other.
const OF_PROCESSES: [&str; 10] = [
    "kernel.msg",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shm",
    "kernel.shm_rmid_forced",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
];
/// What a pod of Windows may not have in its security context, and its containers in theirs.
const NOT_IN_WINDOWS_PODS: [&str; 11] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];
const NOT_IN_WINDOWS_CONTAINERS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];
const NO_WINDOWS: &str = "cannot be set for a windows pod";
const NO_LINUX: &str = "windows options cannot be set for a linux pod";

/// Structs as Go shows them: the names of its fields, those in JSON, and what is in them.
type Shape = &'static [(&'static str, &'static str, Part)];

enum Part {
    /// As it is, or null.
    Plain,
    /// A text that is empty where there is none.
    Text,
    /// A struct, or null.
    Struct(Shape),
}

const SECURITY: Shape = &[
    ("Capabilities", "capabilities", Part::Struct(&[("Add", "add", Part::Plain), ("Drop", "drop", Part::Plain)])),
    ("Privileged", "privileged", Part::Plain),
    (
        "SELinuxOptions",
        "seLinuxOptions",
        Part::Struct(&[
            ("User", "user", Part::Text),
            ("Role", "role", Part::Text),
            ("Type", "type", Part::Text),
            ("Level", "level", Part::Text),
        ]),
    ),
    (
        "WindowsOptions",
        "windowsOptions",
        Part::Struct(&[
            ("GMSACredentialSpecName", "gmsaCredentialSpecName", Part::Plain),
            ("GMSACredentialSpec", "gmsaCredentialSpec", Part::Plain),
            ("RunAsUserName", "runAsUserName", Part::Plain),
            ("HostProcess", "hostProcess", Part::Plain),
        ]),
    ),
    ("RunAsUser", "runAsUser", Part::Plain),
    ("RunAsGroup", "runAsGroup", Part::Plain),
    ("RunAsNonRoot", "runAsNonRoot", Part::Plain),
    ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", Part::Plain),
    ("AllowPrivilegeEscalation", "allowPrivilegeEscalation", Part::Plain),
    ("ProcMount", "procMount", Part::Plain),
    ("SeccompProfile", "seccompProfile", Part::Struct(PROFILE)),
    ("AppArmorProfile", "appArmorProfile", Part::Struct(PROFILE)),
];
const PROFILE: Shape = &[("Type", "type", Part::Text), ("LocalhostProfile", "localhostProfile", Part::Plain)];

fn shown(value: &Value, shape: Shape) -> String {
    let part = |(name, member, part): &(&str, &str, Part)| {
        let value = &value[*member];
        let shown = match part {
            Part::Text => quoted(text(value)),
            Part::Struct(shape) if value.is_object() => shown(value, shape),
            Part::Plain | Part::Struct(_) => value.to_string(),
        };
        format!("{name:?}:{shown}")
    };
    format!("{{{}}}", shape.iter().map(part).collect::<Vec<_>>().join(","))
}

fn refuse(value: &Value, shape: Shape, field: &str, detail: &str, judge: &mut Judge) {
    judge.errors.push(FieldError::new(field, Fault::InvalidShown(Some(shown(value, shape))), detail));
}

/// The security context of a container.
pub(super) fn check_security(security: &Value, host_users: bool, path: &str, judge: &mut Judge) {
    if !security.is_object() {
        return;
    }
    for field in ["runAsUser", "runAsGroup"] {
        judge.between(&security[field], IDENTITIES, &format!("{path}.{field}"));
    }
    let mount = &security["procMount"];
    judge.choice(mount, &["Default", "Unmasked"], &format!("{path}.procMount"));
    if host_users && mount == "Unmasked" {
        judge.invalid(format!("{path}.procMount"), "Unmasked", "`hostUsers` must be false to use `Unmasked`");
    }
    check_seccomp(&security["seccompProfile"], &format!("{path}.seccompProfile"), judge);
    if security["allowPrivilegeEscalation"] == false {
        if security["privileged"] == true {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            refuse(security, SECURITY, path, detail, judge);
        }
        if added(security).contains(&"CAP_SYS_ADMIN") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            refuse(security, SECURITY, path, detail, judge);
        }
    }
    check_windows_options(&security["windowsOptions"], &format!("{path}.windowsOptions"), judge);
    check_armor(&security["appArmorProfile"], &format!("{path}.appArmorProfile"), judge);
}

/// The security context of a pod.
pub(super) fn check_pod_security(spec: &Value, path: &str, judge: &mut Judge) {
    let security = &spec["securityContext"];
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        judge.between(&security[field], IDENTITIES, &format!("{path}.{field}"));
    }
    for (place, group) in items(&security["supplementalGroups"], &format!("{path}.supplementalGroups")) {
        judge.between(group, IDENTITIES, &place);
    }
    check_sysctls(spec, &format!("{path}.sysctls"), judge);
    let choice = |judge: &mut Judge, name: &str, allowed: [&str; 2]| {
        judge.choice(&security[name], &allowed, &format!("{path}.{name}"));
    };
    choice(judge, "fsGroupChangePolicy", ["Always", "OnRootMismatch"]);
    check_seccomp(&security["seccompProfile"], &format!("{path}.seccompProfile"), judge);
    check_windows_options(&security["windowsOptions"], &format!("{path}.windowsOptions"), judge);
    check_armor(&security["appArmorProfile"], &format!("{path}.appArmorProfile"), judge);
    choice(judge, "supplementalGroupsPolicy", ["Merge", "Strict"]);
    choice(judge, "seLinuxChangePolicy", ["MountOption", "Recursive"]);
}

fn is_sysctl(name: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    let is_part = |part: &str| part.bytes().all(fits) && edge(part.bytes().next()) && edge(part.bytes().last());
    name.len() <= 253 && name.split(['.', '/']).all(is_part)
}

/// Settings of the kernel, as far as the pod has a kernel of its own.
fn check_sysctls(spec: &Value, path: &str, judge: &mut Judge) {
    let mut known = HashSet::new();
    for (place, sysctl) in items(&spec["securityContext"]["sysctls"], path) {
        let (name, field) = (text(&sysctl["name"]), format!("{place}.name"));
        if name.is_empty() {
            judge.required(&field, "");
        } else if !is_sysctl(name) {
            judge.invalid(&field, name, SYSCTL_RULE);
        } else if known.contains(name) {
            judge.duplicate(&field, name);
        }
        known.insert(name);
        let dotted = name.replace('/', ".");
        if spec["hostNetwork"] == true && dotted.starts_with("net.") {
            judge.invalid(field, name, "may not be specified when 'hostNetwork' is true");
        } else if spec["hostIPC"] == true
            && (OF_PROCESSES.contains(&dotted.as_str()) || dotted.starts_with("fs.mqueue."))
        {
            judge.invalid(field, name, "may not be specified when 'hostIPC' is true");
        }
    }
}

/// The kind of a profile; whether it is on the node.
fn check_profile_kind(profile: &Value, what: &str, path: &str, judge: &mut Judge) {
    match text(&profile["type"]) {
        "" => judge.required(format!("{path}.type"), &format!("type is required when {what} is set")),
        kind if !PROFILES.contains(&kind) => judge.not_supported(kind, &PROFILES, &format!("{path}.type")),
        _ => {}
    }
}

fn check_seccomp(profile: &Value, path: &str, judge: &mut Judge) {
    if !profile.is_object() {
        return;
    }
    check_profile_kind(profile, "seccompProfile", path, judge);
    let (file, field) = (&profile["localhostProfile"], format!("{path}.localhostProfile"));
    match (text(&profile["type"]), file.is_null()) {
        ("Localhost", true) => judge.required(field, "must be set when seccomp type is Localhost"),
        ("Localhost", false) => judge.descending(text(file), &field),
        (_, true) => {}
        (_, false) => {
            refuse(profile, PROFILE, &field, "can only be set when seccomp type is Localhost", judge);
        }
    }
}

fn check_armor(profile: &Value, path: &str, judge: &mut Judge) {
    const NEEDED: &str = "must be set when AppArmor type is Localhost";
    if !profile.is_object() {
        return;
    }
    check_profile_kind(profile, "appArmorProfile", path, judge);
    let (name, field) = (&profile["localhostProfile"], format!("{path}.localhostProfile"));
    match (text(&profile["type"]), name.is_null()) {
        ("Localhost", true) => judge.required(field, NEEDED),
        ("Localhost", false) => {
            let name = text(name);
            if name.trim() != name {
                judge.invalid(&field, name, "must not be padded with whitespace");
            } else if name.is_empty() {
                judge.required(&field, NEEDED);
            }
            judge.short(name, 4095, &field);
        }
        ("RuntimeDefault" | "Unconfined", false) => {
            judge.invalid(field, name.clone(), "can only be set when AppArmor type is Localhost");
        }
        _ => {}
    }
}

fn check_windows_options(options: &Value, path: &str, judge: &mut Judge) {
    const MOST: usize = 64 * 1024;
    if let Some(name) = options["gmsaCredentialSpecName"].as_str() {
        judge.faults(name, names::subdomain_faults(name), &format!("{path}.gmsaCredentialSpecName"));
    }
    if let Some(content) = options["gmsaCredentialSpec"].as_str() {
        let field = format!("{path}.gmsaCredentialSpec");
        if content.is_empty() {
            judge.invalid(field, content, "gmsaCredentialSpec cannot be an empty string");
        } else if content.len() > MOST {
            judge.invalid(field, content, "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if let Some(name) = options["runAsUserName"].as_str() {
        for fault in user_faults(name) {
            judge.invalid(format!("{path}.runAsUserName"), name, format!("runAsUserName{fault}"));
        }
    }
}

/// What is wrong with `domain\user`.
fn user_faults(name: &str) -> Vec<&'static str> {
    if name.is_empty() {
        return vec![" cannot be an empty string"];
    }
    if name.chars().any(|letter| letter.is_ascii_control()) {
        return vec![" cannot contain control characters"];
    }
    let (domain, user) = match name.split_once('\\') {
        Some((_, user)) if user.contains('\\') => return vec![" cannot contain more than one backslash"],
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    let is_long = domain.is_some_and(|domain| domain.len() >= 256);
    let is_odd = domain.is_some_and(|domain| !is_domain(domain));
    let only_dots = !user.is_empty() && user.bytes().all(|byte| matches!(byte, b'.' | b' '));
    [
        (is_long, "'s Domain length must be under 256 characters"),
        (is_odd, "'s Domain doesn't match the NetBios nor the DNS format"),
        (user.is_empty(), "'s User cannot be empty"),
        (user.len() > 104, "'s User length must not be longer than 104 characters"),
        (only_dots, "'s User cannot contain only periods or spaces"),
        (
            user.contains(|letter| "\"/\\:;|=,+*?<>@[]".contains(letter)),
            "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]",
        ),
    ]
    .into_iter()
    .filter_map(|(is_so, fault)| is_so.then_some(fault))
    .collect()
}

/// A name of NetBIOS, or a DNS name with letters of any case.
fn is_domain(domain: &str) -> bool {
    let odd = |letter: char| "\\/:*?\"<>|".contains(letter);
    let count = domain.chars().count();
    let is_short = (1..=15).contains(&count) && !domain.contains(odd) && !domain.starts_with('.');
    is_short || names::subdomain_faults(&domain.to_lowercase()).is_empty()
}

/// Either all containers are processes of the host, or none.
pub(super) fn check_host_processes(spec: &Value, path: &str, judge: &mut Judge) {
    let of_pod = &spec["securityContext"]["windowsOptions"]["hostProcess"];
    let (mut all, mut hosted) = (0, 0);
    for (place, container) in all_containers(spec, path) {
        let own = &container["securityContext"]["windowsOptions"]["hostProcess"];
        all += 1;
        if !of_pod.is_null() && !own.is_null() && of_pod != own {
            let detail = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            judge.invalid(format!("{place}.securityContext.windowsOptions.hostProcess"), own.clone(), detail);
        }
        hosted += usize::from(if own.is_null() { of_pod == true } else { own == true });
    }
    if hosted > 0 && hosted != all {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        judge.invalid(path, "", detail);
    }
    if hosted > 0 && spec["hostNetwork"] != true {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        judge.invalid(format!("{path}.hostNetwork"), false, detail);
    }
}

/// All containers with their places, in the order in which the real server visits them.
fn all_containers<'a>(spec: &'a Value, path: &str) -> Vec<(String, &'a Value)> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.into_iter().flat_map(|list| items(&spec[list], &format!("{path}.{list}"))).collect()
}

/// A pod with users of its own shares less with the host.
pub(super) fn check_host_users(spec: &Value, path: &str, judge: &mut Judge) {
    const DETAIL: &str = "when `hostUsers` is false";
    if spec["hostUsers"] != false {
        return;
    }
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec[field] == true {
            judge.forbidden(format!("{path}.{shown}"), DETAIL);
        }
    }
    for (place, container) in all_containers(spec, path) {
        if !items(&container["volumeDevices"], "").is_empty() {
            judge.forbidden(format!("{place}.volumeDevices"), DETAIL);
        }
    }
}

/// What a pod may not have where it runs on the system that it names.
pub(super) fn check_system(spec: &Value, path: &str, judge: &mut Judge) {
    if !spec["os"].is_object() {
        return;
    }
    match text(&spec["os"]["name"]) {
        "" => judge.required(format!("{path}.os.name"), ""),
        "linux" => check_linux(spec, path, judge),
        "windows" => check_windows(spec, path, judge),
        other => judge.not_supported(other, &["linux", "windows"], &format!("{path}.os")),
    }
}

fn check_linux(spec: &Value, path: &str, judge: &mut Judge) {
    let pod = (path.to_owned(), spec);
    for (place, one) in std::iter::once(pod).chain(all_containers(spec, path)) {
        if one["securityContext"]["windowsOptions"].is_object() {
            judge.forbidden(format!("{place}.securityContext.windowsOptions"), NO_LINUX);
        }
    }
}

fn check_windows(spec: &Value, path: &str, judge: &mut Judge) {
    let mut refuse = |security: &Value, fields: &[&str], place: &str| {
        for field in fields.iter().filter(|field| !security[**field].is_null()) {
            judge.forbidden(format!("{place}.{field}"), NO_WINDOWS);
        }
    };
    refuse(&spec["securityContext"], &NOT_IN_WINDOWS_PODS, &format!("{path}.securityContext"));
    refuse(spec, &["hostUsers"], path);
    for field in ["hostPID", "hostIPC"] {
        if spec[field] == true {
            refuse(spec, &[field], path);
        }
    }
    refuse(spec, &["shareProcessNamespace"], path);
    for (place, container) in all_containers(spec, path) {
        refuse(&container["securityContext"], &NOT_IN_WINDOWS_CONTAINERS, &format!("{place}.securityContext"));
    }
}
