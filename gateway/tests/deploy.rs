//! The deploy API over real sockets, before a Kubernetes API in memory.

#![allow(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

mod support;

use reqwest::{Method, Response, StatusCode};
use rexec_protocol::frame::FrameKind;
use serde_json::{Value, json};
use support::kubernetes::{Applied, FakeKubernetes};
use support::runtime::FakeRuntime;
use support::zmtp::Caller;
use support::{Settings, TestGateway, http_client};

struct Stage {
    cluster: FakeKubernetes,
    gateway: TestGateway,
    client: reqwest::Client,
}

impl Stage {
    async fn set() -> Self {
        let cluster = FakeKubernetes::start().await;
        let gateway = TestGateway::in_cluster(&cluster, Settings::default()).await;
        Self {
            cluster,
            gateway,
            client: http_client(),
        }
    }

    async fn form(&self, method: Method, path: &str, fields: &[(&str, &str)]) -> (StatusCode, Value) {
        json_of(
            self.client
                .request(method, self.gateway.url(path))
                .form(fields)
                .send()
                .await
                .unwrap(),
        )
        .await
    }

    /// As `ndp_ep` does it: the field is misspelt, and force is always False.
    async fn spawn(&self, token: &str, lines: &[&str], force: &str) -> (StatusCode, Value) {
        let mut fields: Vec<(&str, &str)> = lines.iter().map(|line| ("requirments", *line)).collect();
        fields.extend([("force_reinstall", force), ("token", token)]);
        self.form(Method::POST, "/rexec/spawn", &fields).await
    }

    async fn terminate(&self, token: &str) -> (StatusCode, Value) {
        self.form(Method::DELETE, "/rexec/terminate", &[("token", token)])
            .await
    }

    async fn json(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let request = self
            .client
            .request(method, self.gateway.url(path))
            .bearer_auth("tok-u1");
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        json_of(request.send().await.unwrap()).await
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        json_of(self.client.get(self.gateway.url(path)).send().await.unwrap()).await
    }
}

async fn json_of(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let text = response.text().await.unwrap();
    (
        status,
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("not JSON: {text}")),
    )
}

fn created(user: &str, name: Option<&str>) -> (StatusCode, Value) {
    let status = format!("Remote Execution server created for user: {user}");
    (
        StatusCode::OK,
        json!({"Status": status, "Username": name, "NDP_Endpoint_membership": null}),
    )
}

fn exists() -> (StatusCode, Value) {
    let status = "remote execution server instance with user-provided requirements exists.";
    (
        StatusCode::OK,
        json!({"Status": status, "Username": "u1@x", "NDP_Endpoint_membership": null}),
    )
}

#[tokio::test]
async fn set_up_makes_an_environment_from_a_requirements_file() {
    let stage = Stage::set().await;
    let answer = stage
        .spawn(
            "tok-u1",
            &["python==3.11", "numpy==2.1.3", "pandas>=2.2"],
            "False",
        )
        .await;
    assert_eq!(answer, created("u1", Some("u1@x")));
    assert_eq!(
        stage.cluster.applied(),
        [Applied {
            name: "u1".to_owned(),
            manager: "rexec-gateway".to_owned(),
            force: false,
            body: json!({
                "apiVersion": "rexec.dev/v1alpha1",
                "kind": "RexecEnvironment",
                "metadata": {"name": "u1", "labels": {"app.kubernetes.io/managed-by": "rexec-gateway"}},
                "spec": {
                    "user": "u1", "python": "3.11", "requirements": ["numpy==2.1.3", "pandas>=2.2"], "operatingMode": "Running",
                },
            }),
        }]
    );
}

#[tokio::test]
async fn a_user_whose_id_is_no_name_gets_a_slug() {
    let stage = Stage::set().await;
    assert_eq!(
        stage.spawn("tok-upper", &["python==3.11"], "False").await,
        created("U.Upper", None)
    );
    let applied = stage.cluster.applied().remove(0);
    assert!(applied.name.starts_with("u-upper-x"), "{}", applied.name);
    assert_eq!(applied.body["spec"]["user"], "U.Upper");
}

