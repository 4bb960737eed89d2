//! kubectl: from the path, else our cache, else the distribution's package, else built from Go modules.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{Tool, go, on_path, version};
use crate::child;

/// Older ones lack `kubectl events` and read only OpenAPI v2.
const OLDEST: (u32, u32) = (1, 27);

/// Debian's and Ubuntu's name for it.
const PACKAGE: &str = "kubernetes-client";

const PROGRAM: go::Program = go::Program { module: "kubectl", package: ".", binary: "kubectl" };

/// Finds or installs a kubectl that is new enough.
pub(crate) fn kubectl() -> Tool {
    let missing = match from_path() {
        Ok(tool) => return tool,
        Err(why) => why,
    };
    if PROGRAM.cached().is_ok_and(|path| path.is_file()) {
        return go::build(&PROGRAM);
    }
    first_of(missing, &[from_distribution, || go::build(&PROGRAM)])
}

/// The first source that gives the tool. If none does and one broke on the way, that is our failure to repair.
fn first_of(missing: String, sources: &[fn() -> Tool]) -> Tool {
    let mut reasons = vec![missing];
    let mut broken = false;
    for source in sources {
        match source() {
            Tool::Ready { path, note } => return Tool::Ready { path, note },
            Tool::Unavailable(why) => reasons.push(why),
            Tool::Broken(why) => {
                broken = true;
                reasons.push(why);
            }
        }
    }
    let reasons = reasons.join("; ");
    if broken { Tool::Broken(reasons) } else { Tool::Unavailable(reasons) }
}

fn from_path() -> Result<Tool, String> {
    let Some(path) = on_path("kubectl") else {
        return Err("no kubectl on the PATH".to_owned());
    };
    let found = client_version(&path).map_err(|error| format!("{} does not work: {error:#}", path.display()))?;
    if version(&found).is_none_or(|have| have < OLDEST) {
        return Err(format!("{} is {found}, older than {}.{}", path.display(), OLDEST.0, OLDEST.1));
    }
    Ok(Tool::Ready { note: format!("{found}, {}", path.display()), path })
}

fn client_version(kubectl: &Path) -> Result<String> {
    let mut command = Command::new(kubectl);
    command.args(["version", "--client", "--output=json"]);
    let answer: serde_json::Value = serde_json::from_str(&child::capture(command)?)?;
    Ok(answer["clientVersion"]["gitVersion"].as_str().unwrap_or("of unknown version").to_owned())
}

/// Installs the distribution's package, if we may and if it is new enough; Debian 12 has 1.20.
fn from_distribution() -> Tool {
    let Some(apt) = on_path("apt-get") else {
        return Tool::Unavailable("this machine has no apt-get".to_owned());
    };
    let mut offered = candidate();
    if offered.is_none() && is_root() {
        // A fresh image has no package lists. If this fails, the package simply stays unknown.
        let _ = child::run_quietly(apt_get(&apt, &["update"]), "apt-get update");
        offered = candidate();
    }
    let (major, minor) = OLDEST;
    match offered {
        None => Tool::Unavailable(format!("the distribution offers no package {PACKAGE}")),
        Some(offered) if version(&offered).is_none_or(|have| have < OLDEST) => {
            Tool::Unavailable(format!("the distribution's {PACKAGE} is {offered}, older than {major}.{minor}"))
        }
        Some(offered) if !is_root() => {
            Tool::Unavailable(format!("{PACKAGE} {offered} needs root: sudo apt-get install {PACKAGE}"))
        }
        Some(_) => install(&apt).unwrap_or_else(Tool::Broken),
    }
}

fn install(apt: &Path) -> Result<Tool, String> {
    let command = apt_get(apt, &["install", "--yes", "--no-install-recommends", PACKAGE]);
    child::run_quietly(command, &format!("installing {PACKAGE}")).map_err(|error| format!("{error:#}"))?;
    from_path()
}

fn apt_get(apt: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(apt);
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// The version that `apt-get install` would bring.
fn candidate() -> Option<String> {
    let mut command = Command::new("apt-cache");
    command.args(["policy", PACKAGE]).env("LC_ALL", "C");
    let text = child::capture(command).ok()?;
    let version = text.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    (version != "(none)").then(|| version.to_owned())
}

fn is_root() -> bool {
    let mut command = Command::new("id");
    command.arg("-u");
    child::capture(command).is_ok_and(|id| id.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable() -> Tool {
        Tool::Unavailable("no apt-get".to_owned())
    }

    fn broken() -> Tool {
        Tool::Broken("no network".to_owned())
    }

    fn ready() -> Tool {
        Tool::Ready { path: "/bin/kubectl".into(), note: String::new() }
    }

    #[test]
    fn a_later_source_makes_up_for_a_broken_one() {
        assert!(matches!(first_of("none".to_owned(), &[broken, ready]), Tool::Ready { .. }));
    }

    #[test]
    fn what_we_could_have_installed_is_broken_and_says_everything_tried() {
        let Tool::Broken(why) = first_of("none on the PATH".to_owned(), &[broken, unavailable]) else {
            panic!("a failed installation passed for an impossible one");
        };
        assert_eq!(why, "none on the PATH; no network; no apt-get");
        assert!(matches!(first_of("none".to_owned(), &[unavailable]), Tool::Unavailable(_)));
    }
}
