//! How an object is to be changed, and whether it is the one that the client has seen.

use std::collections::BTreeMap;

use concert_api::{Details, Status, Time, decode, meta};
use concert_merge::Live;
use http::HeaderMap;
use serde_json::{Value, json};

use crate::beside::Stored;
use crate::body::{Document, Media, patch_type, unsupported_media};
use crate::books::{self, Booked, Made, ScaleBooks};
use crate::delete::json_type;
use crate::incoming::{self, Incoming, MANAGED};
use crate::kinds;
use crate::owners::{self, Stage};
use crate::rules;
use crate::scale;
use crate::target::{FieldValidation, Part, Query, Target};

const PATCH_TYPES: &str = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
/// Those of built-in kinds.
const ALL_PATCH_TYPES: &str = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml";

/// What a strict reader of a patch tells, as in the real server.
const STRICT_MAX: usize = 100;

/// How an object is changed.
pub(crate) enum Change {
    /// The whole object, as sent.
    Replace(Incoming),
    /// RFC 6902, and what a strict reader objects to.
    JsonPatch(Value, Vec<String>),
    /// RFC 7386, and what a strict reader objects to.
    MergePatch(Value, Vec<String>),
    /// A patch that knows the lists of built-in kinds, and what a strict reader objects to.
    StrategicPatch(Value, Vec<String>),
    /// A configuration of which its manager owns every field, and what a strict reader objects to.
    Apply(Document),
}

impl Change {
    pub(crate) fn is_patch(&self) -> bool {
        !matches!(self, Self::Replace(_))
    }

    /// Reads the object of a PUT, which must be the one the path names.
    pub(crate) fn replace(target: &Target, query: &Query, media: Media, body: &[u8]) -> Result<Self, Status> {
        let incoming = match target.part {
            Part::Scale => scale::read(media, body, query.field_validation)?,
            _ => incoming::read(target, media, body, query.field_validation)?,
        };
        rules::check_name(target, &incoming.value)?;
        Ok(Self::Replace(incoming))
    }

