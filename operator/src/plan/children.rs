//! What is done with the objects in the namespace.

use rexec_crds::environment::OperatingMode;

use super::Context;
use crate::children::config_maps::{REQUIREMENTS_PREFIX, requirements_name};
use crate::children::{self, Child, Id, Kind, limits};
use crate::drift;
use crate::names::{KEYS, Owner};
use crate::observed::{Observed, PodFact};
use crate::settings::Settings;
use crate::validate::Valid;

/// One thing to do with one object.
#[derive(Clone, Debug, PartialEq)]
pub enum ChildStep {
    /// It is applied.
    Apply {
        /// As it is to be.
        child: Child,
        /// UID of the object that is there; absent where none was seen.
        uid: Option<String>,
    },
    /// It is no longer needed, and deleted.
    Delete {
        /// Which.
        id: Id,
        /// Its UID.
        uid: String,
    },
}

/// An object that has a name which the operator would use, and is not its own.
pub(super) fn foreign<'a>(observed: &'a Observed, valid: &Valid) -> Option<&'a Id> {
    let requirements = requirements_name(&valid.requirements);
    let is_wanted = |id: &Id| id.kind != Kind::ConfigMap || id.name == KEYS || id.name == requirements;
    observed
        .children
        .iter()
        .find(|(id, live)| !live.ours && is_wanted(id))
        .map(|(id, _)| id)
}

/// The quota as it is to be.
pub(super) fn quota(context: &Context<'_>) -> Child {
    Child::new(
        Kind::ResourceQuota,
        &limits::quota(&context.valid.owner, &context.valid.size),
    )
}

/// All that must be done to have the objects as they should be: nothing where they are.
pub(super) fn steps(context: &Context<'_>) -> Vec<ChildStep> {
    let wanted = children::all(context.valid, context.settings);
    let applied = wanted
        .into_iter()
        .filter_map(|child| apply(context.observed, child));
    applied.chain(strays(context)).collect()
}

/// The same for those that do not depend on the spec.
pub(super) fn independent_steps(owner: &Owner, observed: &Observed, settings: &Settings) -> Vec<ChildStep> {
    let wanted = children::independent(owner, settings).into_iter();
    wanted.filter_map(|child| apply(observed, child)).collect()
}

fn apply(observed: &Observed, child: Child) -> Option<ChildStep> {
    match observed.children.get(&child.id) {
        None => Some(ChildStep::Apply { child, uid: None }),
        Some(live) if child.immutable || !live.ours => None,
        Some(live) if drift::differs(&child.body, &live.body) => {
            let uid = Some(live.uid.clone());
            Some(ChildStep::Apply { child, uid })
        }
        Some(_) => None,
    }
}

/// Requirements of earlier specs, once no pod can read them any more.
fn strays(context: &Context<'_>) -> impl Iterator<Item = ChildStep> {
    let wanted = requirements_name(&context.valid.requirements);
    let in_use = match &context.observed.pod {
        PodFact::Absent => false,
        PodFact::Ours(view) => view
            .template
            .as_ref()
            .is_none_or(|template| template.user != context.valid.template.user),
        PodFact::Foreign => true,
    };
    let suspended = context.valid.mode == OperatingMode::Suspended;
    context
        .observed
        .children
        .iter()
        .filter(move |(id, live)| {
            let is_stray =
                id.kind == Kind::ConfigMap && id.name.starts_with(REQUIREMENTS_PREFIX) && id.name != wanted;
            is_stray && live.ours && !in_use && !suspended
        })
        .map(|(id, live)| ChildStep::Delete {
            id: id.clone(),
            uid: live.uid.clone(),
        })
}
