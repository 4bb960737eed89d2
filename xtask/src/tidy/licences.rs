//! The licences of what we stand on.

use super::{Finding, spdx};
use crate::metadata::Metadata;

/// Licences that let anyone use Concert in any product. MPL-2.0 and the GPL family do not.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Exceptions that only ever give more freedom.
const EXCEPTIONS: &[&str] = &["LLVM-exception"];

/// Checks every package, ours too.
pub(super) fn check(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let place = if metadata.is_member(package) { package.manifest() } else { "Cargo.lock".to_owned() };
        let name = format!("{} {}", package.name, package.version);
        if let Err(what) = verdict(package.license.as_deref()) {
            let fix = "replace the dependency, or (with a reason) allow the licence in xtask/src/tidy/licences.rs";
            findings.push(Finding::new(place, format!("{name}: {what}"), fix));
        }
    }
    findings
}

fn verdict(license: Option<&str>) -> Result<(), String> {
    let expression = license.ok_or("its manifest names no licence")?;
    let accepts = |id: &str, exception: Option<&str>| {
        ALLOWED.contains(&id) && exception.is_none_or(|name| EXCEPTIONS.contains(&name))
    };
    match spdx::satisfied(expression, &accepts) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("its licence `{expression}` is not one that we accept")),
        Err(error) => Err(format!("its licence `{expression}` is not an SPDX expression: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_we_accept() {
        assert_eq!(verdict(Some("MIT OR Apache-2.0")), Ok(()));
        assert_eq!(verdict(Some("Apache-2.0 WITH LLVM-exception OR GPL-3.0-only")), Ok(()));
        assert!(verdict(Some("MPL-2.0")).is_err());
        assert!(verdict(Some("MIT AND MPL-2.0")).is_err());
        assert!(verdict(None).is_err());
    }
}
