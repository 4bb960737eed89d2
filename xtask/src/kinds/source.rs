//! Go types, read from their source: what fields a struct has, what they are called and how they go over the wire.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};

/// The release of the modules; `k8s.io/kubernetes` has the same with `v1`.
const RELEASE: &str = "v0.37.1";

/// The Go packages we have looked into.
pub(super) struct Source {
    modules: PathBuf,
    packages: BTreeMap<String, Package>,
}

/// The types of a package, by name. Names of packages are as `core.v1`, `meta.v1` or `resource`.
#[derive(Default)]
struct Package {
    structs: BTreeMap<String, Vec<Field>>,
    named: BTreeMap<String, String>,
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// Its Go type, with packages written out: `*core.v1.Probe`, `map[string]resource.Quantity`.
    pub(super) go: String,
    /// Its name in JSON; empty for what is inlined.
    pub(super) name: String,
    /// `omitempty`.
    pub(super) omits_empty: bool,
    /// `omitzero`.
    pub(super) omits_zero: bool,
    /// Its number in protobuf.
    pub(super) number: u32,
    /// Whether protobuf has it many times.
    pub(super) repeated: bool,
}

impl Source {
    pub(super) fn new(modules: PathBuf) -> Self {
        Self { modules, packages: BTreeMap::new() }
    }

    /// The fields of a struct such as `core.v1.Pod`; `None` if the type is no struct.
    pub(super) fn fields(&mut self, name: &str) -> Result<Option<Vec<Field>>> {
        let (package, name) = name.rsplit_once('.').ok_or_else(|| anyhow!("{name} has no package"))?;
        Ok(self.package(package)?.structs.get(name).cloned())
    }

    /// What a type that is no struct stands for.
    pub(super) fn meaning(&mut self, name: &str) -> Result<Option<String>> {
        let (package, name) = name.rsplit_once('.').ok_or_else(|| anyhow!("{name} has no package"))?;
        Ok(self.package(package)?.named.get(name).cloned())
    }

    fn package(&mut self, name: &str) -> Result<&Package> {
        if !self.packages.contains_key(name) {
            let package = self.read(name)?;
            self.packages.insert(name.to_owned(), package);
        }
        Ok(&self.packages[name])
    }

    fn read(&self, name: &str) -> Result<Package> {
        let place = match name {
            "meta.v1" => format!("apimachinery@{RELEASE}/pkg/apis/meta/v1"),
            "version" => format!("apimachinery@{RELEASE}/pkg/version"),
            "types" => format!("apimachinery@{RELEASE}/pkg/types"),
            "apiextensions.v1" => format!("apiextensions-apiserver@{RELEASE}/pkg/apis/apiextensions/v1"),
            "apiregistration.v1" => format!("kube-aggregator@{RELEASE}/pkg/apis/apiregistration/v1"),
            other => format!("api@{RELEASE}/{}", other.replace('.', "/")),
        };
        let directory = self.modules.join(place);
        let mut package = Package::default();
        let entries = std::fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
            let has_types = file.starts_with("types") || name == "types" || name == "meta.v1";
            if has_types && file.ends_with(".go") && !file.ends_with("_test.go") && !file.starts_with("zz_") {
                let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                package.add(&text, name);
            }
        }
        Ok(package)
    }
}

impl Package {
    fn add(&mut self, text: &str, package: &str) {
        let imports = imports(text);
        let mut structure: Option<String> = None;
        for line in text.lines() {
            match &structure {
                None => structure = self.declare(line, package, &imports),
                Some(_) if line == "}" => structure = None,
                Some(name) => {
                    let field = field(line, package, &imports);
                    self.structs.entry(name.clone()).or_default().extend(field);
                }
            }
        }
    }

    /// Notes a type; gives the name of a struct whose fields follow.
    fn declare(&mut self, line: &str, package: &str, imports: &BTreeMap<String, String>) -> Option<String> {
        let words: Vec<&str> = line.strip_prefix("type ")?.split_whitespace().collect();
        match words[..] {
            [name, "struct" | "struct{}", ..] => {
                self.structs.insert(name.to_owned(), Vec::new());
                (!line.ends_with('}')).then(|| name.to_owned())
            }
            [name, meaning, ..] => {
                self.named.insert(name.to_owned(), qualified(meaning, package, imports));
                None
            }
            _ => None,
        }
    }
}

