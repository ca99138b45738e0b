//! A Kubernetes API that knows one kind: list, watch, get and server-side apply, as far as the gateway uses them.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::watch;

const COLLECTION: &str = "/apis/rexec.dev/v1alpha1/rexecenvironments";

/// A server-side apply that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    pub name: String,
    pub manager: String,
    pub force: bool,
    pub body: Value,
}

#[derive(Default)]
struct Store {
    objects: BTreeMap<String, Value>,
    events: Vec<Value>,
    applied: Vec<Applied>,
}

#[derive(Clone)]
pub struct FakeKubernetes {
    store: Arc<Mutex<Store>>,
    version: watch::Sender<usize>,
    address: SocketAddr,
}

impl FakeKubernetes {
    pub async fn start() -> Self {
        let listener = super::local().await;
        let address = listener.local_addr().unwrap();
        let fake = Self {
            store: Arc::default(),
            version: watch::Sender::new(0),
            address,
        };
        let router = Router::new()
            .route(COLLECTION, get(list_or_watch))
            .route(&format!("{COLLECTION}/{{name}}"), get(read).patch(apply))
            .with_state(fake.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        fake
    }

    pub fn client(&self) -> kube::Client {
        super::tls();
        let config = kube::Config::new(format!("http://{}", self.address).parse().unwrap());
        kube::Client::try_from(config).unwrap()
    }

    /// Changes an object as somebody else would; makes it where there is none.
    pub fn change(&self, name: &str, change: impl FnOnce(&mut Value)) -> Value {
        let mut store = self.store.lock().unwrap();
        let version = store.events.len() + 1;
        let new = json!({
            "apiVersion": "rexec.dev/v1alpha1", "kind": "RexecEnvironment",
            "metadata": {"name": name, "uid": format!("uid-{name}-{version}"), "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {},
        });
        let existed = store.objects.contains_key(name);
        let object = store.objects.entry(name.to_owned()).or_insert(new);
        let spec_before = object["spec"].clone();
        change(object);
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        if existed && object["spec"] != spec_before {
            object["metadata"]["generation"] = json!(object["metadata"]["generation"].as_i64().unwrap() + 1);
        }
        let object = object.clone();
        let kind = if existed { "MODIFIED" } else { "ADDED" };
        store.events.push(json!({"type": kind, "object": object}));
        self.version.send_replace(version);
        object
    }

    /// Says in the status what the operator would say once `server` takes calls.
    pub fn serve(&self, name: &str, pod_uid: &str, server: SocketAddr) {
        self.change(name, |object| {
            object["status"] = json!({
                "observedGeneration": object["metadata"]["generation"],
                "server": {"podName": "server", "podUID": pod_uid, "podIP": server.ip().to_string(), "port": server.port()},
            });
        });
    }

    /// An environment of `user`, made by hand and never looked at.
    pub fn create(&self, name: &str, user: &str) {
        self.change(name, |object| {
            object["spec"] = json!({"user": user, "python": "3.11", "requirements": ["numpy"]});
        });
    }

    pub fn get(&self, name: &str) -> Option<Value> {
        self.store.lock().unwrap().objects.get(name).cloned()
    }

    pub fn applied(&self) -> Vec<Applied> {
        self.store.lock().unwrap().applied.clone()
    }

    /// Waits for the `count`th apply.
    pub async fn applied_at_least(&self, count: usize) -> Vec<Applied> {
        let mut version = self.version.subscribe();
        super::soon(async {
            while self.applied().len() < count {
                version.changed().await.unwrap();
            }
        })
        .await;
        self.applied()
    }
}

async fn list_or_watch(
    State(fake): State<FakeKubernetes>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    if query.get("watch").is_none_or(|watch| watch != "true") {
        let store = fake.store.lock().unwrap();
        let items: Vec<&Value> = store.objects.values().collect();
        return Json(json!({
            "apiVersion": "rexec.dev/v1alpha1", "kind": "RexecEnvironmentList",
            "metadata": {"resourceVersion": store.events.len().to_string()},
            "items": items,
        }))
        .into_response();
    }
    let from: usize = query
        .get("resourceVersion")
        .and_then(|version| version.parse().ok())
        .unwrap_or_default();
    let versions = fake.version.subscribe();
    let stream = futures::stream::unfold(
        (fake, versions, from),
        |(fake, mut versions, mut next)| async move {
            loop {
                let event = fake.store.lock().unwrap().events.get(next).cloned();
                if let Some(event) = event {
                    next += 1;
                    return Some((
                        Ok::<_, std::convert::Infallible>(format!("{event}\n")),
                        (fake, versions, next),
                    ));
                }
                versions.changed().await.ok()?;
            }
        },
    );
    Body::from_stream(stream).into_response()
}

async fn read(State(fake): State<FakeKubernetes>, Path(name): Path<String>) -> Response {
    match fake.get(&name) {
        Some(object) => Json(object).into_response(),
        None => failure(
            StatusCode::NOT_FOUND,
            "NotFound",
            &format!("rexecenvironments.rexec.dev \"{name}\" not found"),
        ),
    }
}

async fn apply(
    State(fake): State<FakeKubernetes>,
    Path(name): Path<String>,
    Query(query): Query<HashMap<String, String>>,
    body: String,
) -> Response {
    let body: Value = serde_json::from_str(&body).unwrap();
    let uid = fake.get(&name).map(|object| object["metadata"]["uid"].clone());
    if body["metadata"]
        .get("uid")
        .is_some_and(|wanted| uid.as_ref() != Some(wanted))
    {
        return failure(
            StatusCode::CONFLICT,
            "Conflict",
            "the UID in the precondition is not the object's",
        );
    }
    fake.store.lock().unwrap().applied.push(Applied {
        name: name.clone(),
        manager: query["fieldManager"].clone(),
        force: query.get("force").is_some_and(|force| force == "true"),
        body: body.clone(),
    });
    let object = fake.change(&name, |object| {
        for key in ["labels", "annotations"] {
            for (field, value) in body["metadata"][key].as_object().into_iter().flatten() {
                object["metadata"][key][field] = value.clone();
            }
        }
        if let Some(spec) = body.get("spec") {
            object["spec"] = spec.clone();
        }
    });
    Json(object).into_response()
}

fn failure(status: StatusCode, reason: &str, message: &str) -> Response {
    let body = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure",
        "reason": reason, "message": message, "code": status.as_u16(), "metadata": {},
    });
    (status, Json(body)).into_response()
}
