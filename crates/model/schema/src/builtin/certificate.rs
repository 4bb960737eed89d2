//! Requests for certificates: what is asked for never changes, who approves says so in conditions, and who signs adds
//! the certificate.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use concert_api::{Fault, FieldError, FieldErrors, names};
use serde_json::{Value, json};

use super::judge::{Judge, items, text};

/// The conditions that hold once they are there.
const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];
/// What is told of a request that is approved and denied.
const BOTH: (&str, &str) = (
    r#"{conditions[{"type": "Approved"}], conditions[{"type": "Denied"}]}"#,
    r#"must specify at most one of: `conditions[{"type": "Approved"}]`, `conditions[{"type": "Denied"}]`"#,
);
const LEGACY: &str = "kubernetes.io/legacy-unknown";
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// What the name of a signer looks like.
const SIGNER_FORM: &str = "must be a fully qualified domain and path of the form 'example.com/signer-name'";

/// A new request has no conditions yet.
pub(super) fn prepare(object: &mut Value, old: Option<&Value>) {
    if old.is_none() && object.is_object() {
        object["status"] = json!({});
    }
}

/// What is wrong with a request. What was already so is forgiven.
pub(super) fn check(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    check_spec(object, old, &mut judge);
    check_conditions(object, old, &mut judge);
    check_certificate(object, old, &mut judge);
    if let Some(old) = old {
        for kind in FINAL {
            if count(object, kind) < count(old, kind) {
                let detail = format!("updates may not remove a condition of type {kind:?}");
                judge.forbidden("status.conditions", detail);
            }
        }
        let (before, now) = (text(&old["status"]["certificate"]), text(&object["status"]["certificate"]));
        if !before.is_empty() && before != now {
            judge.forbidden("status.certificate", "updates may not modify existing certificate content");
        }
    }
    judge.errors
}

/// How many conditions of a type a request has.
fn count(request: &Value, kind: &str) -> usize {
    conditions(request).filter(|condition| condition["type"] == kind).count()
}

fn conditions(request: &Value) -> impl Iterator<Item = &Value> {
    request["status"]["conditions"].as_array().into_iter().flatten()
}

fn check_spec(object: &Value, old: Option<&Value>, judge: &mut Judge) {
    let spec = &object["spec"];
    if let Some(fault) = request_fault(text(&spec["request"])) {
        judge.invalid("spec.request", spec["request"].clone(), fault);
    }
    let usages = items(&spec["usages"], "spec.usages");
    if usages.is_empty() {
        judge.required("spec.usages", "");
    }
    let before = old.map(|old| items(&old["spec"]["usages"], ""));
    let is_known = |usage: &Value| USAGES.contains(&text(usage));
    if before.as_ref().is_none_or(|before| before.iter().all(|(_, usage)| is_known(usage))) {
        for (path, usage) in usages.iter().filter(|(_, usage)| !is_known(usage)) {
            judge.not_supported(text(usage), &USAGES, path);
        }
    }
    if before.is_none_or(|before| repeated(&before).is_empty()) {
        for (path, usage) in repeated(&usages) {
            judge.duplicate(path, text(usage));
        }
    }
    check_signer(spec, old, judge);
    if let Some(seconds) = spec["expirationSeconds"].as_i64().filter(|seconds| *seconds < 600) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        judge.invalid("spec.expirationSeconds", seconds, detail);
    }
}

/// The items that were there before.
fn repeated<'a>(items: &[(String, &'a Value)]) -> Vec<(String, &'a Value)> {
    let mut known = BTreeSet::new();
    items.iter().filter(|(_, item)| !known.insert(text(item))).cloned().collect()
}

fn check_signer(spec: &Value, old: Option<&Value>, judge: &mut Judge) {
    const FIELD: &str = "spec.signerName";
    let signer = text(&spec["signerName"]);
    if signer == LEGACY && old.is_none_or(|old| old["spec"]["signerName"] != LEGACY) {
        judge.invalid(FIELD, signer, "the legacy signerName is not allowed via this API version");
        return;
    }
    if signer.is_empty() {
        judge.required(FIELD, "");
        return;
    }
    let Some((domain, path)) = signer.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        judge.invalid(FIELD, signer, SIGNER_FORM);
        return;
    };
    let mut too_long = |most: usize| {
        judge.errors.push(FieldError::new(FIELD, Fault::TooLong, format!("may not be more than {most} bytes")));
    };
    if domain.len() > 253 {
        too_long(253);
    }
    // The first part that is wrong is told.
    let first_faults = |part: &str, faults: fn(&str) -> Vec<String>| {
        let mut found = part.split('.').map(|label| (label.to_owned(), faults(label)));
        found.find(|(_, faults)| !faults.is_empty())
    };
    let in_domain = first_faults(domain, names::label_faults);
    for (label, fault) in
        in_domain.into_iter().flat_map(|(label, all)| all.into_iter().map(move |f| (label.clone(), f)))
    {
        judge.invalid(FIELD, domain, format!("validating label {label:?}: {fault}"));
    }
    if !domain.contains('.') {
        judge.invalid(FIELD, domain, "should be a domain with at least two segments separated by dots");
    }
    let in_path = first_faults(path, names::subdomain_faults);
    for (label, fault) in in_path.into_iter().flat_map(|(label, all)| all.into_iter().map(move |f| (label.clone(), f)))
    {
        judge.invalid(FIELD, path, format!("validating label {label:?}: {fault}"));
    }
    let most = 253 + 1 + 253 + 63 + 1;
    if signer.len() > most {
        judge.errors.push(FieldError::new(FIELD, Fault::TooLong, format!("may not be more than {most} bytes")));
    }
}

