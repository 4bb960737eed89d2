//! How requests to the server are sorted, and how many of each sort are served at a time.

use concert_api::{Fault, FieldError, FieldErrors, names, quoted};
use serde_json::Value;

use super::judge::{Judge, count, items, text, texts};

const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
/// The most that a schema may come behind others.
const LAST: i64 = 10_000;
const QUEUES: i64 = 10_000_000;
/// How much of a hash there is for a hand of queues.
const BITS: u32 = 60;

pub(super) fn check_schema(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    let place = spec["matchingPrecedence"].as_i64().unwrap_or(0);
    let first = place == 1 && text(&object["metadata"]["name"]) != "exempt";
    for (is_so, detail) in [
        (place <= 0, "must be a positive value"),
        (place > LAST, "must not be greater than 10000"),
        (first, "only the schema named 'exempt' may have matchingPrecedence 1"),
    ] {
        if is_so {
            judge.invalid("spec.matchingPrecedence", place, detail);
        }
    }
    let method = text(&spec["distinguisherMethod"]["type"]);
    if spec["distinguisherMethod"].is_object() && !matches!(method, "ByNamespace" | "ByUser") {
        let shown = format!(r#"{{"Type":{}}}"#, quoted(method));
        let fault = Fault::NotSupportedShown(shown, vec!["ByNamespace".to_owned(), "ByUser".to_owned()]);
        judge.errors.push(FieldError::new("spec.distinguisherMethod.type", fault, ""));
    }
    let (level, field) = (text(&spec["priorityLevelConfiguration"]["name"]), "spec.priorityLevelConfiguration.name");
    if level.is_empty() {
        judge.required(field, "must reference a priority level");
    } else {
        judge.faults(level, names::subdomain_faults(level), field);
    }
    for (place, rule) in items(&spec["rules"], "spec.rules") {
        check_rule(rule, &place, &mut judge);
    }
    judge.errors
}

fn check_rule(rule: &Value, path: &str, judge: &mut Judge) {
    if count(&rule["subjects"]) == 0 {
        judge.required(format!("{path}.subjects"), "subjects must contain at least one value");
    }
    for (place, subject) in items(&rule["subjects"], &format!("{path}.subjects")) {
        check_subject(subject, &place, judge);
    }
    if count(&rule["resourceRules"]) + count(&rule["nonResourceRules"]) == 0 {
        judge.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for (place, one) in items(&rule["resourceRules"], &format!("{path}.resourceRules")) {
        check_verbs(one, &place, judge);
        check_resources(one, &place, judge);
    }
    for (place, one) in items(&rule["nonResourceRules"], &format!("{path}.nonResourceRules")) {
        check_verbs(one, &place, judge);
        let field = format!("{place}.nonResourceURLs");
        let others = "if '*' is present, must not specify other non-resource URLs";
        if check_list(&one["nonResourceURLs"], "nonResourceURLs must contain at least one value", others, &field, judge)
        {
            for (place, path) in items(&one["nonResourceURLs"], &field) {
                check_path(text(path), &place, judge);
            }
        }
    }
}

/// Who a rule is about: the member that its kind names, and no other.
fn check_subject(subject: &Value, path: &str, judge: &mut Judge) {
    const KINDS: [(&str, &str); 3] = [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];
    let kind = text(&subject["kind"]);
    let Some((_, own)) = KINDS.into_iter().find(|(name, _)| *name == kind) else {
        return judge.not_supported(kind, &KINDS.map(|(name, _)| name), &format!("{path}.kind"));
    };
    let (who, field) = (&subject[own], format!("{path}.{own}"));
    if !who.is_object() {
        judge.required(&field, &format!("{own} is required when subject kind is '{kind}'"));
    } else if kind == "ServiceAccount" {
        check_account(who, &field, judge);
    } else {
        judge.text(&who["name"], &format!("{field}.name"));
    }
    for (name, other) in [KINDS[1], KINDS[2], KINDS[0]] {
        if other != own && subject[other].is_object() {
            let detail = format!("{other} is forbidden when subject kind is not '{name}'");
            judge.forbidden(format!("{path}.{other}"), detail);
        }
    }
}

fn check_account(account: &Value, path: &str, judge: &mut Judge) {
    let (name, namespace) = (text(&account["name"]), text(&account["namespace"]));
    if judge.text(&account["name"], &format!("{path}.name")) && name != "*" {
        judge.faults(name, names::subdomain_faults(name), &format!("{path}.name"));
    }
    if namespace.is_empty() {
        judge.required(format!("{path}.namespace"), "must specify namespace for service account");
    } else {
        judge.faults(namespace, names::label_faults(namespace), &format!("{path}.namespace"));
    }
}

/// A list of at least one item, and of no other beside a star; whether its items are to be looked at.
fn check_list(list: &Value, none: &str, others: &str, field: &str, judge: &mut Judge) -> bool {
    let all = texts(list);
    let has_star = all.contains(&"*");
    if all.is_empty() {
        judge.required(field, none);
    } else if has_star && all.len() > 1 {
        judge.invalid(field, list.clone(), others);
    }
    !all.is_empty() && !has_star
}

fn check_verbs(rule: &Value, path: &str, judge: &mut Judge) {
    let (verbs, field) = (&rule["verbs"], format!("{path}.verbs"));
    let others = "if '*' is present, must not specify other verbs";
    let plain = check_list(verbs, "verbs must contain at least one value", others, &field, judge);
    if plain && texts(verbs).iter().any(|verb| !VERBS.contains(verb)) {
        let fault = Fault::NotSupported(verbs.clone(), VERBS.map(str::to_owned).to_vec());
        judge.errors.push(FieldError::new(field, fault, ""));
    }
}

fn check_resources(rule: &Value, path: &str, judge: &mut Judge) {
    const LISTS: [(&str, &str, &str); 2] = [
        ("apiGroups", "resource rules must supply at least one api group", "api groups"),
        ("resources", "resource rules must supply at least one resource", "resources"),
    ];
    for (name, none, others) in LISTS {
        let others = format!("if '*' is present, must not specify other {others}");
        check_list(&rule[name], none, &others, &format!("{path}.{name}"), judge);
    }
    let (namespaces, field) = (&rule["namespaces"], format!("{path}.namespaces"));
    if count(namespaces) == 0 && rule["clusterScope"] == true {
        return;
    }
    let none = "resource rules that are not cluster scoped must supply at least one namespace";
    if check_list(namespaces, none, "if '*' is present, must not specify other namespaces", &field, judge) {
        for (place, namespace) in items(namespaces, &field) {
            for fault in names::label_faults(text(namespace)) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {fault}");
                judge.invalid(&place, text(namespace), detail);
            }
        }
    }
}

/// A path, or the beginning of some.
fn check_path(path: &str, field: &str, judge: &mut Judge) {
    let star = path.find('*');
    let ends = star.is_none_or(|at| at + 1 == path.len() && path.ends_with("/*"));
    let detail = match path {
        "" => "must not be empty",
        "/" => return,
        _ if !path.starts_with('/') => "must start with slash",
        _ if path.contains(' ') => "must not contain white-space",
        _ if path.contains("//") => "must not contain double slash",
        _ if !ends => "wildcard can only do suffix matching",
        _ => return,
    };
    judge.invalid(field, path, detail);
}

pub(super) fn check_level(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let (mut judge, mut later) = (Judge::default(), Judge::default());
    let (spec, name) = (&object["spec"], text(&object["metadata"]["name"]));
    let kind = text(&spec["type"]);
    if (name == "exempt") != (kind == "Exempt") {
        judge.invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    let (limited, exempt) = (&spec["limited"], &spec["exempt"]);
    match kind {
        "" => {}
        "Exempt" => {
            check_shares(exempt, "spec.exempt", &mut judge);
            judge.between(&exempt["lendablePercent"], (0, 100), "spec.exempt.lendablePercent");
        }
        "Limited" => {
            if limited.is_object() {
                check_limited(limited, &mut judge);
            } else {
                later.required("spec.limited", "");
            }
        }
        other => judge.not_supported(other, &["Exempt", "Limited"], "spec.type"),
    }
    for (own, field) in [("Limited", "limited"), ("Exempt", "exempt")] {
        if kind != own && spec[field].is_object() {
            later.forbidden(format!("spec.{field}"), "");
        }
    }
    if kind.is_empty() {
        later.required("spec.type", "");
    }
    check_response(&limited["limitResponse"], limited.is_object(), &mut later);
    judge.errors.extend(later.errors);
    judge.errors
}

/// How much of the server is for a level.
fn check_shares(level: &Value, path: &str, judge: &mut Judge) {
    if let Some(shares) = level["nominalConcurrencyShares"].as_i64().filter(|shares| *shares < 0) {
        judge.invalid(format!("{path}.nominalConcurrencyShares"), shares, "must be a non-negative integer");
    }
}

fn check_limited(limited: &Value, judge: &mut Judge) {
    const FIELD: &str = "spec.limited";
    check_shares(limited, FIELD, judge);
    let response = &limited["limitResponse"];
    match text(&response["type"]) {
        "" | "Reject" => {}
        "Queue" if response["queuing"].is_object() => check_queues(&response["queuing"], judge),
        "Queue" => {}
        other => judge.not_supported(other, &["Queue", "Reject"], &format!("{FIELD}.limitResponse.type")),
    }
    judge.between(&limited["lendablePercent"], (0, 100), &format!("{FIELD}.lendablePercent"));
    if let Some(percent) = limited["borrowingLimitPercent"].as_i64().filter(|percent| *percent < 0) {
        let detail = "if specified, must be a non-negative integer";
        judge.invalid(format!("{FIELD}.borrowingLimitPercent"), percent, detail);
    }
}

/// Which members go with how a level answers what it has no room for.
fn check_response(response: &Value, is_there: bool, judge: &mut Judge) {
    const FIELD: &str = "spec.limited.limitResponse";
    let (kind, queues) = (text(&response["type"]), response["queuing"].is_object());
    if queues && kind != "Queue" {
        judge.forbidden(format!("{FIELD}.queuing"), "");
    }
    if kind.is_empty() && is_there {
        judge.required(format!("{FIELD}.type"), "");
    } else if kind == "Queue" && !queues {
        judge.required(format!("{FIELD}.queuing"), "");
    }
}

fn check_queues(queuing: &Value, judge: &mut Judge) {
    const FIELD: &str = "spec.limited.limitResponse.queuing";
    const NONE: &str = "must be positive";
    let number = |name: &str| queuing[name].as_i64().unwrap_or(0);
    let (length, queues, hand) = (number("queueLengthLimit"), number("queues"), number("handSize"));
    if length <= 0 {
        judge.invalid(format!("{FIELD}.queueLengthLimit"), length, NONE);
    }
    if queues <= 0 {
        judge.invalid(format!("{FIELD}.queues"), queues, NONE);
    } else if queues > QUEUES {
        judge.invalid(format!("{FIELD}.queues"), queues, format!("must not be greater than {QUEUES}"));
    }
    let field = format!("{FIELD}.handSize");
    if hand <= 0 {
        judge.invalid(field, hand, NONE);
    } else if hand > queues {
        judge.invalid(field, hand, format!("should not be greater than queues ({queues})"));
    } else if !can_deal(queues, hand) {
        let detail =
            format!("required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {BITS}");
        judge.invalid(field, hand, detail);
    }
}

/// Whether a hash has room for so many cards from a deck.
fn can_deal(deck: i64, hand: i64) -> bool {
    let mut hands: i64 = 1;
    (0..hand).all(|_| {
        hands = hands.saturating_mul(deck);
        hands <= 1 << BITS
    })
}