fn field(line: &str, package: &str, imports: &BTreeMap<String, String>) -> Option<Field> {
    let line = line.trim();
    let (declared, rest) = line.split_once('`').filter(|_| !line.starts_with("//"))?;
    let tags = rest.split('`').next()?;
    let go = declared.split_whitespace().last()?;
    let mut json = tag(tags, "json")?.split(',');
    let name = json.next()?.to_owned();
    let options: Vec<&str> = json.collect();
    let protobuf: Vec<&str> = tag(tags, "protobuf").unwrap_or_default().split(',').collect();
    Some(Field {
        go: qualified(go, package, imports),
        name,
        omits_empty: options.contains(&"omitempty"),
        omits_zero: options.contains(&"omitzero"),
        number: protobuf.get(1).and_then(|number| number.parse().ok()).unwrap_or(0),
        repeated: protobuf.get(2) == Some(&"rep"),
    })
}

fn tag<'a>(tags: &'a str, name: &str) -> Option<&'a str> {
    let start = tags.find(&format!("{name}:\""))? + name.len() + 2;
    tags[start..].split('"').next()
}

/// The packages of a file, by the names it has for them.
fn imports(text: &str) -> BTreeMap<String, String> {
    let quoted = text.lines().map(str::trim).filter(|line| line.contains("\"k8s.io/"));
    quoted
        .filter_map(|line| {
            let (alias, path) = line.trim_start_matches("import ").split_once('"')?;
            let path = path.split('"').next()?;
            let parts: Vec<&str> = path.split('/').collect();
            let last = *parts.last()?;
            let versioned = last.starts_with('v') && last.ends_with(|end: char| end.is_ascii_digit());
            let package = if versioned { format!("{}.{last}", parts.get(parts.len() - 2)?) } else { last.to_owned() };
            let alias = if alias.trim().is_empty() { last } else { alias.trim() };
            Some((alias.to_owned(), package))
        })
        .collect()
}

/// A type with its package written out, and without names of map keys: those are texts.
fn qualified(go: &str, package: &str, imports: &BTreeMap<String, String>) -> String {
    for prefix in ["*", "[]"] {
        if let Some(rest) = go.strip_prefix(prefix) {
            return format!("{prefix}{}", qualified(rest, package, imports));
        }
    }
    if let Some((_, value)) = go.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        return format!("map[string]{}", qualified(value, package, imports));
    }
    match go.split_once('.') {
        Some((alias, name)) => format!("{}.{name}", imports.get(alias).map_or(alias, String::as_str)),
        None if go.starts_with(|first: char| first.is_ascii_lowercase()) => go.to_owned(),
        None => format!("{package}.{go}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type Mode string

type Thing struct {
	metav1.TypeMeta `json:""`
	// Old `json:"old"`
	Size *resource.Quantity `json:"size,omitempty" protobuf:"bytes,3,opt,name=size"`
	v1.Source `json:"" protobuf:"bytes,4,opt,name=source"`
	Modes map[v1.Name][]Mode `json:"modes" protobuf:"bytes,5,rep,name=modes"`
}
"#;

    #[test]
    fn structs_are_read_with_their_tags() {
        let mut package = Package::default();
        package.add(TEXT, "apps.v1");
        assert_eq!(package.named["Mode"], "string");
        let fields: Vec<String> = package.structs["Thing"]
            .iter()
            .map(|field| format!("{} {} {} {}", field.name, field.number, field.go, field.omits_empty))
            .collect();
        assert_eq!(
            fields,
            [
                " 0 meta.v1.TypeMeta false",
                "size 3 *resource.Quantity true",
                " 4 core.v1.Source false",
                "modes 5 map[string][]apps.v1.Mode false"
            ]
        );
    }
}
