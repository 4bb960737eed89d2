//! A compiled schema: what an object of a kind may look like.

mod build;
mod decode;
mod format;
mod listtype;
mod number;
mod path;
mod properties;
mod rules;
mod settle;
mod shape;
mod structural;
mod validate;
mod walk;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use concert_api::{FieldError, FieldErrors};
use serde_json::Value;

use concert_cel::Pattern;

pub(crate) use build::Definitions;
pub(crate) use decode::dns_1035_faults;
use format::Format;
pub(crate) use format::{is_known as is_known_format, is_uri};
use path::Path;
use properties::Properties;
pub(crate) use settle::Stage;
pub use shape::Others;
pub use walk::Read;

/// Where an error is that has no field of its own.
const NOWHERE: &str = "<nil>";

/// A compiled schema. Cheap to clone: nodes are shared.
///
/// Only the schemas of built-in kinds refer to themselves; they live as long as the program, so that the cycle of
/// references leaks nothing. They are compiled piece by piece, when they are first looked at.
#[derive(Clone)]
pub struct Schema {
    shared: Arc<Shared>,
    /// What a field says about itself beside its reference to a definition.
    place: Option<Arc<shape::Place>>,
}

/// A node, or the name of the definition it will be compiled from.
struct Shared {
    node: OnceLock<Node>,
    definition: Option<&'static str>,
}

/// The JSON type a schema asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `object`.
    Object,
    /// `array`.
    Array,
    /// `string`.
    String,
    /// `integer`.
    Integer,
    /// `number`.
    Number,
    /// `boolean`.
    Boolean,
}

/// How a list is merged and which of its items are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// Replaced as a whole.
    #[default]
    Atomic,
    /// Each value occurs once.
    Set,
    /// Each combination of these members occurs once.
    Map(Vec<String>),
}

/// What `additionalProperties` says.
#[derive(Clone, Debug, Default)]
enum Additional {
    #[default]
    Unsaid,
    Any,
    Never,
    Schema(Schema),
}

#[derive(Debug, Default)]
struct Node {
    kind: Option<Kind>,
    format: Option<Format>,
    format_name: Box<str>,
    nullable: bool,
    int_or_string: bool,
    preserve: bool,
    embedded: bool,
    properties: Properties,
    additional: Additional,
    items: Option<Schema>,
    required: Vec<String>,
    default: Option<Value>,
    /// What few nodes have; see [`Node::limits`].
    limits: Option<Box<Limits>>,
    list_type: Option<ListType>,
    atomic_map: bool,
    rules: Vec<Value>,
    /// The rules, compiled when they are first needed.
    compiled: OnceLock<Box<rules::Compiled>>,
    /// Whether there are rules here or below.
    ruled: OnceLock<bool>,
    /// What only built-in kinds have; see [`Node::go`].
    go: Option<Box<Go>>,
}

/// What a node of a built-in kind knows about the field of the Go struct that it stands for.
#[derive(Debug, Default)]
struct Go {
    /// The Go type, where it is not clear from `kind` and `format`.
    type_name: String,
    patch_strategy: String,
    patch_merge_key: String,
    /// The struct that an object is read into.
    structure: Option<settle::Structure>,
}

/// What a value may be beyond its type. Most nodes say nothing about that, and a definition has many nodes.
#[derive(Debug, Default)]
struct Limits {
    choices: Vec<Value>,
    bounds: number::Bounds,
    sizes: Sizes,
    pattern: Option<Pattern>,
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Schema>,
}

impl Node {
    fn go(&self) -> &Go {
        static NONE: LazyLock<Go> = LazyLock::new(Go::default);
        self.go.as_deref().unwrap_or(&NONE)
    }

    fn go_type(&self) -> &str {
        &self.go().type_name
    }

    fn structure(&self) -> Option<&settle::Structure> {
        self.go().structure.as_ref()
    }

    fn limits(&self) -> &Limits {
        static NONE: LazyLock<Limits> = LazyLock::new(Limits::default);
        self.limits.as_deref().unwrap_or(&NONE)
    }
}

#[derive(Debug, Default)]
struct Sizes {
    min_length: Option<i64>,
    max_length: Option<i64>,
    min_items: Option<i64>,
    max_items: Option<i64>,
    min_properties: Option<i64>,
    max_properties: Option<i64>,
}

