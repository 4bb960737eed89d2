//! The configuration file of the documents, read strictly: every error names the place, the value and the fix.

use std::fmt;
use std::path::{Path, PathBuf};

use concert_api::Gvk;
use concert_connector::Endpoint;
use serde_json::{Map, Value};

use crate::provider::Owners;

/// Which providers there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The providers, each with its own name.
    pub providers: Vec<ProviderConfig>,
}

/// One provider.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderConfig {
    /// Its name in messages and metrics.
    pub name: String,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Kinds it drives beside those it announces.
    pub resource_types: Vec<ResourceType>,
}

/// A kind that a provider drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceType(pub(crate) Gvk);

impl ProviderConfig {
    /// A provider without TLS that announces its kinds itself.
    ///
    /// # Errors
    /// The endpoint cannot be read.
    pub fn new(name: impl Into<String>, endpoint: &str) -> Result<Self, ConfigError> {
        let endpoint = Endpoint::parse(endpoint, false).map_err(|error| ConfigError::at("endpoint", error))?;
        Ok(Self { name: name.into(), endpoint, resource_types: Vec::new() })
    }
}

impl ResourceType {
    /// From `group/version` and a kind.
    ///
    /// # Errors
    /// One of them is empty or malformed.
    pub fn new(api_version: &str, kind: &str) -> Result<Self, ConfigError> {
        if kind.is_empty() {
            return Err(ConfigError::at("kind", "\"\" is not a kind: give one, such as \"Bucket\""));
        }
        let problem = || {
            let text = format!("{api_version:?} is not an apiVersion: it must look like \"example.org/v1\" or \"v1\"");
            ConfigError::at("apiVersion", text)
        };
        Gvk::from_api_version(api_version, kind).map(Self).ok_or_else(problem)
    }
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    file: Option<PathBuf>,
    place: String,
    problem: String,
}

impl ConfigError {
    fn at(place: impl Into<String>, problem: impl ToString) -> Self {
        Self { file: None, place: place.into(), problem: problem.to_string() }
    }

    fn within(mut self, outer: &str) -> Self {
        self.place = if self.place.is_empty() { outer.to_owned() } else { format!("{outer}.{}", self.place) };
        self
    }

    fn in_file(mut self, file: &Path) -> Self {
        self.file = Some(file.to_owned());
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot use the configuration")?;
        if let Some(file) = &self.file {
            write!(f, " {:?}", file.display().to_string())?;
        }
        if self.place.is_empty() {
            write!(f, ": {}", self.problem)
        } else {
            write!(f, ": {}: {}", self.place, self.problem)
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is not JSON, or says something impossible.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |error: std::io::Error| {
            ConfigError::at("", format!("{error}; pass an existing, readable file with --config")).in_file(path)
        };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(&text).map_err(|error| error.in_file(path))
    }

    /// Reads the JSON text of a configuration.
    ///
    /// # Errors
    /// It is not JSON, or says something impossible.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let decoded = concert_api::decode(text.as_bytes())
            .map_err(|error| ConfigError::at("", format!("{error}; it must be one JSON document")))?;
        if let Some(twice) = decoded.duplicates.first() {
            return Err(ConfigError::at(twice.as_str(), "this key stands there twice; remove one"));
        }
        let members = object(&decoded.value, "", &["providers"])?;
        let empty = || ConfigError::at("providers", "there is no provider; name at least one");
        let list = match members.get("providers") {
            Some(Value::Array(list)) if !list.is_empty() => list,
            Some(Value::Array(_)) | None => return Err(empty()),
            Some(other) => return Err(ConfigError::at("providers", format!("{other} is not a list of providers"))),
        };
        let mut config = Self::default();
        for (place, entry) in list.iter().enumerate() {
            let outer = format!("providers[{place}]");
            let provider = provider(entry).and_then(|provider| config.checked(provider));
            config.providers.push(provider.map_err(|error| error.within(&outer))?);
        }
        Ok(config)
    }

    /// With a further provider, which has the first choice of kinds.
    ///
    /// # Errors
    /// Another one has its name or one of its kinds.
    pub fn with_first(mut self, provider: ProviderConfig) -> Result<Self, ConfigError> {
        let provider = self.checked(provider)?;
        self.providers.insert(0, provider);
        Ok(self)
    }

    /// A provider that has its name and its kinds for itself.
    fn checked(&self, provider: ProviderConfig) -> Result<ProviderConfig, ConfigError> {
        let name = &provider.name;
        if let Some(first) = self.providers.iter().position(|other| other.name == *name) {
            let problem = format!("{name:?} is already the name of providers[{first}]; give each its own");
            return Err(ConfigError::at("name", problem));
        }
        let owners = self.owners();
        for (place, ResourceType(kind)) in provider.resource_types.iter().enumerate() {
            if let Some(owner) = owners.get(&(kind.group.clone(), kind.kind.clone())) {
                let problem = format!(
                    "{kind} is already driven by {owner:?}; two providers would make everything twice: remove one"
                );
                return Err(ConfigError::at(format!("resourceTypes[{place}]"), problem));
            }
        }
        Ok(provider)
    }

