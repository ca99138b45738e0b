//! Calls over HTTP, over real sockets.

#![allow(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

mod support;

use std::time::Duration;

use futures::StreamExt as _;
use reqwest::{Body, RequestBuilder, Response, StatusCode};
use rexec_protocol::error::RefusalCode;
use rexec_protocol::event::Ending;
use rexec_protocol::frame::{Frame, FrameDecoder, FrameKind};
use serde_json::{Value, json};
use support::kubernetes::FakeKubernetes;
use support::runtime::FakeRuntime;
use support::{Settings, TestGateway, http_client, soon};

fn call(gateway: &TestGateway, body: impl Into<Body>) -> RequestBuilder {
    let request = http_client().post(gateway.url("/v1/calls")).bearer_auth("tok-u1");
    request
        .header("content-type", "application/vnd.rexec.call")
        .body(body)
}

async fn frames(response: Response) -> Vec<Frame> {
    let mut decoder = FrameDecoder::default();
    decoder.push(&response.bytes().await.unwrap());
    std::iter::from_fn(|| decoder.next_frame().unwrap()).collect()
}

async fn problem(response: Response) -> (StatusCode, String, String) {
    let status = response.status();
    let body: Value = response.json().await.unwrap();
    let text = |key: &str| body["error"][key].as_str().unwrap_or_default().to_owned();
    (status, text("code"), text("message"))
}

#[tokio::test]
async fn a_call_is_passed_on_and_its_frames_come_back() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let request = call(&gateway, "function and arguments")
        .header("rexec-call-id", "mine-1")
        .header("rexec-python-version", "3.11");
    let sending = tokio::spawn(request.send());
    let received = runtime.call().await;
    assert_eq!(
        (
            received.header("rexec-call-id"),
            received.header("rexec-python-version")
        ),
        ("mine-1", "3.11")
    );
    assert_eq!(
        received.header("authorization"),
        "",
        "the caller's token stays here"
    );
    let mut running = received.admit().await;
    assert_eq!(running.body().await, "function and arguments");
    running.send(FrameKind::Stdout, b"hi").await;
    running.succeed().await;
    let response = sending.await.unwrap().unwrap();
    assert_eq!(response.headers()["rexec-call-id"], "mine-1");
    assert_eq!(response.headers()["content-type"], "application/vnd.rexec.stream");
    let kinds: Vec<FrameKind> = frames(response).await.iter().map(|frame| frame.kind).collect();
    assert_eq!(
        kinds,
        [
            FrameKind::State,
            FrameKind::Stdout,
            FrameKind::Result,
            FrameKind::Ending
        ]
    );
}

#[tokio::test]
async fn for_curl_the_frames_are_lines_of_json() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let sending = tokio::spawn(
        call(&gateway, "x")
            .header("accept", "application/x-ndjson")
            .send(),
    );
    let mut running = runtime.call().await.admit().await;
    running.body().await;
    running.send(FrameKind::Stdout, b"hi\n").await;
    running.succeed().await;
    let text = sending.await.unwrap().unwrap().text().await.unwrap();
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events[1], json!({"event": "stdout", "text": "hi\n"}));
    assert_eq!(
        events.last().unwrap(),
        &json!({"event": "ending", "state": "succeeded"})
    );
}

#[tokio::test]
async fn a_call_that_waits_keeps_its_body_and_is_told_that_somebody_is_there() {
    let mut old = FakeRuntime::start().await;
    let mut new = FakeRuntime::start().await;
    let cluster = FakeKubernetes::start().await;
    cluster.create("u1", "u1");
    cluster.serve("u1", "pod-1", old.address);
    let gateway = TestGateway::in_cluster(&cluster, Settings::default()).await;
    let (read, mut told_read) = tokio::sync::mpsc::unbounded_channel();
    let pieces = futures::stream::iter(0..64).map(move |_| {
        let _ = read.send(());
        Ok::<_, std::io::Error>(vec![7u8; 1 << 20])
    });
    let sending = tokio::spawn(call(&gateway, Body::wrap_stream(pieces)).send());
    tokio::spawn(async move {
        loop {
            old.call().await.refuse(RefusalCode::Draining, "about to stop");
        }
    });
    let mut response = soon(sending).await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(soon(response.chunk()).await.unwrap().unwrap(), "K\0\0\0\0");
    let read_so_far = std::iter::from_fn(|| told_read.try_recv().ok()).count();
    assert!(
        read_so_far < 32,
        "{read_so_far} MiB were read before the call's turn"
    );
    cluster.serve("u1", "pod-2", new.address);
    let mut running = new.call().await.admit().await;
    assert_eq!(running.body().await.len(), 64 << 20);
    running.succeed().await;
    let rest = frames(response).await;
    assert_eq!(rest.last().unwrap().kind, FrameKind::Ending);
    assert_eq!(
        serde_json::from_slice::<Ending>(&rest.last().unwrap().payload).unwrap(),
        Ending::succeeded()
    );
}