impl Kind {
    /// Its name in a schema.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        let all = [Self::Object, Self::Array, Self::String, Self::Integer, Self::Number, Self::Boolean];
        all.into_iter().find(|kind| kind.name() == name)
    }
}

impl Schema {
    /// Compiles the `openAPIV3Schema` of a custom resource, which must be structural. `path` is where it stands, as
    /// `spec.validation.openAPIV3Schema`.
    ///
    /// # Errors
    /// Every rule it breaks, in the words of the real server.
    pub fn compile(openapi_v3_schema: &Value, path: &str) -> Result<Self, FieldErrors> {
        structural::check(openapi_v3_schema, path)?;
        let schema = Self::build(openapi_v3_schema, &Definitions::default());
        let mut errors = FieldErrors::new();
        structural::check_defaults(openapi_v3_schema, &schema, path, true, &mut errors);
        if errors.is_empty() {
            errors = rules::check(openapi_v3_schema, &schema, path);
        }
        if errors.is_empty() { Ok(schema) } else { Err(errors) }
    }

    /// Compiles a schema known to be good, structural or not. What cannot be understood is left out.
    pub(crate) fn build(source: &Value, definitions: &Definitions) -> Self {
        build::schema(source, definitions)
    }

    fn from_node(node: Node) -> Self {
        Self { shared: Arc::new(Shared { node: OnceLock::from(node), definition: None }), place: None }
    }

    /// A schema that is compiled from a definition of the built-in kinds, when it is first looked at.
    pub(crate) fn defined(name: &'static str) -> Self {
        Self { shared: Arc::new(Shared { node: OnceLock::new(), definition: Some(name) }), place: None }
    }

    fn node(&self) -> &Node {
        self.shared.node.get_or_init(|| self.shared.definition.map(build::definition).unwrap_or_default())
    }

    /// Makes of an object of a built-in kind what Go makes of it: without what it leaves out, with defaults, and with
    /// what it writes though it is empty. Whether there was room for all of that: 3 MiB in one object.
    #[must_use]
    pub(crate) fn settle(&self, object: &mut Value, stage: Stage) -> bool {
        settle::settle(self, object, stage)
    }

    /// What Go writes of an object of a built-in kind in which nothing is set.
    pub(crate) fn zero(&self) -> Value {
        settle::zero(self)
    }

    /// [`Schema::prune`] and [`Schema::default`] in one walk.
    #[must_use]
    pub fn read(&self, object: &mut Value) -> Read {
        walk::read(self, object)
    }

