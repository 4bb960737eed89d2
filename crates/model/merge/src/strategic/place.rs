//! What the schema says about a place, as the real server learns it from Go types.

use concert_schema::{Kind, Schema};

use crate::error::StrategicError;

/// A place in the document.
#[derive(Clone, Copy)]
pub(super) struct Place<'s> {
    schema: &'s Schema,
    /// The Go type, for messages.
    name: &'s str,
}

impl<'s> Place<'s> {
    pub(super) fn root(schema: &'s Schema, kind: &'s str) -> Self {
        Self { schema, name: kind }
    }

    fn at(schema: &'s Schema) -> Self {
        Self { schema, name: schema.go_type().rsplit('.').next().unwrap_or_default() }
    }

    /// A member, by its name or, if there is none, by one that differs in case.
    pub(super) fn field(self, key: &str) -> Result<Self, StrategicError> {
        if self.go_kind() != "struct" {
            return Err(StrategicError::Internal(format!(
                "merging an object in json but data type is not struct, instead is: {}",
                self.go_kind()
            )));
        }
        let similar = || self.schema.properties().find(|(name, _)| name.eq_ignore_ascii_case(key));
        match self.schema.property(key).or_else(|| similar().map(|(_, schema)| schema)) {
            Some(schema) => Ok(Self::at(schema)),
            None => Err(StrategicError::Internal(format!(
                "unable to find api field in struct {} for the json field {}",
                self.name,
                concert_api::quoted(key)
            ))),
        }
    }

    /// The items of a list, which is a member of `parent`.
    pub(super) fn items(self, parent: Self) -> Result<Self, StrategicError> {
        match self.schema.items() {
            Some(items) if items.kind() == Some(Kind::Array) => {
                Err(StrategicError::Internal("unexpected slice of slice".to_owned()))
            }
            Some(items) => Ok(Self::at(items)),
            None => {
                let kind = parent.go_kind();
                Err(StrategicError::Internal(format!("expected slice or array type, but got: {kind}")))
            }
        }
    }

    /// The strategy beside `retainKeys`, which only those who make patches look at.
    pub(super) fn strategy(self) -> Result<&'s str, StrategicError> {
        let strategies: Vec<&str> = self.schema.patch_strategy().split(',').collect();
        match strategies.as_slice() {
            ["retainKeys"] => Ok(""),
            [only] | ["retainKeys", only] | [only, "retainKeys"] => Ok(only),
            _ => Err(StrategicError::Internal(format!("unexpected patch strategy: [{}]", strategies.join(" ")))),
        }
    }

    /// Whether those who make patches say which members stay.
    pub(super) fn retains_keys(self) -> bool {
        self.schema.patch_strategy().split(',').any(|strategy| strategy == "retainKeys")
    }

    pub(super) fn merge_key(self) -> &'s str {
        self.schema.patch_merge_key()
    }

    /// What Go calls the kind of its type.
    pub(super) fn go_kind(self) -> &'static str {
        match self.schema.kind() {
            Some(Kind::Object) if self.schema.has_properties() || !self.schema.go_type().is_empty() => "struct",
            Some(Kind::Object) => "map",
            Some(Kind::Array) => "slice",
            Some(Kind::String) if !matches!(self.name, "Time" | "MicroTime" | "Duration" | "Quantity") => "string",
            Some(Kind::Integer) => "int32",
            Some(Kind::Number) => "float64",
            Some(Kind::Boolean) => "bool",
            Some(Kind::String) | None => "struct",
        }
    }
}
