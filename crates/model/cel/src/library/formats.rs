//! Named formats of text, and what is wrong with a text that has not the format.

use base64::Engine as _;
use concert_api::names;

use super::{time, url};
use crate::pattern::Pattern;
use crate::value::{Result, Value};

/// A format that text may have.
#[derive(Debug)]
pub(crate) struct Format {
    /// As rules name it.
    pub(crate) name: &'static str,
    /// How long the pattern is taken to be that checks it.
    pub(crate) pattern_size: u64,
}

const fn format(name: &'static str, pattern_size: u64) -> Format {
    Format { name, pattern_size }
}

static FORMATS: [Format; 13] = [
    format("dns1123Label", 30),
    format("dns1123Subdomain", 60),
    format("dns1035Label", 30),
    format("qualifiedName", 60),
    format("dns1123LabelPrefix", 30),
    format("dns1123SubdomainPrefix", 60),
    format("dns1035LabelPrefix", 30),
    format("labelValue", 40),
    format("uri", 1103),
    format("uuid", 69),
    format("byte", 84),
    format("date", 70),
    format("datetime", 70),
];

impl Format {
    fn find(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// What is wrong with a text.
    fn faults(&self, text: &str) -> Vec<String> {
        let either = |valid: bool, fault: &str| if valid { Vec::new() } else { vec![fault.to_owned()] };
        // A prefix may end with a dash, as the start of a longer name.
        let prefix = || match text.strip_suffix('-') {
            Some(start) if !start.is_empty() => format!("{start}a"),
            _ => text.to_owned(),
        };
        match self.name {
            "dns1123Label" => names::label_faults(text),
            "dns1123LabelPrefix" => names::label_faults(&prefix()),
            "dns1123Subdomain" => names::subdomain_faults(text),
            "dns1123SubdomainPrefix" => names::subdomain_faults(&prefix()),
            "dns1035Label" => dns_1035_faults(text),
            "dns1035LabelPrefix" => dns_1035_faults(&prefix()),
            "qualifiedName" => names::qualified_faults(text),
            "labelValue" => names::label_value_faults(text),
            "uri" => url::Url::parse(text).err().into_iter().collect(),
            "uuid" => either(is_uuid(text), "does not match the UUID format"),
            "byte" => {
                let decoded = base64::engine::general_purpose::STANDARD.decode(text);
                either(!text.is_empty() && decoded.is_ok(), "invalid base64")
            }
            "date" => {
                let valid = text.len() == 10 && time::parse_timestamp(&format!("{text}T00:00:00Z")).is_ok();
                either(valid, "invalid date")
            }
            _ => either(time::parse_timestamp(&text.to_ascii_uppercase()).is_ok(), "invalid datetime"),
        }
    }
}

fn is_uuid(text: &str) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    digits.len() == 32
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && Pattern::parse("^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$")
            .is_ok_and(|pattern| pattern.matches(text))
}

fn dns_1035_faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 63 {
        faults.push("must be no more than 63 bytes".to_owned());
    }
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let valid = text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(inner) && !text.ends_with('-');
    if !valid {
        faults.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    faults
}

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    match (function, args) {
        ("format.named", [Value::String(name)]) => {
            Some(Ok(Format::find(name).map_or(Value::Optional(None), |format| Value::some(Value::Format(format)))))
        }
        ("validate", [Value::Format(format), Value::String(text)]) => {
            let faults = format.faults(text);
            let told = || Value::some(Value::list(faults.iter().map(|fault| Value::text(fault.as_str())).collect()));
            Some(Ok(if faults.is_empty() { Value::Optional(None) } else { told() }))
        }
        (name, []) => Format::find(name.strip_prefix("format.")?).map(|format| Ok(Value::Format(format))),
        _ => None,
    }
}