    /// Removes what the schema does not know, and nulls that are neither nullable nor defaulted. Gives back the paths of
    /// what was unknown, as `spec.list[0].x`, sorted. `apiVersion`, `kind` and `metadata` are known.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        walk::prune(self, object)
    }

    /// As [`Schema::prune`], for a built-in kind: a null in a map of strings becomes an empty string.
    pub(crate) fn prune_struct(&self, object: &mut Value) -> Vec<String> {
        walk::prune_struct(self, object)
    }

    /// Fills in defaults, parents first; whether there was room for all of them: 3 MiB in one object.
    #[must_use]
    pub fn default(&self, object: &mut Value) -> bool {
        walk::default(self, object)
    }

    /// What is wrong with an object, in the words of the real server.
    #[must_use]
    pub fn validate(&self, object: &Value) -> FieldErrors {
        self.judge(object, None)
    }

    /// As [`Schema::validate`], but forgives what was already so in `old`: an unchanged part is not judged again.
    #[must_use]
    pub fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        self.judge(new, Some(old))
    }

    /// As [`Schema::validate_update`], for a change of nothing but the status: only that is judged, and messages name
    /// fields from there.
    #[must_use]
    pub fn validate_status(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = match (self.member("status"), new.get("status")) {
            (Some(schema), Some(status)) => validate::errors(schema, status, old.get("status")),
            _ => FieldErrors::new(),
        };
        for error in errors.iter_mut().filter(|error| error.field != NOWHERE) {
            error.field = member_path("status", &error.field).trim_end_matches('.').to_owned();
        }
        errors.extend(self.judge_rest(new, Some(old)));
        errors
    }

    /// Runs the CEL rules on an object, after everything else has been judged: `errors` is what was found, and gets what
    /// the rules find. Where an error would make rules see what no schema allows, they are not run, and that is told.
    /// Gives warnings: what rules say about parts that were the same in `old`.
    #[must_use]
    pub fn check_rules(&self, object: &Value, old: Option<&Value>, errors: &mut FieldErrors) -> Vec<String> {
        rules::judge(self, object, old, errors)
    }

    fn judge(&self, object: &Value, old: Option<&Value>) -> FieldErrors {
        let mut errors = validate::errors(self, object, old);
        errors.extend(self.judge_rest(object, old));
        errors
    }

    /// Embedded objects, and items that may not repeat.
    fn judge_rest(&self, object: &Value, old: Option<&Value>) -> FieldErrors {
        let mut errors = decode::embedded_errors(self, object);
        let mut repeated = FieldErrors::new();
        listtype::check(self, object, &Path::TOP, &mut repeated);
        // Repeated items anywhere in the old object forgive all of them in the new one, as in the real server.
        let forgiven = !repeated.is_empty()
            && old.is_some_and(|old| {
                let mut before = FieldErrors::new();
                listtype::check(self, old, &Path::TOP, &mut before);
                !before.is_empty()
            });
        if !forgiven {
            errors.extend(repeated);
        }
        errors
    }

    /// Why a custom resource cannot be decoded at all (a 400): metadata, its own or an embedded object's, of the wrong
    /// types. Ask before pruning.
    #[must_use]
    pub fn decode_fault(&self, object: &Value) -> Option<String> {
        decode::custom_fault(self, object)
    }

    /// Why an object of a built-in kind cannot be decoded (a 400): a value of the wrong type. `name` is the Go struct.
    pub(crate) fn struct_fault(&self, object: &Value, name: &str) -> Option<String> {
        decode::fault(self, object, name)
    }

    /// Why a tree cannot be made an object of a built-in kind, as a strategic patch does: a value of the wrong type.
    #[must_use]
    pub fn restore_fault(&self, object: &Value) -> Option<String> {
        decode::restore_fault(self, object)
    }

    /// Cuts the numbers of such a tree to what they have room for.
    pub fn cut_numbers(&self, object: &mut Value) {
        decode::cut_numbers(self, object);
    }

    /// Whether any node has CEL rules (`x-kubernetes-validations`).
    #[must_use]
    pub fn has_rules(&self) -> bool {
        let node = self.node();
        *node.ruled.get_or_init(|| {
            let mut children =
                node.properties.iter().map(|(_, child)| child).chain(&node.items).chain(match &node.additional {
                    Additional::Schema(schema) => Some(schema),
                    _ => None,
                });
            !node.rules.is_empty() || children.any(Self::has_rules)
        })
    }

    /// The CEL rules of this node, as written.
    #[must_use]
    pub fn rules(&self) -> &[Value] {
        &self.node().rules
    }

    /// The JSON type, if it asks for one.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        self.node().kind
    }

    /// The schema of a member of an object: its own, or that of all other members.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Self> {
        let node = self.node();
        node.properties.get(name).or(match &node.additional {
            Additional::Schema(schema) => Some(schema),
            _ => None,
        })
    }

    /// The members it knows by name.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.node().properties.iter()
    }

    /// The schema of the items of a list.
    #[must_use]
    pub fn items(&self) -> Option<&Self> {
        self.node().items.as_ref()
    }

    /// How a list is merged; `None` where the schema does not say.
    #[must_use]
    pub fn list_type(&self) -> Option<&ListType> {
        self.node().list_type.as_ref()
    }

    /// Whether members it does not know are kept.
    #[must_use]
    pub fn preserves_unknown(&self) -> bool {
        self.node().preserve
    }

    /// Whether the value is an object of another kind, with its own `apiVersion`, `kind` and `metadata`.
    #[must_use]
    pub fn is_embedded_resource(&self) -> bool {
        self.node().embedded
    }

    /// Whether null is a value.
    #[must_use]
    pub fn is_nullable(&self) -> bool {
        self.node().nullable
    }

    /// The default.
    #[must_use]
    pub fn default_value(&self) -> Option<&Value> {
        self.node().default.as_ref()
    }
}

impl fmt::Debug for Schema {
    /// One level: a schema may refer to itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.node();
        let members: Vec<&str> = node.properties.iter().map(|(name, _)| name).collect();
        f.debug_struct("Schema").field("kind", &node.kind).field("properties", &members).finish_non_exhaustive()
    }
}

/// A member's path.
fn member_path(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// An error that has no field of its own.
fn unplaced(detail: String) -> FieldError {
    FieldError::invalid(NOWHERE, "", detail)
}