    /// Reads a patch.
    pub(crate) fn patch(target: &Target, query: &Query, headers: &HeaderMap, body: &[u8]) -> Result<Self, Status> {
        let patch = || {
            query.refuse_force()?;
            decode(body).map_err(|_| Status::bad_request("invalid JSON patch"))
        };
        let wrong = |found: &Value, wanted: &str| {
            let found = json_type(found);
            Status::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {found} into Go value of type {wanted}"
            ))
        };
        match patch_type(headers) {
            "application/json-patch+json" => {
                let patch = patch()?;
                match patch.value {
                    Value::Array(ref operations) => {
                        let findings = operation_findings(operations, &patch.duplicates);
                        Ok(Self::JsonPatch(patch.value, findings))
                    }
                    // Nothing is no operations.
                    Value::Null => Ok(Self::JsonPatch(json!([]), Vec::new())),
                    other => Err(wrong(&other, "[]handlers.jsonPatchOp")),
                }
            }
            "application/merge-patch+json" => {
                let patch = patch()?;
                match patch.value {
                    object @ Value::Object(_) => {
                        Ok(Self::MergePatch(object, patch.duplicates.iter().map(|path| duplicate("", path)).collect()))
                    }
                    Value::Null => Err(Status::bad_request("Invalid JSON Patch")),
                    other => Err(wrong(&other, "map[string]interface {}")),
                }
            }
            "application/strategic-merge-patch+json" if !target.resource.is_custom() => {
                let patch = patch()?;
                let findings = patch.duplicates.iter().map(|path| duplicate("", path)).collect();
                Ok(Self::StrategicPatch(patch.value, findings))
            }
            "application/apply-patch+yaml" => {
                query.require_manager()?;
                configuration(body).map(Self::Apply)
            }
            _ if target.resource.is_custom() => Err(unsupported_media(PATCH_TYPES)),
            several if several.split(',').any(|one| ALL_PATCH_TYPES.split(", ").any(|known| one.trim() == known)) => {
                Err(unsupported_media(ALL_PATCH_TYPES))
            }
            _ => {
                Err(Status::failure(415, "UnsupportedMediaType", "415: Unsupported Media Type")
                    .with(Details::default()))
            }
        }
    }

    /// The object to create where there is none yet: by an apply, and of some built-in kinds by a PUT. It stands for no
    /// revision.
    pub(crate) fn created(&self, target: &Target, query: &Query, now: Time) -> Result<Option<Booked>, Status> {
        let by_put = target.resource.builtin.is_some_and(|builtin| builtin.create_on_update);
        // Who may create by a PUT may do so by one of the status.
        if target.part != Part::Whole && !(target.part == Part::Status && by_put) {
            return Ok(None);
        }
        let mut booked = match self {
            Self::Replace(sent) if by_put => {
                let nothing = json!({"metadata": {"name": target.name}});
                check_uid(target, &sent.value, &nothing, self)?;
                let Incoming { mut value, mut warnings, is_hollow } = sent.clone();
                warnings.extend(owners::deduplicate(&mut value, Stage::Sent));
                let managed = books::created(target, query, &mut value, now);
                Booked { value, managed, warnings, made: Made::Read, is_hollow }
            }
            Self::Apply(config) => {
                let booked = self.configured(target, query, None, config, now)?;
                let uid = meta::text(&booked.value, "uid");
                if !uid.is_empty() {
                    let why = format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    );
                    let name = target.name.as_deref().unwrap_or_default();
                    return Err(Status::conflict_because(&target.resource.id, name, &why));
                }
                rules::check_name(target, &booked.value)?;
                booked
            }
            Self::Replace(_) | Self::JsonPatch(..) | Self::MergePatch(..) | Self::StrategicPatch(..) => {
                return Ok(None);
            }
        };
        check_number(meta::text(&booked.value, "resourceVersion"))?;
        meta::of(&mut booked.value).remove("resourceVersion");
        Ok(Some(booked))
    }

    /// The object as the client wants it, booked.
    pub(crate) fn wanted(&self, target: &Target, query: &Query, live: Live<'_>, now: Time) -> Result<Booked, Status> {
        if target.part == Part::Scale {
            return self.scaled(target, query, live, now);
        }
        let Incoming { mut value, mut warnings, is_hollow } = match self {
            Self::Replace(sent) => sent.clone(),
            Self::Apply(config) => return self.configured(target, query, Some(live), config, now),
            Self::MergePatch(..) | Self::JsonPatch(..) | Self::StrategicPatch(..) => {
                let mut value = live.object.clone();
                if self.mentions_managed() {
                    live.managed.write_to(&mut value);
                }
                let findings = self.patch_value(target, &mut value)?;
                if !value.is_object() {
                    return Err(Status::bad_request("the patch does not leave an object"));
                }
                self.check_restored(target, &mut value)
                    .and_then(|()| incoming::patched(target, value, findings, query.field_validation))
                    .map_err(|status| incoming::unreadable(status, || self.shown(target, live)))?
            }
        };
        if !self.is_patch() {
            warnings.extend(owners::deduplicate(&mut value, Stage::Sent));
        }
        let managed = books::updated(target, live, &mut value, query.author(now));
        Ok(Booked { value, managed, warnings, made: Made::Read, is_hollow })
    }

    /// What a strategic patch leaves is no text that is read, but a tree that is made an object.
    fn check_restored(&self, target: &Target, value: &mut Value) -> Result<(), Status> {
        match (self, target.version().builtin) {
            (Self::StrategicPatch(..), Some(builtin)) => {
                incoming::whole_numbers(value);
                builtin.schema.cut_numbers(value);
                builtin.schema.restore_fault(value).map_or(Ok(()), |fault| Err(Status::bad_request(fault)))
            }
            _ => Ok(()),
        }
    }

    /// What the real server shows of a patch that leaves nothing readable: what it leaves, with all its books, or itself.
    fn shown(&self, target: &Target, live: Live<'_>) -> String {
        if let Self::StrategicPatch(patch, _) = self {
            return scale::go_text(patch);
        }
        let mut value = live.object.clone();
        live.managed.write_to(&mut value);
        // It could be patched before.
        let _ = self.patch_value(target, &mut value);
        incoming::whole_numbers(&mut value);
        value.to_string()
    }

    /// The object after its scale was changed.
    fn scaled(&self, target: &Target, query: &Query, live: Live<'_>, now: Time) -> Result<Booked, Status> {
        let before = scale::before(target, live.object)?;
        let scales = ScaleBooks::of(target, live.managed);
        let (scale, managed, warnings) = match self {
            Self::Apply(config) => {
                let (scale, managed) = scales.applied(query, &before, &config.value, now)?;
                (scale, managed, strict(config, query)?)
            }
            _ => {
                let mut scale = before.clone();
                let warnings = match self {
                    Self::Replace(sent) => {
                        scale = sent.value.clone();
                        sent.warnings.clone()
                    }
                    _ => self.patch_value(target, &mut scale).map(|_| Vec::new())?,
                };
                if let Self::StrategicPatch(patch, _) = self
                    && let Some(fault) = books::restored_scale(&mut scale)
                {
                    return Err(incoming::unreadable(Status::bad_request(fault), || scale::go_text(patch)));
                }
                scale::forget_zero(&mut scale);
                let managed = scales.updated(&before, &mut scale, query.author(now));
                (scale, managed, warnings)
            }
        };
        let value = scale::applied(target, &scale, live.object, self.is_patch())?;
        Ok(Booked { value, managed, warnings, made: Made::Read, is_hollow: false })
    }

    /// The object after a configuration was applied to it.
    fn configured(
        &self,
        target: &Target,
        query: &Query,
        live: Option<Live<'_>>,
        config: &Document,
        now: Time,
    ) -> Result<Booked, Status> {
        let applied = books::applied(target, query, live, &config.value, now)?;
        let warnings = strict(config, query)?;
        let mut object = applied.object;
        let forgot = drop_null_status(&mut object, live.map(|live| live.object), &config.value);
        let is_made = applied.changed || live.is_none();
        let is_hollow = target.version().builtin.is_some_and(|builtin| builtin.is_hollow(&object));
        let value = if is_made { incoming::applied(target, &config.value, object)? } else { object };
        let made = if forgot { Made::WithoutStatus } else { Made::Merged };
        Ok(Booked { value, managed: applied.managed, warnings, made, is_hollow })
    }

    /// Whether a patch may change the books themselves.
    fn mentions_managed(&self) -> bool {
        match self {
            Self::MergePatch(patch, _) | Self::StrategicPatch(patch, _) => patch["metadata"].get(MANAGED).is_some(),
            Self::JsonPatch(patch, _) => patch.as_array().into_iter().flatten().any(|operation| {
                ["path", "from"]
                    .iter()
                    .filter_map(|name| operation[name].as_str())
                    .any(|path| matches!(path, "" | "/metadata") || path.starts_with("/metadata/managedFields"))
            }),
            Self::Replace(_) | Self::Apply(_) => false,
        }
    }

    /// Changes a tree by a patch; gives what a strict reader objects to.
    fn patch_value(&self, target: &Target, value: &mut Value) -> Result<&[String], Status> {
        Ok(match self {
            Self::MergePatch(patch, findings) => {
                concert_merge::merge_patch(value, patch);
                findings
            }
            Self::StrategicPatch(patch, findings) => {
                let version = target.version();
                let (api_version, kind) = (value["apiVersion"].clone(), value["kind"].clone());
                concert_merge::strategic_merge_patch(value, patch, &version.schema, &version.gvk.kind)
                    .map_err(|error| strategic_failure(&error))?;
                let kinds = json!({"apiVersion": value["apiVersion"], "kind": value["kind"]});
                if let Some(fault) = version.schema.restore_fault(&kinds) {
                    return Err(incoming::unreadable(Status::bad_request(fault), || scale::go_text(patch)));
                }
                // The kind is that of the path, whatever a patch makes of it.
                value["apiVersion"] = api_version;
                value["kind"] = kind;
                findings
            }
            Self::JsonPatch(patch, findings) => {
                concert_merge::json_patch(value, patch).map_err(|error| patch_failure(&error))?;
                findings
            }
            Self::Replace(_) | Self::Apply(_) => &[],
        })
    }
}