#[tokio::test]
async fn refusals_have_a_status_a_code_and_a_sentence() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let sending = tokio::spawn(call(&gateway, "x").send());
    runtime
        .call()
        .await
        .refuse(RefusalCode::PythonMismatch, "This server runs Python 3.12.");
    let (status, code, message) = problem(sending.await.unwrap().unwrap()).await;
    assert_eq!(
        (status, code.as_str(), message.as_str()),
        (
            StatusCode::CONFLICT,
            "python_mismatch",
            "This server runs Python 3.12."
        )
    );
    let (status, code, _) = problem(
        http_client()
            .post(gateway.url("/v1/calls"))
            .bearer_auth("guess")
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(
        (status, code.as_str()),
        (StatusCode::UNAUTHORIZED, "unauthorized")
    );
    for (header, value, expected) in [
        ("content-type", "text/plain", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ("rexec-call-id", "a b", StatusCode::BAD_REQUEST),
        ("rexec-hold-seconds", "1e9", StatusCode::BAD_REQUEST),
    ] {
        let client = http_client().post(gateway.url("/v1/calls")).bearer_auth("tok-u1");
        let request = if header == "content-type" {
            client
        } else {
            client.header("content-type", "application/vnd.rexec.call")
        };
        assert_eq!(
            request.header(header, value).send().await.unwrap().status(),
            expected,
            "{header}"
        );
    }
}

#[tokio::test]
async fn a_call_that_nobody_takes_in_time_ends_with_the_literal() {
    let cluster = FakeKubernetes::start().await;
    let gateway = TestGateway::in_cluster(&cluster, Settings::default()).await;
    let (status, code, message) = problem(call(&gateway, "x").send().await.unwrap()).await;
    assert_eq!(
        (status, code.as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    );
    assert_eq!(message, "Server not ready/available for user u1.");
    cluster.create("u1", "u1");
    let response = call(&gateway, "x")
        .header("rexec-hold-seconds", "1.5")
        .send()
        .await
        .unwrap();
    let last = frames(response).await.pop().unwrap();
    let ending: Ending = serde_json::from_slice(&last.payload).unwrap();
    assert_eq!(
        ending.error.unwrap().message,
        "Server not ready/available for user u1."
    );
}

#[tokio::test]
async fn a_caller_that_goes_away_ends_the_call() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let sending = tokio::spawn(call(&gateway, "x").send());
    let mut running = runtime.call().await.admit().await;
    running.body().await;
    let response = sending.await.unwrap().unwrap();
    drop(response);
    running.abandoned().await;
}

#[tokio::test]
async fn a_call_whose_server_is_lost_ends_as_lost() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let sending = tokio::spawn(call(&gateway, "x").send());
    let running = runtime.call().await.admit().await;
    drop(running);
    let last = frames(sending.await.unwrap().unwrap()).await.pop().unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&last.payload).unwrap()["state"],
        "lost"
    );
}

#[tokio::test]
async fn a_call_is_cancelled_by_its_id() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let deleting = http_client()
        .delete(gateway.url("/v1/calls/mine-1"))
        .bearer_auth("tok-u1")
        .send();
    assert_eq!(deleting.await.unwrap().status(), StatusCode::ACCEPTED);
    assert_eq!(runtime.cancellation().await, "mine-1");
    let nobody = http_client()
        .delete(gateway.url("/v1/calls/mine-1"))
        .timeout(Duration::from_secs(5))
        .send();
    assert_eq!(nobody.await.unwrap().status(), StatusCode::UNAUTHORIZED);
}
