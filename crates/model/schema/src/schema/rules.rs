//! CEL rules (`x-kubernetes-validations`): compiled with the definition, run on every write of an object.
//!
//! [`check`] is what a definition must pass: rules that compile, fit the schema and cost little enough at the worst.
//! [`judge`] runs them on an object.

mod check;
mod declare;
mod field_path;
mod judge;
#[cfg(test)]
mod tests;

use concert_cel::{CompileError, Declared, Program, Type, Variable};
use serde_json::Value;

use super::Schema;

pub(super) use check::check;
pub(super) use judge::{judge, judge_default};

/// What a rule calls the value, and what it was.
const SELF: &str = "self";
const OLD_SELF: &str = "oldSelf";

/// The compiled rules of a node.
#[derive(Debug)]
pub(super) struct Compiled {
    /// What the rules know of the value; `None` where rules cannot look into it.
    declared: Option<Declared>,
    rules: Vec<Rule>,
}

/// One rule.
#[derive(Debug)]
struct Rule {
    text: String,
    message: String,
    reason: String,
    /// Relative to the value, as `a.b[c]`; may be empty.
    field_path: String,
    optional_old: bool,
    /// `None` where the rule is blank.
    program: Option<Result<Program, String>>,
    message_expression: Option<Result<Program, String>>,
}

impl Rule {
    fn uses_old(&self) -> bool {
        self.program().is_some_and(|program| program.uses(OLD_SELF))
    }

    fn program(&self) -> Option<&Program> {
        self.program.as_ref().and_then(|program| program.as_ref().ok())
    }

    /// What a message calls it.
    fn shown(&self) -> &str {
        let message = self.message.trim();
        if message.is_empty() { self.text.trim() } else { message }
    }

    /// What a user is told who breaks it.
    fn detail(&self) -> String {
        if self.message.is_empty() { format!("failed rule: {}", self.shown()) } else { self.message.trim().to_owned() }
    }
}

/// The compiled rules of a schema; `root` is a whole object, own or embedded.
fn compiled(schema: &Schema, root: bool) -> &Compiled {
    static NONE: Compiled = Compiled { declared: None, rules: Vec::new() };
    let node = schema.node();
    if node.rules.is_empty() {
        return &NONE;
    }
    node.compiled.get_or_init(|| {
        let declared = declare::declared(schema, root);
        let rules = node.rules.iter().map(|source| rule(source, schema, declared.as_ref())).collect();
        Box::new(Compiled { declared, rules })
    })
}

fn rule(source: &Value, schema: &Schema, declared: Option<&Declared>) -> Rule {
    let text = |name: &str| source[name].as_str().unwrap_or_default().to_owned();
    let optional_old = source["optionalOldSelf"] == true;
    let variables = [Variable::plain(SELF), Variable { name: OLD_SELF, optional: optional_old }];
    let compile = |text: &str, what: &str, output: &Type, otherwise: &str| {
        let declared = declared.ok_or_else(|| "failed to convert to declType for CEL validation rules".to_owned())?;
        let program = Program::compile(text, &variables, declared).map_err(|error| match error {
            CompileError::Issues(issues) => format!("{what}compilation failed: {issues}"),
            CompileError::Instantiation(why) => {
                let what = if what.is_empty() { "program " } else { what };
                format!("{what}instantiation failed: {why}")
            }
        })?;
        if program.output() == output { Ok(program) } else { Err(otherwise.to_owned()) }
    };
    let program = (!text("rule").trim().is_empty())
        .then(|| compile(&text("rule"), "", &Type::Bool, "cel expression must evaluate to a bool"));
    let worth_it = matches!(program, Some(Ok(_))) && !text("messageExpression").is_empty();
    let message_expression = worth_it.then(|| {
        let otherwise = "messageExpression must evaluate to a string";
        compile(&text("messageExpression"), "messageExpression ", &Type::String, otherwise)
    });
    Rule {
        text: text("rule"),
        message: text("message"),
        reason: text("reason"),
        field_path: field_path::normalized(&text("fieldPath"), schema).unwrap_or_default(),
        optional_old,
        program,
        message_expression,
    }
}
