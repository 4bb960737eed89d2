//! What the real server said, asked once, and what must hold for anything that is asked.
//!
//! `expressions.json`: the libraries of kube-apiserver 1.37.1 (cel-go 0.29.2), expression by expression: issues, type,
//! greatest cost, value or error, cost. `definitions.json` and `objects.json`: causes in the answers of a server.

use concert_api::FieldErrors;
use concert_cel::{Budget, CompileError, Declared, Program, Variable};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::declare::declared;
use crate::Schema;
use crate::schema::Definitions;

fn known(schema: &Value) -> Declared {
    declared(&Schema::build(schema, &Definitions::default()), false).unwrap()
}

fn answer(schema: &Value, object: &Value, expression: &str) -> Value {
    answer_with(&known(schema), object, expression)
}

fn answer_with(declared: &Declared, object: &Value, expression: &str) -> Value {
    let variables = [Variable::plain("self"), Variable::plain("oldSelf")];
    let program = match Program::compile(expression, &variables, declared) {
        Err(CompileError::Issues(text)) => return json!({"expr": expression, "compile": text}),
        Err(CompileError::Instantiation(text)) => return json!({"expr": expression, "program": text}),
        Ok(program) => program,
    };
    let outcome = program.run(&[("self", Some(object))], declared, Budget::default());
    let mut answer = json!({
        "expr": expression, "type": program.output().to_string(), "max": program.max_cost(), "cost": outcome.cost,
    });
    match outcome.result {
        Ok(value) => answer["value"] = value,
        Err(error) => answer["error"] = error.to_string().into(),
    }
    answer
}

#[test]
fn expressions_give_what_they_give_on_the_real_server() {
    let groups: Value = serde_json::from_str(include_str!("expressions.json")).unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for group in groups.as_array().unwrap() {
        let declared = known(&group["schema"]);
        for case in group["cases"].as_array().unwrap() {
            count += 1;
            let found = answer_with(&declared, &group["object"], case["expr"].as_str().unwrap());
            if found != *case {
                wrong.push(format!("expected {case}\n   found {found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 600, "only {count} cases");
}

fn causes(errors: &FieldErrors) -> Value {
    errors.iter().map(|error| serde_json::to_value(error.cause()).unwrap()).collect()
}

#[test]
fn definitions_are_refused_as_by_the_real_server() {
    let cases: Value = serde_json::from_str(include_str!("definitions.json")).unwrap();
    for case in cases.as_array().unwrap() {
        let found = Schema::compile(&case["schema"], "spec.validation.openAPIV3Schema").err().unwrap_or_default();
        assert_eq!(causes(&found), case["causes"], "{}", case["name"]);
    }
}

#[test]
fn objects_are_refused_as_by_the_real_server() {
    let groups: Value = serde_json::from_str(include_str!("objects.json")).unwrap();
    for group in groups.as_array().unwrap() {
        let schema = Schema::compile(&group["schema"], "P").unwrap();
        for case in group["cases"].as_array().unwrap() {
            let old = case.get("old");
            let object = &case["object"];
            let mut errors = match old {
                Some(old) => schema.validate_update(object, old),
                None => schema.validate(object),
            };
            let mut warnings = schema.check_rules(object, old, &mut errors);
            warnings.sort();
            let found = json!({"causes": causes(&errors), "warnings": warnings});
            assert_eq!(found, json!({"causes": case["causes"], "warnings": case["warnings"]}), "{}", case["name"]);
        }
    }
}

#[test]
fn the_budget_of_an_object_is_shared_by_its_rules() {
    // A hundred thousand characters and a pattern of 350: 0.88 million each.
    let dear = json!({"rule": format!("self.matches('{}') || true", "a".repeat(350))});
    let text = json!({"type": "string", "x-kubernetes-validations": vec![dear; 20]});
    let schema = Schema::build(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"s": text}}}}),
        &Definitions::default(),
    );
    let mut errors = FieldErrors::new();
    let object = json!({"spec": {"s": "b".repeat(100_000)}});
    assert_eq!(schema.check_rules(&object, None, &mut errors), Vec::<String>::new());
    let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
    assert_eq!(
        causes(&errors),
        json!([{"reason": "FieldValueInvalid", "field": "spec.s", "message": format!("Invalid value: \"string\": {detail}")}])
    );
}