#[tokio::test]
async fn the_same_set_is_the_same_environment_and_another_needs_force() {
    let stage = Stage::set().await;
    let runtime = FakeRuntime::start().await;
    stage
        .spawn("tok-u1", &["python==3.11", "numpy", "pandas>=2"], "False")
        .await;
    stage.cluster.serve("u1", "pod-1", runtime.address);
    assert_eq!(
        stage
            .spawn("tok-u1", &["pandas >=2", "NumPy", "python == 3.11"], "False")
            .await,
        exists()
    );
    assert_eq!(stage.cluster.applied().len(), 1);
    let (status, answer) = stage.spawn("tok-u1", &["python==3.11", "scipy"], "False").await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(
        answer["detail"]
            .as_str()
            .unwrap()
            .contains("force_reinstall=True"),
        "{answer}"
    );
    assert_eq!(
        stage.spawn("tok-u1", &["python==3.11", "scipy"], "True").await,
        created("u1", Some("u1@x"))
    );
    assert_eq!(
        stage.cluster.get("u1").unwrap()["spec"]["requirements"],
        json!(["scipy"])
    );
    stage.spawn("tok-u1", &["python==3.11", "scipy"], "True").await;
    assert_eq!(
        stage.cluster.get("u1").unwrap()["spec"]["lock"],
        json!({"revision": 1})
    );
}

#[tokio::test]
async fn terminate_suspends_and_set_up_resumes() {
    let stage = Stage::set().await;
    stage.spawn("tok-u1", &["python==3.11", "numpy"], "False").await;
    let (status, answer) = stage.terminate("tok-u1").await;
    assert_eq!(
        (status, &answer["Status"]),
        (
            StatusCode::OK,
            &json!("Remote Execution server terminated for user: u1")
        )
    );
    let spec = stage.cluster.get("u1").unwrap()["spec"].clone();
    assert_eq!(
        (&spec["operatingMode"], &spec["ttlSecondsAfterSuspended"]),
        (&json!("Suspended"), &json!(604_800))
    );
    let mut caller = Caller::call(stage.gateway.zmtp, "tok-u1").await;
    assert!(
        caller.told_all().await[0]
            .text("message")
            .contains("is suspended")
    );
    let (status, answer) = stage.terminate("tok-u1").await;
    assert_eq!(
        status,
        StatusCode::OK,
        "nothing to terminate is no error: {answer}"
    );
    assert_eq!(
        stage.spawn("tok-u1", &["python==3.11", "numpy"], "False").await,
        created("u1", Some("u1@x"))
    );
    let spec = stage.cluster.get("u1").unwrap()["spec"].clone();
    assert_eq!(
        (&spec["operatingMode"], spec.get("ttlSecondsAfterSuspended")),
        (&json!("Running"), None)
    );
}

#[tokio::test]
async fn a_replacement_by_force_ends_what_runs_in_the_old_one() {
    let stage = Stage::set().await;
    let mut runtime = FakeRuntime::start().await;
    stage.spawn("tok-u1", &["python==3.11", "numpy"], "False").await;
    stage.cluster.serve("u1", "pod-1", runtime.address);
    let _caller = Caller::call(stage.gateway.zmtp, "tok-u1").await;
    let mut running = runtime.call().await.admit().await;
    running.send(FrameKind::Stdout, b"at work").await;
    stage.spawn("tok-u1", &["python==3.11", "scipy"], "True").await;
    assert_eq!(runtime.cancellation().await, running.id);
}

