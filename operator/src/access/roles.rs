//! The roles as they are in `config/`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use serde_json::Value;

use super::api::Request;

/// One rule of one role.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) file: String,
    pub(super) role: String,
    pub(super) is_namespaced: bool,
    namespace: Option<String>,
    groups: Vec<String>,
    resources: Vec<String>,
    pub(super) resource_names: Vec<String>,
    pub(super) verbs: Vec<String>,
}

impl Rule {
    pub(super) fn has_resource(&self, resource: &str) -> bool {
        self.resources.iter().any(|own| own == resource)
    }

    pub(super) fn text(&self) -> String {
        format!(
            "{:?} {:?} {:?} {:?}",
            self.groups, self.resources, self.resource_names, self.verbs
        )
    }

    fn allows(&self, request: &Request) -> bool {
        let has = |list: &[String], item: &str| list.iter().any(|own| own == item);
        let place = self.namespace.is_none() || self.namespace == request.namespace;
        // What is created has no name yet that a rule could ask for.
        let name = self.resource_names.is_empty()
            || (request.verb != "create"
                && request
                    .name
                    .as_ref()
                    .is_some_and(|name| has(&self.resource_names, name)));
        place
            && name
            && has(&self.groups, &request.group)
            && has(&self.resources, &request.resource)
            && has(&self.verbs, request.verb)
    }
}

/// The rules of one account.
pub(super) struct Roles {
    rules: Vec<Rule>,
}

impl Roles {
    /// Those that the operator's account is bound to: its roles are named after it.
    pub(super) fn of_the_operator() -> Self {
        let rules: Vec<Rule> = all_rules()
            .into_iter()
            .filter(|rule| rule.role.starts_with("rexec-operator"))
            .collect();
        assert!(rules.len() > 10, "the operator's roles were not found");
        Self { rules }
    }

    pub(super) fn allow(&self, request: &Request) -> bool {
        self.rules.iter().any(|rule| rule.allows(request))
    }

    /// Every verb on every resource.
    pub(super) fn rights(&self) -> BTreeSet<(String, String)> {
        let mut rights = BTreeSet::new();
        for rule in &self.rules {
            for (group, resource) in rule
                .groups
                .iter()
                .flat_map(|group| rule.resources.iter().map(move |r| (group, r)))
            {
                rights.extend(
                    rule.verbs
                        .iter()
                        .map(|verb| (verb.clone(), format!("{group}/{resource}"))),
                );
            }
        }
        rights
    }
}

/// Every YAML file below `config/`, with its text.
pub(super) fn all_texts() -> Vec<(String, String)> {
    let config = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace")
        .join("config");
    let mut files = Vec::new();
    collect(&config, &mut files);
    files.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("readable");
        (
            path.strip_prefix(&config)
                .expect("below it")
                .display()
                .to_string(),
            text,
        )
    };
    files.into_iter().map(read).collect()
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
}

/// Every rule of every role below `config/`.
pub(super) fn all_rules() -> Vec<Rule> {
    let mut rules = Vec::new();
    for (file, text) in all_texts() {
        for document in serde_yaml::Deserializer::from_str(&text) {
            let object = Value::deserialize(document).expect("YAML");
            let kind = object["kind"].as_str().unwrap_or_default();
            if matches!(kind, "Role" | "ClusterRole") {
                rules.extend(rules_of(&file, kind == "Role", &object));
            }
        }
    }
    rules
}

fn rules_of(file: &str, is_namespaced: bool, role: &Value) -> Vec<Rule> {
    let texts = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let text = |path: &str| role.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let rules = role["rules"].as_array().expect("rules");
    rules
        .iter()
        .map(|rule| Rule {
            file: file.to_owned(),
            role: text("/metadata/name").expect("a name"),
            is_namespaced,
            namespace: text("/metadata/namespace"),
            groups: texts(&rule["apiGroups"]),
            resources: texts(&rule["resources"]),
            resource_names: texts(&rule["resourceNames"]),
            verbs: texts(&rule["verbs"]),
        })
        .collect()
}

/// Names of the ConfigMaps that the kustomizations below `config/` generate.
pub(super) fn generated_config_maps() -> Vec<String> {
    let mut names = Vec::new();
    for (_, text) in all_texts()
        .into_iter()
        .filter(|(file, _)| file.ends_with("kustomization.yaml"))
    {
        let kustomization: Value = serde_yaml::from_str(&text).expect("YAML");
        let generators = kustomization["configMapGenerator"]
            .as_array()
            .into_iter()
            .flatten();
        names.extend(
            generators
                .filter_map(|generator| generator["name"].as_str())
                .map(str::to_owned),
        );
    }
    names
}