/// The causes that an object has for its rules.
fn refusals(rules: &Value, text: &str) -> Vec<String> {
    let text_schema = json!({"type": "string", "x-kubernetes-validations": rules});
    let schema = json!({"type": "object", "properties": {"s": text_schema}});
    let schema = Schema::build(&schema, &Definitions::default());
    let mut errors = FieldErrors::new();
    let _warnings = schema.check_rules(&json!({"s": text}), None, &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

/// What a rule costs on a text.
fn cost(rule: &str, text: &str) -> u64 {
    let schema = json!({"type": "object", "properties": {"s": {"type": "string"}}});
    answer(&schema, &json!({"s": text}), &rule.replace("self", "self.s"))["cost"].as_u64().unwrap()
}

#[test]
fn a_call_may_cost_a_million() {
    // A tenth of a character and a quarter of a pattern's.
    let rule = format!("self.matches('{}') || true", "a".repeat(400));
    let refused = |length: usize| !refusals(&json!([{"rule": rule}]), &"b".repeat(length)).is_empty();
    let most = (99_000..101_000).step_by(10).take_while(|length| !refused(*length)).last().unwrap();
    let (below, step) =
        (cost(&rule, &"b".repeat(most)), cost(&rule, &"b".repeat(1010)) - cost(&rule, &"b".repeat(1000)));
    assert!((1_000_000 - step..=1_000_000).contains(&below), "{below}");
}

#[test]
fn the_rules_of_an_object_may_cost_ten_million_together() {
    let rule = format!("self.matches('{}') || true", "a".repeat(400));
    // `self` is a step less than `self.s`.
    let each = cost(&rule, &"b".repeat(90)) - 1;
    let most = usize::try_from(10_000_000 / each).unwrap();
    assert!((900..1100).contains(&each) && most < 12_000, "{each}");
    let item = json!({"type": "string", "x-kubernetes-validations": [{"rule": rule}]});
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": item}}});
    let schema = Schema::build(&schema, &Definitions::default());
    for (items, good) in [(most, true), (most + 1, false)] {
        let mut errors = FieldErrors::new();
        let _warnings = schema.check_rules(&json!({"l": vec!["b".repeat(90); items]}), None, &mut errors);
        assert_eq!(errors.is_empty(), good, "{items} of {each}");
    }
}

/// Rules of items, as often as there may be items.
fn dear(items: u64, rules: usize, one_more: bool) -> Vec<String> {
    let rule = json!({"rule": "self > 0"});
    let item = json!({"type": "integer", "x-kubernetes-validations": vec![rule.clone(); rules]});
    let mut schema = json!({"type": "object", "properties": {
        "l": {"type": "array", "maxItems": items, "items": item}, "x": {"type": "integer"},
    }});
    if one_more {
        schema["properties"]["x"]["x-kubernetes-validations"] = json!([rule]);
    }
    let errors = Schema::compile(&schema, "P").err().unwrap_or_default();
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_rule_may_be_estimated_at_ten_million_and_all_of_a_definition_at_a_hundred() {
    // Such a rule costs 2.
    const ITEMS: u64 = 5_000_000;
    assert_eq!(dear(ITEMS, 1, false), Vec::<String>::new());
    let refused = dear(ITEMS + 1, 1, false);
    assert!(refused.len() == 1 && refused[0].contains("estimated rule cost exceeds budget"), "{refused:?}");
    assert_eq!(dear(ITEMS, 10, false), Vec::<String>::new());
    let refused = dear(ITEMS, 10, true).join(" ");
    assert!(refused.contains("estimated rule cost total for entire OpenAPIv3 schema exceeds budget"), "{refused}");
}

/// Deep, long and greedy expressions: answered at once, on the small stack of a worker thread.
#[test]
fn hostile_expressions_are_bounded() {
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "string"}}}});
    let object = json!({"l": vec!["a"; 100]});
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    let ask = move || {
        let deep = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(answer(&schema, &object, &deep(95))["value"], 1);
        let limit = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250";
        assert_eq!(answer(&schema, &object, &deep(251))["compile"], limit);
        for text in [
            "[".repeat(100_000),
            "!".repeat(99_999),
            "-".repeat(99_999),
            "a.".repeat(50_000),
            "self.l.map(x, ".repeat(120) + "1" + &")".repeat(120),
            "true ? ".repeat(5_000),
            "1 + ".repeat(20_000) + "1",
            "{1: ".repeat(20_000),
            "x".repeat(100_001),
            "optional.of(1)".to_owned() + &".optMap(x, x)".repeat(200),
            "'a'.matches('((a{100}){100}){100}')".to_owned(),
            format!("'a'.matches('{}')", "a".repeat(70_000)),
        ] {
            let found = answer(&schema, &object, &text);
            assert!(found["compile"].is_string(), "{}: {found}", &text[..20]);
        }
        // It stops when its budget is spent, however much it would do.
        let greedy = "self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, a + b + c + d != ''))))";
        let found = answer(&schema, &object, greedy);
        assert_eq!(found["error"], "operation cancelled: actual cost limit exceeded");
        // What costs little but makes much is stopped too.
        let text = json!({"type": "object", "properties": {"s": {"type": "string"}}});
        let long = json!({"s": "ab".repeat(20_000)});
        for greedy in ["self.s.replace('a', self.s).size() > 0", "self.s.split('').join(self.s).size() > 0"] {
            let found = answer(&text, &long, greedy);
            assert_eq!(found["error"], "operation cancelled: actual cost limit exceeded", "{greedy}");
        }
        let lists = "[[1, 2]]".to_owned() + &".map(x, x + x)".repeat(40);
        assert_eq!(answer(&text, &long, &lists)["error"], "operation cancelled: actual cost limit exceeded");
        let doubled = "['a'].map(x, x + x).map(x, x + x)".to_owned() + &".map(x, x + x)".repeat(60);
        assert_eq!(answer(&schema, &object, &doubled)["error"], "operation cancelled: actual cost limit exceeded");
    };
    thread.spawn(ask).unwrap().join().unwrap();
}