/// A status that is said to be null where there is none is still none, as it told. One that was emptied is null, and
/// refused later.
fn drop_null_status(object: &mut Value, live: Option<&Value>, config: &Value) -> bool {
    let is_said = config.get("status").is_some_and(Value::is_null);
    let was_there = live.is_some_and(|live| live.get("status").is_some());
    let members = object.as_object_mut().filter(|_| is_said && !was_there);
    members.is_some_and(|members| members.remove("status").is_some())
}

/// Reads the configuration of an apply: YAML, of which JSON is a part.
fn configuration(body: &[u8]) -> Result<Document, Status> {
    // What does not look like JSON is made JSON first, and refused there.
    let looks_like_json = body.trim_ascii_start().starts_with(b"{");
    let unreadable = |why: &str| {
        let head = if looks_like_json {
            "error decoding patch: error converting YAML to JSON"
        } else {
            "error encoding patch"
        };
        Status::bad_request(format!("{head}: {why}"))
    };
    // Most clients send JSON, which is read much faster; what is remarkable in it is told in the words for YAML.
    let plain = Media::Json.decode(body).ok().filter(|document| document.refusals().is_empty());
    if plain.is_some() && has_surrogates(body) {
        return Err(unreadable("yaml: found invalid Unicode character escape code"));
    }
    let mut config = match plain {
        Some(document) => document,
        None => Media::Yaml.decode(body).map_err(|error| unreadable(&error))?,
    };
    match &config.value {
        Value::Object(_) => incoming::whole_numbers(&mut config.value),
        Value::Null => config.value = json!({}),
        other => {
            let found = json_type(other);
            return Err(Status::bad_request(format!(
                "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )));
        }
    }
    Ok(config)
}

/// Whether JSON escapes a letter in two halves, or one half of it: YAML knows no such escapes.
fn has_surrogates(json: &[u8]) -> bool {
    let is_half = |digits: &[u8]| matches!(digits, [b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F', ..]);
    let mut rest = json;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        if rest[at..].strip_prefix(b"\\u").is_some_and(is_half) {
            return true;
        }
        // Whatever is escaped begins no escape itself.
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    false
}

/// What a reader of a configuration objects to or warns of: keys that occur twice.
fn strict(config: &Document, query: &Query) -> Result<Vec<String>, Status> {
    match query.field_validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(config.warnings()),
        FieldValidation::Strict => match config.refusals().first() {
            None => Ok(Vec::new()),
            Some(refusal) => Err(Status::bad_request(format!(
                "error strict decoding patch: error converting YAML to JSON: {refusal}"
            ))),
        },
    }
}

fn duplicate(what: &str, path: &str) -> String {
    format!("{what}duplicate field {path:?}")
}

/// What a strict reader objects to in the operations of a patch, and in what they put into the object.
fn operation_findings(operations: &[Value], duplicates: &[String]) -> Vec<String> {
    const KNOWN: [&str; 4] = ["op", "path", "from", "value"];
    const PATCH: &str = "json patch ";
    let mut of_operation: BTreeMap<usize, Vec<&String>> = BTreeMap::new();
    for path in duplicates {
        let place = path.strip_prefix('[').and_then(|path| path.split(']').next()?.parse().ok());
        of_operation.entry(place.unwrap_or(usize::MAX)).or_default().push(path);
    }
    let mut findings = Vec::new();
    let mut left = Vec::new();
    for (place, operation) in operations.iter().enumerate() {
        let here = of_operation.remove(&place).unwrap_or_default();
        let names = operation.as_object().into_iter().flat_map(|members| members.keys());
        let mut unknown = names.filter(|name| !KNOWN.contains(&name.as_str())).peekable();
        let most = STRICT_MAX.saturating_sub(findings.len());
        if here.is_empty() && (most == 0 || unknown.peek().is_none()) {
            continue;
        }
        let value = format!("[{place}].value");
        let (within, beside): (Vec<&String>, Vec<&String>) =
            here.into_iter().partition(|path| path.starts_with(&value));
        let unknown = unknown.map(|name| format!("{PATCH}unknown field \"[{place}].{name}\""));
        let told = within.iter().map(|path| duplicate(PATCH, path)).chain(unknown);
        findings.extend(told.chain(beside.iter().map(|path| duplicate(PATCH, path))).take(most));
        let target = operation["path"].as_str().unwrap_or_default().trim_start_matches('/').replace('/', ".");
        left.extend(within.iter().map(|path| duplicate("", &format!("{target}{}", &path[value.len()..]))));
    }
    findings.extend(left);
    findings
}

fn strategic_failure(error: &concert_merge::StrategicError) -> Status {
    let reason = match error.code() {
        422 => "Invalid",
        400 => "BadRequest",
        _ => "",
    };
    let status = Status::failure(error.code(), reason, error.public_message());
    if error.code() == 422 { status.with(Details::default()) } else { status }
}

fn patch_failure(error: &concert_merge::PatchError) -> Status {
    let reason = match error.code() {
        422 => "Invalid",
        413 => "RequestEntityTooLarge",
        _ => "BadRequest",
    };
    let status = Status::failure(error.code(), reason, error.public_message());
    if error.code() == 422 { status.with(concert_api::Details::default()) } else { status }
}

/// Compares the version the client has seen; gives whether it named one.
pub(crate) fn check_revision(target: &Target, sent: &Value, entry: &Stored, change: &Change) -> Result<bool, Status> {
    let name = meta::text(sent, "name");
    let seen = meta::text(sent, "resourceVersion");
    let nothing_seen = seen.is_empty() || seen == "0";
    if nothing_seen && target.part != Part::Scale {
        let unconditional = target.resource.builtin.is_some_and(|builtin| builtin.unconditional_update);
        if unconditional {
            return Ok(false);
        }
        let error = concert_api::FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        let id = &target.resource.id;
        let plural = concert_api::Gvk::new(id.group.as_ref(), "", id.resource.as_ref());
        let mut status = Status::invalid(&plural, name, &[error]);
        // The real server names the resource here, not the kind.
        status.message = status.message.replacen(&format!("{}.{}", id.resource, id.group), &id.to_string(), 1);
        return Err(status);
    }
    check_number(seen)?;
    if !seen.is_empty() && seen != entry.revision.to_string() {
        return Err(Status::conflict(&target.resource.id, name));
    }
    let in_patch = match change {
        Change::MergePatch(patch, _) | Change::StrategicPatch(patch, _) => {
            patch["metadata"]["resourceVersion"].is_string()
        }
        Change::JsonPatch(patch, _) => {
            let mut operations = patch.as_array().into_iter().flatten();
            operations.any(|one| one["path"] == "/metadata/resourceVersion" && one["op"] != "test")
        }
        Change::Replace(sent) => !meta::text(&sent.value, "resourceVersion").is_empty(),
        Change::Apply(config) => !meta::text(&config.value, "resourceVersion").is_empty(),
    };
    Ok(in_patch)
}

/// A revision is a number, if it is said.
fn check_number(revision: &str) -> Result<(), Status> {
    if revision.is_empty() || revision.parse::<u64>().is_ok() {
        return Ok(());
    }
    Err(Status::failure(500, "", format!("strconv.ParseUint: parsing {revision:?}: invalid syntax")))
}

/// A replaced object must be the same one; a patch that changes the uid breaks a rule instead.
pub(crate) fn check_uid(target: &Target, sent: &Value, old: &Value, change: &Change) -> Result<(), Status> {
    let (sent_uid, uid) = (meta::text(sent, "uid"), meta::text(old, "uid"));
    if change.is_patch() || sent_uid.is_empty() || sent_uid == uid {
        return Ok(());
    }
    // The real server shows the place in its own store.
    let id = &target.resource.id;
    let group = if target.resource.is_custom() || id == &kinds::definitions() {
        format!("{}/", id.group)
    } else {
        String::new()
    };
    let namespace = target.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let place = format!("/registry/{group}{}/{namespace}{}", id.resource, meta::text(old, "name"));
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {sent_uid}, UID in object meta: {uid}"
    );
    Err(Status::conflict_because(&target.resource.id, meta::text(old, "name"), &why))
}
