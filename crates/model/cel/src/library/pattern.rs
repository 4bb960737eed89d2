//! Patterns of `matches` and `find`: compiled once, the last ones are kept.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::pattern::Pattern;

/// How many compiled patterns a thread keeps.
const KEPT: usize = 64;

thread_local! {
    static COMPILED: RefCell<HashMap<String, Pattern>> = RefCell::new(HashMap::new());
}

/// A compiled pattern.
pub(crate) fn compile(text: &str) -> Result<Pattern, String> {
    if let Some(known) = COMPILED.with_borrow(|kept| kept.get(text).cloned()) {
        return Ok(known);
    }
    let pattern = Pattern::parse(text)?;
    COMPILED.with_borrow_mut(|kept| {
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(text.to_owned(), pattern.clone());
    });
    Ok(pattern)
}
