//! Objects in JSON.

use super::{Case, filled, long};
use crate::kinds::{Kind, SENT};
use crate::server::{Api, Call, JSON};

pub(super) const CASES: &[Case] = &[
    Case { name: "duplicates-under-a-long-name", run: duplicates_under_a_long_name },
    Case { name: "one-duplicate-under-a-long-name", run: one_duplicate_under_a_long_name },
    Case { name: "duplicates-in-repeated-objects", run: duplicates_in_repeated_objects },
    Case { name: "many-duplicates", run: many_duplicates },
    Case { name: "unknown-fields", run: unknown_fields },
    Case { name: "unknown-fields-strict", run: unknown_fields_strict },
    Case { name: "unknown-fields-under-a-long-name", run: unknown_fields_under_a_long_name },
    Case { name: "wrong-types-under-a-long-name", run: wrong_types_under_a_long_name },
    Case { name: "empty-containers", run: empty_containers },
    Case { name: "wrong-keys", run: wrong_keys },
    Case { name: "wrong-labels", run: wrong_labels },
    Case { name: "wrong-finalizers", run: wrong_finalizers },
    Case { name: "owners", run: owners },
    Case { name: "small-numbers", run: small_numbers },
    Case { name: "long-number", run: long_number },
    Case { name: "numbers-in-a-set", run: numbers_in_a_set },
    Case { name: "texts-in-a-set", run: texts_in_a_set },
    Case { name: "items-of-one-key", run: items_of_one_key },
    Case { name: "long-text-for-a-pattern", run: long_text_for_a_pattern },
    Case { name: "deep", run: deep },
    Case { name: "wide-definition", run: wide_definition },
    Case { name: "deep-definition", run: deep_definition },
    Case { name: "rules-of-a-definition", run: rules_of_a_definition },
    Case { name: "rules-of-a-role", run: rules_of_a_role },
    Case { name: "selector-in-a-policy", run: selector_in_a_policy },
];

const THING: &Kind = &SENT[0];
const POD: &Kind = &SENT[2];
const MAP: &Kind = &SENT[1];
const DEFINITION: &Kind = &SENT[7];
const ROLE: &Kind = &SENT[36];
const NETWORK_POLICY: &Kind = &SENT[34];

/// Sends an object twice: to be created, and to take its place.
fn send(kind: &Kind, query: &str, body: &str) {
    let mut api = Api::new();
    api.send(&Call::post(&format!("{}{query}", kind.path()), JSON, body.as_bytes()));
    api.send(&Call::put(&format!("{}/a{query}", kind.path()), JSON, body.as_bytes()));
}

