//! A compiled expression.

use std::fmt;

use serde_json::Value as Json;

use crate::check::{self, Checked};
use crate::cost;
use crate::declared::Declared;
use crate::eval::{Constants, Run};
use crate::library::show;
use crate::parser;
use crate::source;
use crate::types::Type;
use crate::value::{Fault, Value};

/// A variable that an expression may use. All of them look like the same [`Declared`].
#[derive(Clone, Copy, Debug)]
pub struct Variable<'n> {
    /// Its name.
    pub name: &'n str,
    /// It may be missing: then it is an optional.
    pub optional: bool,
}

impl<'n> Variable<'n> {
    /// One that is always there.
    #[must_use]
    pub fn plain(name: &'n str) -> Self {
        Self { name, optional: false }
    }
}

/// How much a run may cost.
#[derive(Clone, Copy, Debug)]
pub struct Budget(pub u64);

impl Default for Budget {
    /// What the real server gives one call.
    fn default() -> Self {
        Self(1_000_000)
    }
}

/// Why an expression cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// It is wrong: the issues, with their places.
    Issues(String),
    /// It is right, but a part of it fails whatever it is given.
    Instantiation(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Issues(text) | Self::Instantiation(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for CompileError {}

/// Why a run gave no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The expression failed: why.
    Failed(String),
    /// The budget was spent.
    Spent,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(text) => f.write_str(text),
            Self::Spent => f.write_str("operation cancelled: actual cost limit exceeded"),
        }
    }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The value, if it is one that JSON has; others as text.
    pub result: Result<Json, RunError>,
    /// What it cost.
    pub cost: u64,
}

/// A compiled expression. It can be run many times, on several threads.
#[derive(Debug)]
pub struct Program {
    checked: Checked,
    constants: Constants,
    output: Type,
    most: u64,
}

impl Program {
    /// Parses, checks and estimates an expression.
    ///
    /// # Errors
    /// What is wrong with it, in the words of cel-go.
    pub fn compile(text: &str, variables: &[Variable<'_>], declared: &Declared) -> Result<Self, CompileError> {
        let chars: Vec<char> = text.chars().collect();
        let told = |issues: Vec<source::Issue>| CompileError::Issues(source::show(&chars, &issues));
        let parsed = parser::parse(&chars).map_err(told)?;
        let of = declared.root_type();
        let variables: Vec<(&str, Type, &Declared)> = variables
            .iter()
            .map(|one| (one.name, if one.optional { Type::optional(of.clone()) } else { of.clone() }, declared))
            .collect();
        let checked = check::check(parsed, &variables).map_err(told)?;
        let constants = Constants::find(&checked).map_err(CompileError::Instantiation)?;
        let output = checked.type_of(&checked.expr).clone();
        let most = cost::estimate(&checked, declared);
        Ok(Self { checked, constants, output, most })
    }

    /// The type of what it gives.
    #[must_use]
    pub fn output(&self) -> &Type {
        &self.output
    }

    /// The most that a run costs, by estimate.
    #[must_use]
    pub fn max_cost(&self) -> u64 {
        self.most
    }

    /// Whether a variable occurs in it.
    #[must_use]
    pub fn uses(&self, variable: &str) -> bool {
        self.checked.used.iter().any(|used| used == variable)
    }

    /// Runs it. A variable that may be missing is given as an optional: `None` if it is.
    #[must_use]
    pub fn run(&self, variables: &[(&str, Option<&Json>)], declared: &Declared, budget: Budget) -> Outcome {
        self.run_with(variables, &[], declared, budget)
    }

    /// Runs it, with these variables as optionals.
    #[must_use]
    pub fn run_with(
        &self,
        variables: &[(&str, Option<&Json>)],
        optionals: &[&str],
        declared: &Declared,
        budget: Budget,
    ) -> Outcome {
        let values = variables.iter().filter_map(|(name, json)| {
            let value = json.map(|json| Value::from_json(json, declared));
            let value = match (value, optionals.contains(name)) {
                (Some(value), true) => value.map(Value::some),
                (Some(value), false) => value,
                (None, true) => Ok(Value::Optional(None)),
                (None, false) => return None,
            };
            Some((*name, value))
        });
        let mut run = Run::new(&self.checked, &self.constants, values.collect(), budget.0);
        let result = match run.whole() {
            Ok(value) => Ok(show::json(&value)),
            Err(Fault::Error(text)) => Err(RunError::Failed(text)),
            Err(Fault::Spent) => Err(RunError::Spent),
        };
        Outcome { result, cost: run.cost }
    }
}