fn check_conditions(object: &Value, old: Option<&Value>, judge: &mut Judge) {
    let had = |fits: &dyn Fn(&Value) -> bool| old.is_some_and(fits);
    let forgives_empty = had(&|old| conditions(old).any(|one| text(&one["type"]).is_empty()));
    let forgives_both = had(&|old| count(old, "Approved") > 0 && count(old, "Denied") > 0);
    let forgives_repeated = had(&|old| {
        let mut known = BTreeSet::new();
        conditions(old).any(|one| !known.insert(text(&one["type"])))
    });
    let mut known = BTreeSet::new();
    for (path, condition) in items(&object["status"]["conditions"], "status.conditions") {
        let kind = text(&condition["type"]);
        if kind.is_empty() && !forgives_empty {
            judge.required(format!("{path}.type"), "");
        }
        let allowed: &[&str] = if FINAL.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        judge.one_of(&condition["status"], allowed, &format!("{path}.status"));
        let other = match kind {
            "Approved" => Some("Denied"),
            "Denied" => Some("Approved"),
            _ => None,
        };
        if !forgives_both && other.is_some_and(|other| known.contains(other)) {
            judge.invalid("status.conditions", BOTH.0, BOTH.1);
        }
        if !known.insert(kind) && !forgives_repeated {
            judge.duplicate(format!("{path}.type"), kind);
        }
    }
}

fn check_certificate(object: &Value, old: Option<&Value>, judge: &mut Judge) {
    let certificate = |request: &Value| text(&request["status"]["certificate"]).to_owned();
    let now = certificate(object);
    let forgiven = old.map(certificate).is_some_and(|before| before == now || certificate_fault(&before).is_some());
    if let Some(fault) = certificate_fault(&now).filter(|_| !forgiven) {
        judge.invalid("status.certificate", "<certificate data>", fault);
    }
}

/// A block of a PEM file.
struct Block {
    kind: String,
    has_headers: bool,
    der: Vec<u8>,
}

/// The blocks of what is a PEM file in base64.
fn blocks(encoded: &str) -> Vec<Block> {
    let bytes = BASE64_STANDARD.decode(encoded).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut blocks = Vec::new();
    let mut lines = text.lines().map(str::trim_end);
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")) else { continue };
        let end = format!("-----END {kind}-----");
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
        let (headers, data): (Vec<&str>, Vec<&str>) = body.into_iter().partition(|line| line.contains(':'));
        if let Ok(der) = BASE64_STANDARD.decode(data.concat()) {
            blocks.push(Block { kind: kind.to_owned(), has_headers: !headers.is_empty(), der });
        }
    }
    blocks
}

fn request_fault(request: &str) -> Option<&'static str> {
    match blocks(request).first() {
        Some(block) if block.kind == "CERTIFICATE REQUEST" => {
            (!is_sequence(&block.der)).then_some("asn1: syntax error: data truncated")
        }
        Some(_) | None => Some("PEM block type must be CERTIFICATE REQUEST"),
    }
}

fn certificate_fault(certificate: &str) -> Option<String> {
    if certificate.is_empty() {
        return None;
    }
    let blocks = blocks(certificate);
    if blocks.is_empty() {
        return Some("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    blocks.into_iter().find_map(|block| match block {
        Block { kind, .. } if kind != "CERTIFICATE" => {
            Some(format!("only CERTIFICATE PEM blocks are allowed, found {kind:?}"))
        }
        Block { has_headers: true, .. } => Some("no PEM block headers are permitted".to_owned()),
        Block { der, .. } => (!is_sequence(&der)).then(|| "x509: malformed certificate".to_owned()),
    })
}

/// Whether bytes are one ASN.1 sequence, as far as its length tells.
fn is_sequence(der: &[u8]) -> bool {
    let Some((0x30, rest)) = der.split_first().map(|(tag, rest)| (*tag, rest)) else { return false };
    let Some((&first, rest)) = rest.split_first() else { return false };
    if first < 0x80 {
        return rest.len() == usize::from(first);
    }
    let Some((length, rest)) = rest.split_at_checked(usize::from(first & 0x7f)) else { return false };
    length.len() <= 4 && rest.len() == length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
}
