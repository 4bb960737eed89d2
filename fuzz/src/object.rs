//! Whole objects in JSON and YAML: what is taken is stored as it will be read, and can be written again.

use crate::input::Input;
use crate::kinds::SENT;
use crate::server::{Api, Call, JSON, YAML};

const QUERIES: [&str; 4] = ["", "?fieldValidation=Strict", "?fieldValidation=Ignore", "?dryRun=All"];

/// Choices: kind, form, query. The rest: the object.
pub fn object(data: &[u8]) {
    let mut input = Input::of(data);
    let kind = input.choose(&SENT);
    let media = input.choose(&[JSON, YAML]);
    let query = input.choose(&QUERIES);
    let mut api = Api::new();
    let Some(path) = api.create(kind, media, query, input.rest()) else { return };
    // What is only asked, or was only tried, is not there.
    if api.send(&Call::get(&path)).is_success() {
        api.check_stable(&path);
    }
}