    /// Who is configured to drive which kind.
    pub(crate) fn owners(&self) -> Owners {
        let kinds = self.providers.iter().flat_map(|provider| {
            provider.resource_types.iter().map(|ResourceType(kind)| (kind, provider.name.clone()))
        });
        kinds.map(|(kind, name)| ((kind.group.clone(), kind.kind.clone()), name)).collect()
    }

    /// Applies `--provider-endpoint`: a provider called `default` where there is no configuration, another endpoint
    /// for the only one where there is, and `NAME=ENDPOINT` where there are several.
    ///
    /// # Errors
    /// The endpoint cannot be read, or it is not clear which provider is meant.
    pub fn with_endpoint(config: Option<Self>, text: &str) -> Result<Self, ConfigError> {
        let flag = |problem: String| ConfigError::at("--provider-endpoint", problem);
        let parse = |endpoint: &str, tls| Endpoint::parse(endpoint, tls).map_err(|error| flag(error.to_string()));
        let Some(mut config) = config else {
            let provider =
                ProviderConfig { name: "default".into(), endpoint: parse(text, false)?, resource_types: Vec::new() };
            return Ok(Self { providers: vec![provider] });
        };
        if let [only] = config.providers.as_mut_slice() {
            let named =
                text.split_once('=').filter(|(name, _)| *name == only.name).map_or(text, |(_, endpoint)| endpoint);
            only.endpoint = parse(named, only.endpoint.uses_tls())?;
            return Ok(config);
        }
        let known: Vec<String> = config.providers.iter().map(|provider| provider.name.clone()).collect();
        let unclear = || {
            flag(format!(
                "{text:?} does not say which provider it means: write NAME=ENDPOINT with one of {}",
                known.join(", ")
            ))
        };
        let (name, endpoint) = text.split_once('=').ok_or_else(unclear)?;
        let found = config.providers.iter_mut().find(|provider| provider.name == name).ok_or_else(unclear)?;
        found.endpoint = parse(endpoint, found.endpoint.uses_tls())?;
        Ok(config)
    }
}

fn provider(entry: &Value) -> Result<ProviderConfig, ConfigError> {
    let members = object(entry, "", &["name", "endpoint", "useSSL", "resourceTypes"])?;
    let name = text(members, "name")?;
    if name.chars().any(char::is_control) {
        return Err(ConfigError::at("name", format!("{name:?} has control characters; use printable ones")));
    }
    let tls = match members.get("useSSL") {
        None => false,
        Some(Value::Bool(tls)) => *tls,
        Some(other) => return Err(ConfigError::at("useSSL", format!("{other} is neither true nor false"))),
    };
    let endpoint = text(members, "endpoint")?;
    let endpoint = Endpoint::parse(&endpoint, tls).map_err(|error| ConfigError::at("endpoint", error))?;
    let types = match members.get("resourceTypes") {
        None => &[],
        Some(Value::Array(list)) => list.as_slice(),
        Some(other) => return Err(ConfigError::at("resourceTypes", format!("{other} is not a list"))),
    };
    let mut resource_types = Vec::new();
    for (place, entry) in types.iter().enumerate() {
        let outer = format!("resourceTypes[{place}]");
        let read = resource_type(entry).map_err(|error| error.within(&outer))?;
        if resource_types.contains(&read) {
            return Err(ConfigError::at(outer, format!("{} stands there twice; remove one", read.0)));
        }
        resource_types.push(read);
    }
    Ok(ProviderConfig { name, endpoint, resource_types })
}

fn resource_type(entry: &Value) -> Result<ResourceType, ConfigError> {
    let members = object(entry, "", &["apiVersion", "kind"])?;
    ResourceType::new(&text(members, "apiVersion")?, &text(members, "kind")?)
}

/// An object with no keys but these.
fn object<'a>(value: &'a Value, place: &str, known: &[&str]) -> Result<&'a Map<String, Value>, ConfigError> {
    let members = value.as_object().ok_or_else(|| ConfigError::at(place, format!("{value} is not an object")))?;
    if let Some(unknown) = members.keys().find(|key| !known.contains(&key.as_str())) {
        let near = known.iter().find(|one| distance(one, unknown) <= 2);
        let hint =
            near.map_or_else(|| format!("known are {}", known.join(", ")), |near| format!("did you mean {near:?}?"));
        return Err(ConfigError::at(place, format!("unknown key {unknown:?}; {hint}")));
    }
    Ok(members)
}

