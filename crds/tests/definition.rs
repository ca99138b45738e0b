//! What the definition accepts, refuses and fills in. Its rules are run here by kube's CEL; the real API server has the last word
//! in the end-to-end tests.

use kube::core::cel::{Validator, apply_defaults};
use serde_json::{Value, json};

fn schema() -> Value {
    let crd = serde_json::to_value(rexec_crds::schema::environment()).expect("JSON");
    crd.pointer("/spec/versions/0/schema/openAPIV3Schema")
        .expect("a schema")
        .clone()
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "rexec.dev/v1alpha1", "kind": "RexecEnvironment", "metadata": {"name": "e"}, "spec": spec})
}

fn refusal(spec: &Value, old: Option<&Value>) -> Option<String> {
    let old = old.map(object);
    let errors = Validator::new()
        .validate(&schema(), &object(spec), old.as_ref())
        .err()?;
    Some(
        errors
            .into_iter()
            .map(|error| error.to_string())
            .collect::<Vec<_>>()
            .join("; "),
    )
}

fn python(version: &str) -> Option<String> {
    refusal(&json!({"user": "u", "python": version}), None)
}

#[test]
fn exact_pythons_from_3_9_on_are_taken() {
    for version in ["3.9", "3.10", "3.11.7", "3.14", "3.100", "4.0"] {
        assert_eq!(python(version), None, "{version}");
    }
}

#[test]
fn inexact_and_old_pythons_are_refused_with_a_sentence() {
    for version in ["3", "3.11.*", "3.x", ">=3.11", "3.11rc1", "3.11.1.1", "", "v3.11"] {
        let message = python(version).unwrap_or_else(|| panic!("{version} was taken"));
        assert!(
            message.contains("must be an exact version"),
            "{version}: {message}"
        );
    }
    for version in ["3.8", "3.8.18", "2.7", "3.0", "0.9"] {
        let message = python(version).unwrap_or_else(|| panic!("{version} was taken"));
        assert!(message.contains("must be 3.9 or later"), "{version}: {message}");
    }
}

#[test]
fn the_user_cannot_be_changed() {
    let old = json!({"user": "alice", "python": "3.11"});
    assert_eq!(
        refusal(&json!({"user": "alice", "python": "3.12"}), Some(&old)),
        None
    );
    let message = refusal(&json!({"user": "bob", "python": "3.11"}), Some(&old)).expect("refused");
    assert!(message.contains("user cannot be changed"), "{message}");
}

#[test]
fn requirement_lines_have_a_bound_together() {
    let lines =
        |count: usize| json!({"user": "u", "python": "3.11", "requirements": vec!["a".repeat(512); count]});
    assert_eq!(refusal(&lines(256), None), None);
    let message = refusal(&lines(257), None).expect("refused");
    assert!(message.contains("more than 131072 characters"), "{message}");
}

#[test]
fn every_text_list_and_map_of_the_spec_is_bounded() {
    let schema = schema();
    let spec = schema.pointer("/properties/spec").expect("spec");
    let mut unbounded = Vec::new();
    walk(spec, "spec", &mut unbounded);
    assert_eq!(unbounded, Vec::<String>::new());
}

fn walk(schema: &Value, path: &str, unbounded: &mut Vec<String>) {
    let has = |key: &str| schema.get(key).is_some();
    let bounded = match schema.get("type").and_then(Value::as_str) {
        Some("string") => has("maxLength") || has("enum"),
        Some("array") => has("maxItems"),
        Some("object") => has("properties") || has("maxProperties"),
        _ => true,
    };
    if !bounded {
        unbounded.push(path.to_owned());
    }
    for (name, child) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        walk(child, &format!("{path}.{name}"), unbounded);
    }
    if let Some(items) = schema.get("items") {
        walk(items, &format!("{path}[]"), unbounded);
    }
}

#[test]
fn a_fresh_object_is_never_read_as_done_and_has_a_state() {
    // Twice: unlike the API server, kube's defaulting does not look into a default that it has just filled in.
    let once = apply_defaults(&schema(), &object(&json!({"user": "u", "python": "3.11"})));
    let fresh = apply_defaults(&schema(), &once);
    assert_eq!(fresh.pointer("/status/observedGeneration"), Some(&json!(-1)));
    assert_eq!(fresh.pointer("/status/conditions/0/type"), Some(&json!("Ready")));
    assert_eq!(
        fresh.pointer("/status/conditions/0/status"),
        Some(&json!("Unknown"))
    );
    assert_eq!(
        fresh.pointer("/status/conditions/0/reason"),
        Some(&json!("Pending"))
    );
    assert_eq!(fresh.pointer("/spec/operatingMode"), Some(&json!("Running")));
}

#[test]
fn nothing_is_nullable() {
    assert!(!schema().to_string().contains("nullable"));
}
