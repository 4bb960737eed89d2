//! Roles whose rules are those of other roles, chosen by their labels.

use std::collections::BTreeMap;

use concert_api::{ObjectKey, meta};
use serde_json::{Value, json};

use crate::Server;
use crate::books::HOUSEKEEPING;
use crate::change::Change;
use crate::kinds;
use crate::target::{Query, Target};

impl Server {
    /// Brings every aggregated role up to those it is made of.
    pub(crate) async fn aggregate_roles(&self) {
        let kinds = self.kinds();
        let Some(resource) = kinds.get(super::GROUP, "clusterroles") else { return };
        let snapshot = self.store().snapshot();
        let roles: Vec<Value> = snapshot
            .range(&kinds::cluster_roles(), None, None)
            .filter_map(|(_, entry)| serde_json::from_slice(&entry.bytes).ok())
            .collect();
        for role in &roles {
            let Some(rules) = aggregated(role, &roles).filter(|rules| role["rules"] != *rules) else { continue };
            let name = meta::text(role, "name");
            let target = Target::stored(resource, &ObjectKey::cluster(name));
            let change = Change::MergePatch(json!({"rules": rules}), Vec::new());
            if let Err(status) = self.update(&target, &Query::own(HOUSEKEEPING), &change).await {
                tracing::warn!(role = name, %status, "a role cannot be aggregated");
            }
        }
    }
}

/// The rules that a role should have; `None` if it is not an aggregated one.
fn aggregated(role: &Value, roles: &[Value]) -> Option<Value> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array()?;
    let mut rules: Vec<Value> = Vec::new();
    for selector in selectors {
        for other in roles.iter().filter(|other| other["metadata"]["name"] != role["metadata"]["name"]) {
            if !selects(selector, &other["metadata"]["labels"]) {
                continue;
            }
            for rule in other["rules"].as_array().into_iter().flatten() {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    Some(rules.into())
}

/// Whether a selector as it stands in objects fits these labels.
fn selects(selector: &Value, labels: &Value) -> bool {
    let exact: BTreeMap<&String, &Value> = selector["matchLabels"].as_object().into_iter().flatten().collect();
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    exact.iter().all(|(key, value)| labels.get(key.as_str()) == Some(value))
        && expressions.into_iter().all(|expression| {
            let found = expression["key"].as_str().and_then(|key| labels.get(key));
            let among =
                || expression["values"].as_array().is_some_and(|values| found.is_some_and(|one| values.contains(one)));
            match expression["operator"].as_str() {
                Some("In") => among(),
                Some("NotIn") => !among(),
                Some("Exists") => found.is_some(),
                Some("DoesNotExist") => found.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_from_roles_with_the_labels_each_once() {
        let role = |name: &str, labels: Value, rules: Value| json!({"metadata": {"name": name, "labels": labels}, "rules": rules});
        let rule = |verb: &str| json!({"verbs": [verb], "apiGroups": [""], "resources": ["pods"]});
        let mut whole = role("whole", json!({"a": "1"}), json!(null));
        whole["aggregationRule"] = json!({"clusterRoleSelectors": [
            {"matchLabels": {"a": "1"}}, {"matchExpressions": [{"key": "b", "operator": "In", "values": ["x", "y"]}]},
        ]});
        let roles = [
            whole.clone(),
            role("one", json!({"a": "1"}), json!([rule("get"), rule("list")])),
            role("two", json!({"b": "y"}), json!([rule("list"), rule("watch")])),
            role("three", json!({"b": "z"}), json!([rule("delete")])),
        ];
        assert_eq!(aggregated(&whole, &roles), Some(json!([rule("get"), rule("list"), rule("watch")])));
        assert_eq!(aggregated(&roles[1], &roles), None);
    }

    #[test]
    fn selectors_select() {
        let labels = json!({"a": "1"});
        for (selector, fits) in [
            (json!({}), true),
            (json!({"matchLabels": {"a": "2"}}), false),
            (json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), true),
            (json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}), false),
            (json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}), false),
            (json!({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["1"]}]}), true),
            (json!({"matchExpressions": [{"key": "a", "operator": "Bogus"}]}), false),
        ] {
            assert_eq!(selects(&selector, &labels), fits, "{selector}");
        }
    }
}
