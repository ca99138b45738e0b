//! Does a live object still say what was applied?

use serde_json::Value;

use crate::quantity::Amount;

/// Whether `live` differs from `desired` in anything that `desired` says. What the API server or others have added is no
/// difference; lists are compared whole. Amounts that are equal in other spellings are equal, since the API server respells them.
pub fn differs(desired: &Value, live: &Value) -> bool {
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => desired.iter().any(|(key, value)| {
            live.get(key)
                .map_or(!is_empty(value), |live| differs(value, live))
        }),
        (Value::Array(desired), Value::Array(live)) => {
            desired.len() != live.len()
                || desired
                    .iter()
                    .zip(live)
                    .any(|(desired, live)| differs(desired, live))
        }
        (Value::String(desired), Value::String(live)) => desired != live && !same_amount(desired, live),
        (desired, live) => desired != live,
    }
}

/// The API server leaves out what is empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(_) | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn same_amount(a: &str, b: &str) -> bool {
    matches!((Amount::parse_text(a), Amount::parse_text(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn additions_and_respelled_amounts_are_no_drift() {
        for (desired, live) in [
            (json!({"a": 1}), json!({"a": 1, "b": 2})),
            (
                json!({"hard": {"memory": "2147483648"}}),
                json!({"hard": {"memory": "2Gi"}}),
            ),
            (json!({"podSelector": {}}), json!({})),
            (json!({"a": [{"x": 1}]}), json!({"a": [{"x": 1, "y": 2}]})),
        ] {
            assert!(!differs(&desired, &live), "{desired} {live}");
        }
    }

    #[test]
    fn changes_removals_and_longer_lists_are_drift() {
        for (desired, live) in [
            (json!({"a": 1}), json!({"a": 2})),
            (json!({"a": 1}), json!({})),
            (json!({"a": [1]}), json!({"a": [1, 2]})),
            (json!({"a": "x"}), json!({"a": "y"})),
            (
                json!({"hard": {"memory": "1Gi"}}),
                json!({"hard": {"memory": "2Gi"}}),
            ),
            (json!({"a": true}), json!({"a": "true"})),
        ] {
            assert!(differs(&desired, &live), "{desired} {live}");
        }
    }
}