#[tokio::test]
async fn an_environment_that_sleeps_is_woken_by_set_up() {
    let stage = Stage::set().await;
    stage.spawn("tok-u1", &["python==3.11"], "False").await;
    stage.cluster.change("u1", |object| {
        object["status"] = json!({"observedGeneration": 1, "sleeps": 1, "wakes": 0});
    });
    assert_eq!(stage.spawn("tok-u1", &["python==3.11"], "False").await, exists());
    let wish = stage.cluster.applied().pop().unwrap();
    assert_eq!(
        (wish.manager.as_str(), &wish.body["metadata"]["annotations"]),
        ("rexec-gateway-wake", &json!({"rexec.dev/wake": "1"}))
    );
    assert_eq!(
        stage.spawn("tok-u1", &["python==3.11", "scipy"], "False").await,
        created("u1", Some("u1@x"))
    );
}

#[tokio::test]
async fn what_git_made_is_named_and_left_alone() {
    let stage = Stage::set().await;
    stage.cluster.create("from-git", "u1");
    stage.cluster.change("from-git", |object| {
        object["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "flux"});
    });
    assert_eq!(
        stage.spawn("tok-u1", &["python==3.11", "numpy"], "False").await,
        exists()
    );
    for (status, answer) in [
        stage.spawn("tok-u1", &["python==3.11"], "True").await,
        stage.terminate("tok-u1").await,
    ] {
        assert_eq!(status, StatusCode::CONFLICT);
        assert!(
            answer["detail"].as_str().unwrap().contains("managed by flux"),
            "{answer}"
        );
    }
    assert!(stage.cluster.applied().is_empty());
}

#[tokio::test]
async fn bad_requirements_are_refused_with_their_line_before_anything_is_made() {
    let stage = Stage::set().await;
    for (lines, part) in [
        (
            &["python==3.11", "numpy; $(touch /tmp/x)"][..],
            "line 2 (`numpy; $(touch /tmp/x)`)",
        ),
        (&["numpy"], "no python line"),
        (&["python==3.11.*"], "exactly"),
        (&["python==3.11", "a @ https://example.org/a.whl"], "direct URL"),
    ] {
        let (status, answer) = stage.spawn("tok-u1", lines, "False").await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(answer["detail"].as_str().unwrap().contains(part), "{answer}");
    }
    assert!(stage.cluster.applied().is_empty());
}

#[tokio::test]
async fn what_a_form_lacks_is_named_as_the_published_api_names_it() {
    let stage = Stage::set().await;
    let missing = |field: &str| json!({"type": "missing", "loc": ["body", field], "msg": "Field required", "input": null});
    let (status, answer) = stage
        .form(Method::POST, "/rexec/spawn", &[("requirments", "python==3.11")])
        .await;
    assert_eq!(
        (status, answer),
        (
            StatusCode::UNPROCESSABLE_ENTITY,
            json!({"detail": [missing("token")]})
        )
    );
    let (_, answer) = stage
        .form(Method::POST, "/rexec/spawn", &[("token", "tok-u1")])
        .await;
    assert_eq!(answer, json!({"detail": [missing("requirments")]}));
    let (status, answer) = stage.form(Method::DELETE, "/rexec/terminate", &[]).await;
    assert_eq!(
        (status, answer),
        (
            StatusCode::UNPROCESSABLE_ENTITY,
            json!({"detail": [missing("token")]})
        )
    );
}

#[tokio::test]
async fn a_token_may_stand_in_header_or_query_where_a_proxy_drops_the_body() {
    let stage = Stage::set().await;
    let deletes = stage
        .client
        .delete(stage.gateway.url("/rexec/terminate"))
        .bearer_auth("tok-u1")
        .send();
    assert_eq!(deletes.await.unwrap().status(), StatusCode::OK);
    let deletes = stage
        .client
        .delete(stage.gateway.url("/rexec/terminate?token=tok-u1"))
        .send();
    assert_eq!(deletes.await.unwrap().status(), StatusCode::OK);
    assert_eq!(stage.terminate("guess").await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn clients_are_told_where_everything_is() {
    let stage = Stage::set().await;
    let base = stage.gateway.url("");
    assert_eq!(
        stage.get("/status/rexec").await,
        (StatusCode::OK, json!({"deployment_api_url": base}))
    );
    let port = stage.gateway.zmtp.port();
    let expected = json!({
        "broker_external_host": "127.0.0.1", "broker_external_port": port, "broker_external_url": format!("127.0.0.1:{port}"),
    });
    assert_eq!(
        stage.get("/rexec/broker-config").await,
        (StatusCode::OK, expected)
    );
    assert_eq!(
        stage.get("/").await,
        (StatusCode::OK, json!("API is running successfully."))
    );
    assert_eq!(stage.get("/status/").await.0, StatusCode::OK);
}

#[tokio::test]
async fn wrong_urls_and_methods_are_answered_in_json_too() {
    let stage = Stage::set().await;
    assert_eq!(
        stage.get("/nothing").await,
        (StatusCode::NOT_FOUND, json!({"detail": "Not Found"}))
    );
    assert_eq!(
        stage.get("/rexec/spawn").await,
        (
            StatusCode::METHOD_NOT_ALLOWED,
            json!({"detail": "Method Not Allowed"})
        )
    );
    let (status, answer) = stage.get("/v1/nothing").await;
    assert_eq!(
        (status, &answer["error"]["code"]),
        (StatusCode::NOT_FOUND, &json!("not_found"))
    );
    let (status, answer) = stage.json(Method::POST, "/v1/environment", None).await;
    assert_eq!(
        (status, &answer["error"]["code"]),
        (StatusCode::METHOD_NOT_ALLOWED, &json!("method_not_allowed"))
    );
}

#[tokio::test]
async fn the_json_api_sets_up_shows_and_terminates() {
    let stage = Stage::set().await;
    let (status, answer) = stage.json(Method::GET, "/v1/environment", None).await;
    assert_eq!(
        (status, &answer["error"]["code"]),
        (StatusCode::NOT_FOUND, &json!("not_found"))
    );
    let wanted = json!({"python": "3.11", "requirements": ["numpy"]});
    let (status, answer) = stage
        .json(Method::PUT, "/v1/environment", Some(wanted.clone()))
        .await;
    assert_eq!(
        (status, &answer["state"], &answer["ready"]),
        (StatusCode::CREATED, &json!("Starting"), &json!(false))
    );
    assert_eq!(
        stage.json(Method::PUT, "/v1/environment", Some(wanted)).await.0,
        StatusCode::OK
    );
    stage.cluster.change("u1", |object| {
        object["status"] = json!({"observedGeneration": 1, "conditions": [{
            "type": "Ready", "status": "True", "reason": "Serving", "message": "Calls are served.",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]});
    });
    let (_, answer) = stage.json(Method::GET, "/v1/environment", None).await;
    assert_eq!(
        (&answer["state"], &answer["ready"]),
        (&json!("Serving"), &json!(true))
    );
    assert_eq!(answer["conditions"][0]["type"], "Ready");
    let (status, answer) = stage.json(Method::DELETE, "/v1/environment", None).await;
    assert_eq!(
        (status, &answer["operatingMode"]),
        (StatusCode::OK, &json!("Suspended"))
    );
}

#[tokio::test]
async fn the_json_api_says_what_is_wrong() {
    let stage = Stage::set().await;
    for (wanted, part) in [
        (json!({"python": "3"}), "exact version"),
        (json!({"python": "3.11; os_name"}), "exact version"),
        (
            json!({"python": "3.11", "requirements": ["python==3.11"]}),
            "names Python",
        ),
        (json!({"python": "3.11", "requirments": []}), "requirments"),
        (json!([]), "The body"),
    ] {
        let (status, answer) = stage.json(Method::PUT, "/v1/environment", Some(wanted)).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(
            answer["error"]["message"].as_str().unwrap().contains(part),
            "{answer}"
        );
    }
    let (status, answer) = stage.get("/v1/environment").await;
    assert_eq!(
        (status, &answer["error"]["code"]),
        (StatusCode::UNAUTHORIZED, &json!("unauthorized"))
    );
}