fn text(members: &Map<String, Value>, key: &str) -> Result<String, ConfigError> {
    match members.get(key) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(Value::String(_)) => Err(ConfigError::at(key, "it is empty; give a text")),
        Some(other) => Err(ConfigError::at(key, format!("{other} is not a text"))),
        None => Err(ConfigError::at(key, "it is missing; every entry needs one")),
    }
}

/// How many letters must be inserted, removed or replaced, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.to_lowercase().chars().collect(), b.to_lowercase().chars().collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let cost = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documents' own example.
    const DOCUMENT: &str = r#"{"providers": [{"name": "example-provider", "endpoint": "provider-example:50051", "useSSL": false,
        "resourceTypes": [{"apiVersion": "example.crossplane.io/v1alpha1", "kind": "ExampleResource"},
                          {"apiVersion": "example.crossplane.io/v1alpha1", "kind": "AnotherResource"}]}]}"#;

    #[test]
    fn the_documents_example_is_read() {
        let config = Config::parse(DOCUMENT).unwrap();
        assert_eq!(config.providers[0].name, "example-provider");
        assert_eq!(config.providers[0].resource_types[1].0.kind, "AnotherResource");
    }

    #[test]
    fn every_error_names_the_place_the_value_and_the_fix() {
        for (text, words) in [
            ("{", "line 1 column 1; it must be one JSON document"),
            ("[]", "[] is not an object"),
            ("{}", "providers: there is no provider; name at least one"),
            (r#"{"providers": [], "providers": []}"#, "providers: this key stands there twice"),
            (r#"{"provider": []}"#, r#"unknown key "provider"; did you mean "providers"?"#),
            (
                r#"{"providers": [{"name": "a", "endpont": "x:1"}]}"#,
                r#"providers[0]: unknown key "endpont"; did you mean "endpoint"?"#,
            ),
            (r#"{"providers": [{"endpoint": "x:1"}]}"#, "providers[0].name: it is missing"),
            (r#"{"providers": [{"name": "", "endpoint": "x:1"}]}"#, "providers[0].name: it is empty"),
            (r#"{"providers": [{"name": "a", "endpoint": "x"}]}"#, "providers[0].endpoint: "),
            (
                r#"{"providers": [{"name": "a", "endpoint": "x:1", "useSSL": "yes"}]}"#,
                r#"useSSL: "yes" is neither true nor false"#,
            ),
            (
                r#"{"providers": [{"name": "a", "endpoint": "x:1"}, {"name": "a", "endpoint": "x:2"}]}"#,
                r#"providers[1].name: "a" is already the name of providers[0]"#,
            ),
            (
                r#"{"providers": [{"name": "a", "endpoint": "x:1", "resourceTypes": [{"apiVersion": "g/v1", "kind": "K"}]},
                    {"name": "b", "endpoint": "x:2", "resourceTypes": [{"apiVersion": "g/v2", "kind": "K"}]}]}"#,
                r#"providers[1].resourceTypes[0]: g/v2, Kind=K is already driven by "a""#,
            ),
            (
                r#"{"providers": [{"name": "a\nb", "endpoint": "x:1"}]}"#,
                "providers[0].name: \"a\\nb\" has control characters",
            ),
            (
                r#"{"providers": [{"name": "a", "endpoint": "x:1", "resourceTypes": [{"apiVersion": "a/b/c", "kind": "K"}]}]}"#,
                r#"providers[0].resourceTypes[0].apiVersion: "a/b/c" is not an apiVersion"#,
            ),
            (
                r#"{"providers": [{"name": "a", "endpoint": "x:1", "resourceTypes": [{"apiVersion": "v1", "kind": ""}]}]}"#,
                "providers[0].resourceTypes[0].kind: it is empty",
            ),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}\n  {error}\n  lacks {words}");
        }
        let missing = Config::read(Path::new("/nope/config.json")).unwrap_err().to_string();
        assert!(missing.contains("\"/nope/config.json\"") && missing.contains("--config"), "{missing}");
    }

    #[test]
    fn an_endpoint_flag_means_the_provider_that_it_can_mean() {
        let alone = Config::with_endpoint(None, "localhost:1").unwrap();
        assert_eq!(alone.providers[0].name, "default");
        let one = Config::parse(DOCUMENT).unwrap();
        let moved = Config::with_endpoint(Some(one.clone()), "other:2").unwrap();
        assert!(moved.providers[0].endpoint.to_string().contains("other:2"));
        let two = Config { providers: vec![one.providers[0].clone(), ProviderConfig::new("b", "b:1").unwrap()] };
        let error = Config::with_endpoint(Some(two.clone()), "other:2").unwrap_err().to_string();
        assert!(error.contains("NAME=ENDPOINT") && error.contains("example-provider, b"), "{error}");
        let moved = Config::with_endpoint(Some(two), "b=other:3").unwrap();
        assert!(moved.providers[1].endpoint.to_string().contains("other:3"));
    }
}
