//! Objects in YAML.

use super::{Case, filled, long};
use crate::kinds::{Kind, SENT};
use crate::server::{Api, Call, YAML};

pub(super) const CASES: &[Case] = &[
    Case { name: "yaml-aliases-of-a-long-text", run: aliases_of_a_long_text },
    Case { name: "yaml-aliases-of-a-long-key", run: aliases_of_a_long_key },
    Case { name: "yaml-aliases-of-aliases", run: aliases_of_aliases },
    Case { name: "yaml-merges", run: merges },
    Case { name: "yaml-small-numbers", run: small_numbers },
    Case { name: "yaml-deep-flow", run: deep_flow },
    Case { name: "yaml-deep-blocks", run: deep_blocks },
    Case { name: "yaml-duplicates", run: duplicates },
    Case { name: "yaml-anchors", run: anchors },
    Case { name: "yaml-comments", run: comments },
    Case { name: "yaml-folded-text", run: folded_text },
    Case { name: "yaml-directives", run: directives },
    Case { name: "yaml-documents", run: documents },
    Case { name: "yaml-tags", run: tags },
    Case { name: "yaml-lines-of-text", run: lines_of_text },
];

const THING: &Kind = &SENT[0];
const HEAD: &str = "apiVersion: g.example/v1\nkind: Thing\nmetadata: {name: a}\n";

/// Sends an object, and has it answered in YAML, too.
fn send(body: &str) {
    let mut api = Api::new();
    api.send(&Call::post(&THING.path(), YAML, body.as_bytes()));
    api.send(&Call::get(&format!("{}/a", THING.path())).accepting(YAML));
}

fn thing(any: &str) -> String {
    format!("{HEAD}spec:\n  any: {any}\n")
}

fn aliases_of_a_long_text(bytes: usize) {
    let text = long(bytes / 2);
    send(&thing(&format!("[&a {text}, {}]", filled(bytes / 2, |_| " *a ".to_owned()))));
}

fn aliases_of_a_long_key(bytes: usize) {
    let text = long(bytes / 2);
    send(&thing(&format!("[&a {text}, {}]", filled(bytes / 2, |_| "{*a : 1}".to_owned()))));
}

fn aliases_of_aliases(bytes: usize) {
    let nine = |of: usize| vec![format!(" *a{of} "); 9].join(",");
    let lines: String = (1..(bytes / 70).clamp(1, 1000)).map(|n| format!("    - &a{n} [{}]\n", nine(n - 1))).collect();
    send(&format!("{HEAD}spec:\n  any:\n    - &a0 [x,x,x]\n{lines}"));
}

fn merges(bytes: usize) {
    let fields = filled(bytes / 2, |index| format!("a{index}: 1"));
    let users = filled(bytes / 2, |_| "{<<: *a }".to_owned());
    send(&thing(&format!("[&a {{{fields}}}, {users}]")));
}

fn small_numbers(bytes: usize) {
    send(&thing(&format!("[{}]", filled(bytes, |_| "0".to_owned()))));
}

fn deep_flow(bytes: usize) {
    send(&thing(&"[".repeat(bytes)));
    send(&thing(&format!("{}{}", "{a: ".repeat(bytes / 5), "}".repeat(bytes / 5))));
}

fn deep_blocks(bytes: usize) {
    send(&thing(&format!("\n   {}", "- ".repeat(bytes / 2))));
}

fn duplicates(bytes: usize) {
    send(&thing(&format!("{{{}}}", filled(bytes, |_| "a: 1".to_owned()))));
}

fn anchors(bytes: usize) {
    send(&thing(&format!("[{}]", filled(bytes, |index| format!("&a{index} 1")))));
}

fn comments(bytes: usize) {
    send(&format!("{}{HEAD}", "# x\n".repeat(bytes / 4)));
}

fn folded_text(bytes: usize) {
    send(&thing(&format!(">-\n{}", "    x\n\n".repeat(bytes / 7))));
}

fn directives(bytes: usize) {
    send(&format!("{}---\n{HEAD}", "%TAG ! x\n".repeat(bytes / 9)));
}

fn documents(bytes: usize) {
    send(&format!("{HEAD}{}", "---\na: 1\n".repeat(bytes / 9)));
}

fn tags(bytes: usize) {
    send(&thing(&format!("[{}]", filled(bytes, |_| "!!str 1".to_owned()))));
}

fn lines_of_text(bytes: usize) {
    let text = "x: 'y'\\n # \\\"".repeat(bytes / 13);
    send(&thing(&format!("\"{text}\"")));
}
