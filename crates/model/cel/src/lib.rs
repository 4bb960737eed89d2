//! The Common Expression Language, as kube-apiserver 1.37 speaks it in rules of custom resources.
//!
//! An expression is parsed, its macros expanded, its types checked against what its variables are
//! [`Declared`] to be, and its cost estimated from their greatest sizes: that is [`Program::compile`]. [`Program::run`]
//! evaluates it on JSON values, counting the cost of every step, and stops when the budget is spent: nothing that a
//! user writes can keep a thread busy for long. Messages, costs and results are those of cel-go 0.29 with the libraries
//! of Kubernetes; where they are not, `docs/differences.md` says so.
//!
//! Pure: no async, no I/O, no clock. Everything a user writes is limited: length, depth, size of patterns.
//!
//! ```
//! use concert_cel::{Budget, Declared, Field, Program, Shape, Type, Variable};
//! use serde_json::json;
//!
//! let size = Field { name: "size".into(), declared: Declared::simple(Type::Int, 0, 1).into() };
//! let declared =
//!     Declared { shape: Shape::Object([("size".to_owned(), size)].into()), most: 0, least_bytes: 2 };
//! let variables = [Variable::plain("self")];
//! let program = Program::compile("self.size < 3", &variables, &declared).unwrap();
//! assert_eq!(program.output(), &Type::Bool);
//! let outcome = program.run(&[("self", Some(&json!({"size": 2})))], &declared, Budget::default());
//! assert_eq!((outcome.result, outcome.cost), (Ok(json!(true)), 3));
//! let error = Program::compile("self.sise < 3", &variables, &declared).unwrap_err();
//! assert!(error.to_string().starts_with("ERROR: <input>:1:5: undefined field 'sise'"));
//! ```

mod ast;
mod check;
mod cost;
mod declared;
mod eval;
mod lexer;
mod library;
mod parser;
mod pattern;
mod program;
mod source;
mod types;
mod value;

pub use declared::{Declared, Field, ListKind, Shape, escape};
pub use pattern::Pattern;
pub use program::{Budget, CompileError, Outcome, Program, RunError, Variable};
pub use types::Type;