/// Pieces of expressions, glued at random.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "self",
        "self.a",
        "self.l",
        "oldSelf",
        ".",
        "?",
        ":",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        "+",
        "-",
        "*",
        "/",
        "%",
        "&&",
        "||",
        "==",
        "!=",
        "<",
        "in",
        "!",
        "1",
        "2.5",
        "3u",
        "'a'",
        "\"b\"",
        "b'c'",
        "r'd'",
        "true",
        "null",
        "x",
        ".all(x, ",
        ".map(x, ",
        ".exists(x, ",
        ".filter(x, ",
        ".sortBy(x, ",
        ".optMap(x, ",
        ".size()",
        ".sort()",
        "has(",
        "size(",
        "int(",
        "string(",
        "type(",
        "quantity(",
        "ip(",
        "duration(",
        ".?a",
        "[?0]",
        ".orValue(",
        ".format([",
        "'%s'",
        ".matches(",
        ".split(",
        "\n",
        "//",
        "`",
        "'",
        "\\",
        "ä",
        "\u{0}",
        "99999999999999999999",
    ]);
    prop::collection::vec(piece, 0..25).prop_map(|pieces| pieces.join(""))
}

proptest! {
    #[test]
    fn any_expression_is_answered_within_its_budget(text in any_text(), raw in "\\PC{0,40}") {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"},
            "l": {"type": "array", "items": {"type": "string"}}, "a-b": {"x-kubernetes-int-or-string": true}}});
        let object = json!({"a": 1, "l": ["x", "y"], "a-b": "z"});
        for text in [text, raw] {
            let found = answer(&schema, &object, &text);
            // One step may pass the limit; it is the last one.
            prop_assert!(found["cost"].as_u64().unwrap_or(0) < 10_000_000, "{}", found);
        }
    }
}
