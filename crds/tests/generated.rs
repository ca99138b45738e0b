//! What is generated from the types is what is committed.

use std::path::Path;

fn committed(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_committed_definition_is_the_generated_one() {
    let path = "config/crd/bases/rexec.dev_rexecenvironments.yaml";
    assert!(
        committed(path) == rexec_crds::schema::yaml(),
        "{path} is out of date: run `make generate`"
    );
}

#[test]
fn the_committed_page_of_conditions_is_the_generated_one() {
    let path = "docs/reference/conditions.md";
    assert!(
        committed(path) == rexec_crds::conditions::reference(),
        "{path} is out of date: run `make generate`"
    );
}
