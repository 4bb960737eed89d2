//! What the author of an object that is taken should know.

mod pods;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::kinds;
use crate::owners;
use crate::services::SERVICES;
use crate::target::{Part, Target};

/// Warnings about an object; what `old` said already is not told again.
pub(crate) fn advice(target: &Target, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut advice = owners::finalizer_warnings(target, object, old);
    if target.resource.id == kinds::definitions() && target.part == Part::Whole {
        let before = old.map(concert_schema::definition_warnings).unwrap_or_default();
        let warnings = concert_schema::definition_warnings(object).into_iter();
        advice.extend(warnings.filter(|warning| !before.contains(warning)));
    }
    if target.resource.id == *SERVICES && (target.part == Part::Whole || old.is_none()) {
        advice.extend(service_advice(&object["spec"]).into_iter().map(str::to_owned));
    }
    if let (Some(builtin), Part::Whole | Part::Scale) = (target.version().builtin, target.part) {
        advice.extend(pods::advice(&builtin.gvk.group, &builtin.gvk.kind, object, old));
    }
    if object["kind"] == "PersistentVolumeClaim" && target.part == Part::Whole && !target.resource.is_custom() {
        advice.extend(["requests", "limits"].into_iter().filter_map(|list| {
            let path = format!("spec.resources.{list}[storage]");
            pods::about_bytes(&object["spec"]["resources"][list]["storage"], &path)
        }));
    }
    if object["addressType"] == "FQDN" && target.resource.kind == "EndpointSlice" && !target.resource.is_custom() {
        advice.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    if object["kind"] == "Secret" && object["type"] == "kubernetes.io/tls" && !target.resource.is_custom() {
        advice.extend(pem_warning(object));
    }
    advice
}

/// What is of no use, or will be of none.
fn service_advice(spec: &Value) -> Vec<&'static str> {
    let outside = spec["externalIPs"].as_array().is_some_and(|list| !list.is_empty());
    let is_name = spec["type"] == "ExternalName";
    let mut advice = Vec::new();
    if spec["clusterIP"] == "None" {
        if outside {
            advice.push("spec.externalIPs is ignored for headless services");
        }
        if spec["sessionAffinity"] != "None" {
            advice.push("spec.SessionAffinity is ignored for headless services");
        }
    } else if outside && !is_name {
        advice.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters");
    }
    if outside && is_name {
        advice.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    }
    if !is_name && spec["externalName"].as_str().is_some_and(|name| !name.is_empty()) {
        advice.push("spec.externalName is ignored when spec.type is not \"ExternalName\"");
    }
    advice
}

/// What Go says of a certificate and a key that are none. Whether they belong together is not looked at.
fn pem_warning(secret: &Value) -> Option<String> {
    let blocks = |key: &str| {
        let bytes = STANDARD.decode(secret["data"][key].as_str().unwrap_or_default()).unwrap_or_default();
        pem_blocks(&String::from_utf8_lossy(&bytes))
    };
    let is_key = |block: &String| block == "PRIVATE KEY" || block.ends_with(" PRIVATE KEY");
    let (certificate, key) = (blocks("tls.crt"), blocks("tls.key"));
    if !certificate.iter().any(|block| block == "CERTIFICATE") {
        return Some(match &*certificate {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [one] if is_key(one) => "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".to_owned(),
            others => format!("tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]", others.join(" ")),
        });
    }
    if key.iter().any(is_key) {
        return None;
    }
    Some(match &*key {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [one] if one == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        others => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [{}]",
            others.join(" ")
        ),
    })
}

/// The types of the blocks in a text.
fn pem_blocks(text: &str) -> Vec<String> {
    let begins = text.lines().filter_map(|line| line.trim_end().strip_prefix("-----BEGIN ")?.strip_suffix("-----"));
    begins.filter(|kind| text.contains(&format!("-----END {kind}-----"))).map(str::to_owned).collect()
}
