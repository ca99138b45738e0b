//! The roles in `config/` against the requests that the code makes: every request is allowed, and every right is used.

mod api;
mod roles;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

use self::api::{FakeApi, Request};
use self::roles::Roles;
use crate::apply::{self, Target};
use crate::events::Events;
use crate::fixtures::{World, pod};
use crate::leader::Leadership;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::observe::{self, Sources};
use crate::plan::{ChildStep, NamespaceStep, Plan, PodStep};
use crate::pod_view::Stage;
use crate::report::{self, Transition};
use crate::validate::validate;
use crate::{keys, run, stores};

const NAMESPACE: &str = "rexec-system";

/// Rights that no request of ours uses: admission looks at this one, when an owner reference blocks its owner's deletion.
const UNUSED: &[(&str, &str)] = &[("update", "rexec.dev/rexecenvironments/finalizers")];

/// Every kind of request that the operator makes, once.
async fn all_requests() -> BTreeSet<Request> {
    let api = FakeApi::default();
    let client = api.client();
    keys::ensure(&Api::<Secret>::namespaced(client.clone(), NAMESPACE))
        .await
        .expect("keys");
    run::api_server(&client).await.expect("addresses");
    lead(&client).await;
    watch(&api, &client).await;
    tell(&client).await;
    pass(&client).await;
    api.requests()
}

async fn lead(client: &Client) {
    let mut leadership = Leadership::seek(client, NAMESPACE, "me").await.expect("a lease");
    leadership.acquired().await.expect("leading");
    leadership.release().await;
}

async fn watch(api: &FakeApi, client: &Client) {
    let (stores, streams) = stores::watch(client);
    let all_watched = async {
        stores.ready().await.expect("filled");
        while api
            .requests()
            .iter()
            .filter(|request| request.verb == "watch")
            .count()
            < stores::KINDS
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = fill(streams) => panic!("a watch has ended"),
        () = all_watched => {}
    }
}

/// Polls all streams.
async fn fill(streams: stores::Streams) {
    use futures::StreamExt as _;
    let stores::Streams {
        environments,
        namespaces,
        pods,
        nodes,
        service_accounts,
        quotas,
        limit_ranges,
        policies,
        config_maps,
    } = streams;
    tokio::join!(
        environments.for_each(ignore),
        namespaces.for_each(ignore),
        pods.for_each(ignore),
        nodes.for_each(ignore),
        service_accounts.for_each(ignore),
        quotas.for_each(ignore),
        limit_ranges.for_each(ignore),
        policies.for_each(ignore),
        config_maps.for_each(ignore),
    );
}

async fn ignore<T>(_: T) {}

async fn tell(client: &Client) {
    let (events, sending) = Events::new(client.clone(), Arc::new(Metrics::default()));
    let transition = Transition {
        reason: "Serving".into(),
        message: "why".into(),
        is_warning: false,
    };
    for _ in 0..2 {
        events.tell(&World::fresh().environment, &transition);
    }
    drop(events);
    sending.await;
}

/// Plans that have, together, every step that there is.
async fn pass(client: &Client) {
    let world = World::fresh();
    let memory = Memory::default();
    let valid = validate(&world.environment, &world.settings).expect("valid");
    let (stores, _streams) = stores::watch(client);
    let sources = Sources {
        client,
        stores: &stores,
        memory: &memory,
        live: true,
    };
    observe::observe(sources, &world.environment)
        .await
        .expect("observed");

    let target = Target {
        client,
        memory: &memory,
        owner: &valid.owner,
    };
    for plan in every_step(&world) {
        apply::apply(&target, &plan).await.expect("applied");
    }
    let status = rexec_crds::RexecEnvironmentStatus::default();
    report::write(client, &world.environment, &status)
        .await
        .expect("written");
}

