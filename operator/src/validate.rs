//! Step 2: is the spec one that can be followed? The schema has refused most faults already; the rest is found here, all at once.

use rexec_crds::RexecEnvironment;
use rexec_crds::environment::{OperatingMode, RexecEnvironmentSpec};
use rexec_crds::requirements;
use serde_json::json;
use thiserror::Error;

use crate::hash::{self, TemplateHash};
use crate::names::Owner;
use crate::resources::Size;
use crate::settings::Settings;

/// Raised when the pod that this operator builds from the same inputs changes in a way that running pods should take up.
const TEMPLATE_REVISION: u32 = 1;

/// A spec that was judged, with what follows from it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Valid {
    /// Whose it is.
    pub owner: Owner,
    /// Python version.
    pub python: String,
    /// The requirement lines that are installed, sorted, each once, verbatim otherwise.
    pub requirements: Vec<String>,
    /// Requests and limits.
    pub size: Size,
    /// Whether it may run.
    pub mode: OperatingMode,
    /// What the pod is made from.
    pub template: TemplateHash,
}

/// A spec cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}.", .faults.join("; "))]
pub struct Refusal {
    /// All faults, each a sentence that names the field and the remedy.
    pub faults: Vec<String>,
}

/// Judges the spec of `environment`.
///
/// # Errors
/// [`Refusal`] with every fault.
pub fn validate(environment: &RexecEnvironment, settings: &Settings) -> Result<Valid, Refusal> {
    let RexecEnvironmentSpec {
        user: _,
        python,
        requirements,
        lock,
        operating_mode,
        ttl_seconds_after_suspended: _,
        resources,
    } = &environment.spec;
    let mut faults = Vec::new();
    if let Err(fault) = requirements::judge(requirements) {
        faults.push(format!("spec.requirements: {fault}"));
    }
    let size = match Size::from_spec(resources.as_ref()) {
        Ok(size) => Some(size),
        Err(found) => {
            faults.extend(found.into_iter().map(|fault| format!("spec.{fault}")));
            None
        }
    };
    let Some(size) = size.filter(|_| faults.is_empty()) else {
        return Err(Refusal { faults });
    };
    let revision = lock.as_ref().map_or(0, |lock| lock.revision);
    let template = template(python, requirements, revision, &size, settings);
    let owner = Owner::of(environment);
    let requirements = installed_lines(requirements);
    Ok(Valid {
        owner,
        python: python.clone(),
        requirements,
        size,
        mode: *operating_mode,
        template,
    })
}

fn template(python: &str, lines: &[String], revision: i64, size: &Size, settings: &Settings) -> TemplateHash {
    let Settings {
        operator_namespace: _,
        gateway_namespace: _,
        base_image,
        runtime_image,
        index_url,
        egress_allow: _,
        api_server: _,
        key_set: _,
    } = settings;
    let resources = size.requirements();
    TemplateHash {
        user: hash::of(&json!({
            "python": python,
            "requirements": requirements::canonical_set(lines),
            "revision": revision,
            "requests": resources.requests,
            "limits": resources.limits,
        })),
        class: hash::of(&json!({
            "template": TEMPLATE_REVISION,
            "base": base_image,
            "runtime": runtime_image,
            "index": index_url,
        })),
    }
}

/// One line for each member of the canonical set, in its order: the same set gives nearly always the same text.
pub(crate) fn installed_lines(lines: &[String]) -> Vec<String> {
    requirements::canonical_set(lines)
        .into_iter()
        .filter_map(|canonical| {
            let same = |line: &&String| requirements::canonical_set(&[line.as_str()]).contains(&canonical);
            lines.iter().find(same).map(|line| line.trim().to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{environment, settings};

    fn valid(environment: &RexecEnvironment) -> Valid {
        validate(environment, &settings()).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_fault_is_told_with_its_field() {
        let mut environment = environment("alice");
        environment.spec.requirements = vec!["numpy".into(), "python==3.11".into()];
        environment.spec.resources =
            Some(serde_json::from_value(json!({"limits": {"cpu": "x", "gpu": "1"}})).unwrap());
        let refusal = validate(&environment, &settings()).expect_err("faults");
        assert_eq!(refusal.faults.len(), 3, "{refusal}");
        assert!(refusal.faults[0].contains("requirement line 2"), "{refusal}");
        assert!(
            refusal.faults[1].contains("spec.resources.limits.cpu"),
            "{refusal}"
        );
    }

    #[test]
    fn the_same_set_in_another_order_and_spelling_is_the_same_template() {
        let mut one = environment("alice");
        one.spec.requirements = vec![
            "Foo_Bar >= 1".into(),
            "# why".into(),
            "numpy".into(),
            "numpy".into(),
        ];
        let mut other = environment("alice");
        other.spec.requirements = vec!["numpy".into(), "foo-bar>=1".into(), String::new()];
        assert_eq!(valid(&one).template, valid(&other).template);
        assert_eq!(valid(&one).requirements, ["Foo_Bar >= 1", "numpy"]);
    }

    #[test]
    fn what_the_user_decides_is_in_the_user_part_alone() {
        let before = valid(&environment("alice")).template;
        let changes: [fn(&mut RexecEnvironmentSpec); 4] = [
            |spec| spec.python = "3.12".into(),
            |spec| spec.requirements = vec!["numpy".into()],
            |spec| spec.lock = Some(rexec_crds::environment::Lock { revision: 1 }),
            |spec| spec.resources = Some(serde_json::from_value(json!({"limits": {"cpu": "3"}})).unwrap()),
        ];
        for change in changes {
            let mut environment = environment("alice");
            change(&mut environment.spec);
            let after = valid(&environment).template;
            assert_ne!(before.user, after.user, "{:?}", environment.spec);
            assert_eq!(before.class, after.class);
        }
    }

    #[test]
    fn operating_mode_and_time_to_live_are_in_neither_part() {
        let mut changed = environment("alice");
        changed.spec.operating_mode = OperatingMode::Suspended;
        changed.spec.ttl_seconds_after_suspended = Some(60);
        assert_eq!(valid(&changed).template, valid(&environment("alice")).template);
    }

    #[test]
    fn settings_are_in_the_class_part_but_for_network_and_keys() {
        let hash = |change: fn(&mut Settings)| {
            let mut settings = settings();
            change(&mut settings);
            validate(&environment("alice"), &settings)
                .expect("valid")
                .template
        };
        let before = hash(|_| {});
        for change in [
            (|settings| settings.base_image = "other:{python}".into()) as fn(&mut Settings),
            |settings| settings.runtime_image = "other".into(),
            |settings| settings.index_url = Some("http://other".into()),
        ] {
            assert_eq!(before.user, hash(change).user);
            assert_ne!(before.class, hash(change).class);
        }
        assert_eq!(before, hash(|settings| settings.key_set = "{}".into()));
        assert_eq!(
            before,
            hash(|settings| settings.egress_allow = vec!["10.0.0.0/8:80".parse().unwrap()])
        );
    }
}
