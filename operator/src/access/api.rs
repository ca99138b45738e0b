//! An API server that takes every request, keeps what it is given, and writes down what was asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use http::{Method, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

/// A request, as access rules see it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Request {
    pub(super) verb: &'static str,
    pub(super) group: String,
    /// With its subresource: `pods`, `rexecenvironments/status`.
    pub(super) resource: String,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
}

impl Request {
    /// Verb and resource, without whose.
    pub(super) fn right(&self) -> (String, String) {
        (self.verb.to_owned(), format!("{}/{}", self.group, self.resource))
    }
}

/// The API server.
#[derive(Clone, Default)]
pub(super) struct FakeApi {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    requests: BTreeSet<Request>,
    objects: BTreeMap<String, Value>,
}

impl FakeApi {
    /// A client of it.
    pub(super) fn client(&self) -> Client {
        let state = Arc::clone(&self.state);
        let service = service_fn(move |request: http::Request<Body>| {
            let state = Arc::clone(&state);
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.expect("a body");
                let is_watch = head.uri.query().is_some_and(|query| query.contains("watch=true"));
                if is_watch {
                    state.lock().expect("not poisoned").note("watch", head.uri.path());
                    // Nothing ever changes here.
                    std::future::pending::<()>().await;
                }
                let given = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let (code, answer) =
                    state
                        .lock()
                        .expect("not poisoned")
                        .answer(&head.method, head.uri.path(), given);
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, std::convert::Infallible>(
                    Response::builder().status(code).body(answer).expect("a response"),
                )
            }
        });
        Client::new(service, "default")
    }

    /// All requests so far.
    pub(super) fn requests(&self) -> BTreeSet<Request> {
        self.state.lock().expect("not poisoned").requests.clone()
    }
}

/// Group, namespace, resource, name and subresource of a path.
struct Path {
    group: String,
    namespace: Option<String>,
    resource: String,
    name: Option<String>,
    subresource: Option<String>,
}

impl Path {
    fn parse(path: &str) -> Self {
        let mut parts = path.trim_matches('/').split('/');
        let group = match parts.next() {
            Some("apis") => parts.next().unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        let mut rest: Vec<String> = parts.skip(1).map(str::to_owned).collect();
        // `namespaces/x` is a namespace, `namespaces/x/pods` is what is in it.
        let namespace = (rest.len() > 2 && rest[0] == "namespaces").then(|| {
            rest.remove(0);
            rest.remove(0)
        });
        let mut rest = rest.into_iter();
        let (resource, name, subresource) = (rest.next().unwrap_or_default(), rest.next(), rest.next());
        Self {
            group,
            namespace,
            resource,
            name,
            subresource,
        }
    }
}

impl State {
    fn note(&mut self, verb: &'static str, path: &str) {
        let Path {
            group,
            namespace,
            resource,
            name,
            subresource,
        } = Path::parse(path);
        let resource = subresource.map_or(resource.clone(), |subresource| {
            format!("{resource}/{subresource}")
        });
        self.requests.insert(Request {
            verb,
            group,
            resource,
            namespace,
            name,
        });
    }

    fn answer(&mut self, method: &Method, path: &str, given: Value) -> (StatusCode, Value) {
        let parsed = Path::parse(path);
        match method.as_str() {
            "GET" if parsed.name.is_none() => {
                self.note("list", path);
                (
                    StatusCode::OK,
                    json!({"metadata": {"resourceVersion": "1"}, "items": []}),
                )
            }
            "GET" => {
                self.note("get", path);
                match self.objects.get(path) {
                    Some(object) => (StatusCode::OK, object.clone()),
                    None => (StatusCode::NOT_FOUND, refusal(404, "NotFound")),
                }
            }
            "POST" => self.create(path, given),
            "PATCH" => self.patch(path, &parsed, given),
            "DELETE" => {
                self.note("delete", path);
                (StatusCode::OK, json!({"kind": "Status", "status": "Success"}))
            }
            other => panic!("{other} {path}"),
        }
    }

    fn create(&mut self, path: &str, given: Value) -> (StatusCode, Value) {
        self.note("create", path);
        let name = given
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .expect("a name");
        let key = format!("{path}/{name}");
        if self.objects.contains_key(&key) {
            return (StatusCode::CONFLICT, refusal(409, "AlreadyExists"));
        }
        (StatusCode::CREATED, self.keep(key, given))
    }

    fn patch(&mut self, path: &str, parsed: &Path, given: Value) -> (StatusCode, Value) {
        self.note("patch", path);
        if !self.objects.contains_key(path) && parsed.subresource.is_none() {
            // What an apply creates needs that right, too.
            self.note("create", path);
        }
        let mut object = self.objects.get(path).cloned().unwrap_or(json!({}));
        merge(&mut object, given);
        (StatusCode::OK, self.keep(path.to_owned(), object))
    }

    fn keep(&mut self, key: String, mut object: Value) -> Value {
        object["metadata"]["uid"] = "uid".into();
        object["metadata"]["resourceVersion"] = "2".into();
        if object["spec"].is_null() {
            object.as_object_mut().expect("an object").remove("spec");
        }
        self.objects.insert(key, object.clone());
        // The type of an environment wants a spec even in the answer to a write of its status.
        if object["kind"] == "RexecEnvironment" {
            object["spec"] = json!({"user": "alice", "python": "3.11"});
        }
        object
    }
}

fn merge(object: &mut Value, patch: Value) {
    match patch {
        Value::Object(fields) => {
            if !object.is_object() {
                *object = json!({});
            }
            for (key, value) in fields {
                merge(&mut object[key], value);
            }
        }
        other => *object = other,
    }
}

fn refusal(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason})
}