fn every_step(fresh: &World) -> Vec<Plan> {
    let first = fresh.plan();
    // The cache shows none of them, although they are there by now: each is looked at before it is applied again.
    let again = Plan {
        namespace_step: NamespaceStep::Leave,
        ..first.clone()
    };
    let NamespaceStep::Create(namespace) = first.namespace_step.clone() else {
        panic!("a fresh environment")
    };
    let drifted = NamespaceStep::Apply(namespace, "uid".into());
    let strays = first.child_steps.iter().filter_map(|step| match step {
        ChildStep::Apply { child, .. } if child.immutable => Some(ChildStep::Delete {
            id: child.id.clone(),
            uid: "uid".into(),
        }),
        ChildStep::Apply { .. } | ChildStep::Delete { .. } => None,
    });
    let cleaned = Plan {
        namespace_step: drifted,
        child_steps: strays.collect(),
        ..first.clone()
    };
    let created = World::prepared().plan();
    let uid = pod(Stage::Booting).uid;
    let forced = PodStep::ForceDelete {
        uid,
        node: "node-1".into(),
    };
    // Created a second time, it is found to be there.
    let pods = [
        created.clone(),
        created,
        Plan {
            pod_step: forced,
            ..World::prepared().plan()
        },
    ];
    [first, again, cleaned].into_iter().chain(pods).collect()
}

#[tokio::test]
async fn every_request_is_allowed_and_every_right_is_used() {
    let requests = all_requests().await;
    let roles = Roles::of_the_operator();
    let refused: Vec<_> = requests.iter().filter(|request| !roles.allow(request)).collect();
    assert!(
        refused.is_empty(),
        "the roles in config/rbac do not allow: {refused:#?}"
    );
    let idle: Vec<_> = roles
        .rights()
        .into_iter()
        .filter(|(verb, resource)| !UNUSED.contains(&(verb.as_str(), resource.as_str())))
        .filter(|right| !requests.iter().any(|request| request.right() == *right))
        .collect();
    assert!(
        idle.is_empty(),
        "the roles in config/rbac allow what nothing asks for: {idle:#?}"
    );
}

#[test]
fn no_role_has_a_wildcard() {
    for rule in roles::all_rules() {
        assert!(!rule.text().contains('*'), "{}: {}", rule.file, rule.text());
    }
}

#[test]
fn secrets_are_created_or_read_by_name_and_nothing_else() {
    for rule in roles::all_rules()
        .iter()
        .filter(|rule| rule.has_resource("secrets"))
    {
        let only_create = rule.verbs == ["create"];
        let only_get_by_name = rule.verbs == ["get"] && !rule.resource_names.is_empty();
        assert!(
            rule.is_namespaced && (only_create || only_get_by_name),
            "{}: {}",
            rule.file,
            rule.text()
        );
    }
}

/// kustomize writes the hashed name of a generated ConfigMap wherever its plain name stands.
#[test]
fn no_generated_config_map_has_the_name_of_something_that_a_role_allows() {
    let generated: Vec<String> = roles::generated_config_maps();
    assert!(generated.len() >= 2, "{generated:?}");
    for rule in roles::all_rules() {
        assert!(
            !rule.resource_names.iter().any(|name| generated.contains(name)),
            "{}: {}",
            rule.file,
            rule.text()
        );
    }
}

#[test]
fn no_role_is_aggregated_into_others() {
    for (file, text) in roles::all_texts() {
        assert!(
            !text.contains("aggregate-to-") && !text.contains("aggregationRule"),
            "{file}"
        );
    }
}

#[tokio::test]
async fn op_f18b_every_pass_that_waits_for_the_caches_goes_on_when_they_are_filled() {
    let (stores, streams) = stores::watch(&FakeApi::default().client());
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            tokio::spawn({
                let stores = stores.clone();
                async move { stores.ready().await }
            })
        })
        .collect();
    tokio::task::yield_now().await;
    let filling = tokio::spawn(fill(streams));
    for pass in waiting {
        assert_eq!(pass.await.expect("no panic"), Ok(()));
    }
    assert!(stores.is_ready());
    filling.abort();
}
