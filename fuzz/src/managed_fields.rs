//! `managedFields` as a client may send them: believed if they make sense, and never in the way.

use concert_api::decode;
use concert_merge::{FieldSet, Force, ManagedFields};

use crate::apply::books::{Stored, check_books, check_set};
use crate::apply::served::Served;
use crate::input::Input;
use crate::kinds::PATCHED;

/// Choices: kind. Line 2: a `managedFields`. Line 3: a configuration, or nothing for the kind's sample. The rest: a
/// `fieldsV1`.
pub fn managed_fields(data: &[u8]) {
    let mut input = Input::of(data);
    let kind = input.choose(&PATCHED);
    let managed = input.line();
    let config = match input.line() {
        [] => Ok(kind.sample()),
        line => decode(line).map(|decoded| decoded.value),
    };
    if let Ok(fields) = decode(input.rest())
        && let Ok(set) = FieldSet::parse(&fields.value)
    {
        check_set(&set);
    }
    let Ok(managed) = decode(managed) else { return };
    if let Ok(managed) = ManagedFields::parse(&managed.value) {
        check_books(&managed);
    }
    let mut sent = kind.sample();
    sent["metadata"]["managedFields"] = managed.value;
    if let Ok(config) = &config {
        let stored = Stored::nothing(kind).updated(&sent, "a", "");
        let stored = stored.applied(config, "b", "", Force::No);
        let stored = stored.applied(config, "b", "", Force::Yes);
        let _ = stored.updated(&kind.sample(), "a", "");
    }
    let mut served = Served::nothing(kind);
    served.update(&kind.sample(), "a", "");
    served.update(&sent, "a", "");
    if let Ok(config) = &config {
        served.apply(config, "b", "", Force::No);
        served.apply(config, "b", "", Force::Yes);
        served.update(&kind.sample(), "a", "");
    }
}