fn thing(spec: &str) -> String {
    format!(r#"{{"apiVersion":"g.example/v1","kind":"Thing","metadata":{{"name":"a"}},"spec":{{{spec}}}}}"#)
}

fn object(rest: &str) -> String {
    format!(r#"{{"metadata":{{"name":"a"}},{rest}}}"#)
}

fn pod(spec: &str) -> String {
    object(&format!(r#""spec":{{{spec}}}"#))
}

fn duplicates_under_a_long_name(bytes: usize) {
    let twice = filled(bytes / 2, |index| format!(r#""a{index}":1,"a{index}":1"#));
    let name = long(bytes / 2);
    send(THING, "", &thing(&format!(r#""free":{{"{name}":{{{twice}}}}}"#)));
}

fn one_duplicate_under_a_long_name(bytes: usize) {
    let name = long(bytes / 2);
    let same = filled(bytes / 2, |_| r#""a":1"#.to_owned());
    send(THING, "", &thing(&format!(r#""free":{{"{name}":{{{same}}}}}"#)));
}

fn duplicates_in_repeated_objects(bytes: usize) {
    let name = long(bytes / 2);
    let same = filled(bytes / 2, |_| r#""x":{"a":1,"a":1}"#.to_owned());
    send(THING, "", &thing(&format!(r#""free":{{"{name}":{{{same}}}}}"#)));
}

fn many_duplicates(bytes: usize) {
    let twice = filled(bytes, |index| format!(r#""a{index}":1,"a{index}":1"#));
    send(THING, "?fieldValidation=Strict", &thing(&format!(r#""free":{{{twice}}}"#)));
}

fn unknown_fields(bytes: usize) {
    let containers = filled(bytes, |_| r#"{"x":1}"#.to_owned());
    send(POD, "", &pod(&format!(r#""containers":[{containers}]"#)));
    let ports = filled(bytes, |index| format!(r#"{{"port":{index},"x":1}}"#));
    send(THING, "", &thing(&format!(r#""ports":[{ports}]"#)));
}

fn unknown_fields_strict(bytes: usize) {
    let fields = filled(bytes, |index| format!(r#""x{index}":1"#));
    send(THING, "?fieldValidation=Strict", &thing(&fields));
    send(MAP, "?fieldValidation=Strict", &object(&fields));
}

fn unknown_fields_under_a_long_name(bytes: usize) {
    let (name, fields) = (long(bytes / 2), filled(bytes / 2, |index| format!(r#""x{index}":1"#)));
    send(THING, "", &thing(&format!(r#""structs":{{"{name}":{{{fields}}}}}"#)));
    send(THING, "?fieldValidation=Strict", &thing(&format!(r#""structs":{{"{name}":{{{fields}}}}}"#)));
}

fn wrong_types_under_a_long_name(bytes: usize) {
    let (name, fields) = (long(bytes / 2), filled(bytes / 2, |index| format!(r#""x{index}":1"#)));
    send(THING, "", &thing(&format!(r#""nested":{{"{name}":{{{fields}}}}}"#)));
}

fn empty_containers(bytes: usize) {
    send(POD, "", &pod(&format!(r#""containers":[{}]"#, filled(bytes, |_| "{}".to_owned()))));
}

fn wrong_keys(bytes: usize) {
    send(MAP, "", &object(&format!(r#""data":{{{}}}"#, filled(bytes, |index| format!(r#""?{index}":"""#)))));
}

fn wrong_labels(bytes: usize) {
    let labels = filled(bytes, |index| format!(r#""?{index}":"?""#));
    send(MAP, "", &format!(r#"{{"metadata":{{"name":"a","labels":{{{labels}}},"annotations":{{{labels}}}}}}}"#));
}

fn wrong_finalizers(bytes: usize) {
    let finalizers = filled(bytes, |index| format!(r#""?{index}""#));
    send(MAP, "", &format!(r#"{{"metadata":{{"name":"a","finalizers":[{finalizers}]}}}}"#));
}

fn owners(bytes: usize) {
    let owners = filled(bytes, |index| {
        format!(r#"{{"apiVersion":"v1","kind":"Pod","name":"p","uid":"{index}","controller":true}}"#)
    });
    send(MAP, "", &format!(r#"{{"metadata":{{"name":"a","ownerReferences":[{owners}]}}}}"#));
}

fn small_numbers(bytes: usize) {
    send(THING, "", &thing(&format!(r#""any":[{}]"#, filled(bytes, |_| "0".to_owned()))));
}

fn long_number(bytes: usize) {
    let digits = "7".repeat(bytes / 2);
    send(THING, "", &thing(&format!(r#""ratio":0.{digits}"#)));
    send(THING, "", &thing(&format!(r#""ratio":{digits}e-{}"#, bytes / 2)));
}

fn numbers_in_a_set(bytes: usize) {
    // The same as floats, and not the same as integers.
    let numbers = filled(bytes, |index| match index % 3 {
        0 => format!("{}", 9_007_199_254_740_992_usize + index),
        1 => format!("{}.0", 9_007_199_254_740_992_usize + index),
        _ => format!("{}e1", 9_007_199_254_740_992_usize + index),
    });
    send(THING, "", &thing(&format!(r#""numbers":[{numbers}]"#)));
}

fn texts_in_a_set(bytes: usize) {
    send(THING, "", &thing(&format!(r#""tags":[{}]"#, filled(bytes, |index| format!(r#""{}""#, index / 2)))));
}

fn items_of_one_key(bytes: usize) {
    let ports = filled(bytes, |index| format!(r#"{{"port":{}}}"#, index / 2));
    send(THING, "", &thing(&format!(r#""ports":[{ports}]"#)));
    let containers = filled(bytes, |index| format!(r#"{{"name":"c{}","image":"i"}}"#, index / 2));
    send(POD, "", &pod(&format!(r#""containers":[{containers}]"#)));
}

fn long_text_for_a_pattern(bytes: usize) {
    send(THING, "", &thing(&format!(r#""tier":"{}!""#, long(bytes))));
}

fn deep(bytes: usize) {
    let one = format!("{}{}", r#"{"a":"#.repeat(90), format_args!("1{}", "}".repeat(90)));
    send(THING, "", &thing(&format!(r#""any":[{}]"#, filled(bytes, |_| one.clone()))));
}

fn definition(schema: &str) {
    let body = format!(
        r#"{{"metadata":{{"name":"xs.h.example"}},"spec":{{"group":"h.example","scope":"Namespaced","names":{{"plural":"xs","kind":"X"}},"versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{{"type":"object","properties":{{"spec":{schema}}}}}}}}}]}}}}"#
    );
    let mut api = Api::new();
    let answer = api.send(&Call::post(&DEFINITION.path(), JSON, body.as_bytes()));
    if answer.is_success() {
        let object = br#"{"apiVersion":"h.example/v1","kind":"X","metadata":{"name":"a"},"spec":{}}"#;
        api.send(&Call::post("/apis/h.example/v1/namespaces/default/xs", JSON, object));
    }
}

fn wide_definition(bytes: usize) {
    let fields = filled(bytes, |index| format!(r#""f{index}":{{"type":"string","default":"x"}}"#));
    definition(&format!(r#"{{"type":"object","default":{{}},"properties":{{{fields}}}}}"#));
}

fn deep_definition(bytes: usize) {
    let open = r#"{"type":"object","properties":{"a":"#;
    let one = format!("{}{}{}", open.repeat(30), r#"{"type":"string"}"#, "}}".repeat(30));
    let fields = filled(bytes, |index| format!(r#""f{index}":{one}"#));
    definition(&format!(r#"{{"type":"object","properties":{{{fields}}}}}"#));
}

fn rules_of_a_definition(bytes: usize) {
    let rules = filled(bytes, |index| format!(r#"{{"rule":"self.a.all(x, x.startsWith('{index}'))"}}"#));
    definition(&format!(
        r#"{{"type":"object","properties":{{"a":{{"type":"array","maxItems":2,"items":{{"type":"string","maxLength":3}}}}}},"x-kubernetes-validations":[{rules}]}}"#
    ));
}

fn rules_of_a_role(bytes: usize) {
    let rules =
        filled(bytes, |index| format!(r#"{{"apiGroups":["g{index}"],"resources":["r"],"verbs":["get","list"]}}"#));
    send(ROLE, "", &object(&format!(r#""rules":[{rules}]"#)));
}

fn selector_in_a_policy(bytes: usize) {
    let wanted = filled(bytes, |index| format!(r#"{{"key":"k{index}","operator":"In","values":["a","b","a"]}}"#));
    send(NETWORK_POLICY, "", &object(&format!(r#""spec":{{"podSelector":{{"matchExpressions":[{wanted}]}}}}"#)));
}
