//! The ZMTP door over real sockets.

#![allow(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

mod support;

use std::time::{Duration, Instant};

use rexec_protocol::call::CallState;
use rexec_protocol::error::RefusalCode;
use rexec_protocol::event::{CallError, CallErrorCode, Ending};
use rexec_protocol::frame::FrameKind;
use serde_json::json;
use support::kubernetes::FakeKubernetes;
use support::runtime::FakeRuntime;
use support::zmtp::{ARGUMENTS, Caller, FUNCTION, Field, Told, cancel, handshake, message};
use support::{Settings, TestGateway, soon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const LITERAL: &str = "Server not ready/available for user u1.";

fn bare(text: &str) -> Told {
    Told::Bare(text.to_owned())
}

async fn error_of(caller: &mut Caller) -> String {
    let last = caller.told_all().await.pop().unwrap();
    assert_eq!(last.kind(), "ERROR", "{last:?}");
    last.text("message").to_owned()
}

#[tokio::test]
async fn a_call_goes_to_the_runtime_and_its_output_and_result_come_back() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    let call = runtime.call().await;
    assert_eq!(call.header("content-type"), "application/vnd.rexec.call");
    assert_eq!(call.header("accept"), "application/vnd.rexec.stream");
    assert_eq!(
        call.header("content-length"),
        (FUNCTION.len() + ARGUMENTS.len()).to_string()
    );
    assert!(
        !call
            .headers
            .values()
            .any(|value| value.as_bytes().windows(6).any(|part| part == b"tok-u1"))
    );
    let mut running = call.admit().await;
    assert_eq!(running.body().await, [FUNCTION, ARGUMENTS].concat());
    running.send(FrameKind::Stdout, b"hi\n").await;
    running.send(FrameKind::Stderr, b"caf\xc3").await;
    running.send(FrameKind::Stderr, b"\xa9\n").await;
    running.send(FrameKind::Result, b"\x80\x05K\x07.").await;
    running.end(&Ending::succeeded()).await;
    let told = caller.told_all().await;
    let kinds: Vec<&str> = told.iter().map(Told::kind).collect();
    assert_eq!(kinds, ["START", "DATA", "DATA", "DATA", "DATA", "END"]);
    let numbers: Vec<u64> = told
        .iter()
        .map(|event| match event.field("sequence") {
            Some(Field::Integer(number)) => *number,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    assert_eq!(
        (told[1].text("channel"), told[1].text("data")),
        ("stdout", "hi\n")
    );
    assert_eq!(told[2].text("data").to_owned() + told[3].text("data"), "café\n");
    assert_eq!(told[4].field("data"), Some(&Field::Raw(b"K\x07".to_vec())));
}

#[tokio::test]
async fn the_gateway_opens_without_waiting_for_the_caller() {
    let runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let mut caller = Caller::connect(gateway.zmtp).await;
    let mut opening = [0; 107];
    soon(caller.stream.read_exact(&mut opening)).await.unwrap();
    assert_eq!(opening[..12], [0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1]);
    assert!(opening[64..].starts_with(b"\x04\x29\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER"));
}

#[tokio::test]
async fn one_connection_to_the_runtime_serves_call_after_call() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    for _ in 0..5 {
        let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
        let mut running = runtime.call().await.admit().await;
        running.body().await;
        running.succeed().await;
        assert_eq!(caller.told_all().await.last().unwrap().kind(), "END");
    }
}

#[tokio::test]
async fn ctrl_c_cancels_the_call_that_runs() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    let running = runtime.call().await.admit().await;
    assert_eq!(caller.told().await.unwrap().kind(), "START");
    caller.write(&cancel("tok-u1")).await;
    let end = caller.told().await.unwrap();
    assert_eq!((end.kind(), end.field("cancelled")), ("END", Some(&Field::True)));
    assert_eq!(runtime.cancellation().await, running.id);
    running.abandoned().await;
}

#[tokio::test]
async fn a_caller_that_goes_away_without_a_word_cancels_too() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    let running = runtime.call().await.admit().await;
    assert_eq!(caller.told().await.unwrap().kind(), "START");
    drop(caller);
    assert_eq!(runtime.cancellation().await, running.id);
    running.abandoned().await;
}

#[tokio::test]
async fn a_caller_that_goes_away_before_its_call_is_admitted_takes_the_connection_with_it() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let caller = Caller::call(gateway.zmtp, "tok-u1").await;
    let not_admitted = runtime.call().await;
    drop(caller);
    not_admitted.abandoned().await;
}

#[tokio::test]
async fn ctrl_c_ends_a_held_call_with_a_large_argument_at_once_and_it_never_runs() {
    let mut runtime = FakeRuntime::start().await;
    let cluster = FakeKubernetes::start().await;
    cluster.create("u1", "u1");
    let gateway = TestGateway::in_cluster(&cluster, Settings::default()).await;
    let large = vec![7; 32 << 20];
    let mut caller = Caller::call_with(gateway.zmtp, "tok-u1", &large).await;
    let interrupted = Instant::now();
    caller.write(&cancel("tok-u1")).await;
    caller.stream.shutdown().await.unwrap();
    assert_eq!(caller.told_all().await[0].field("cancelled"), Some(&Field::True));
    assert!(
        interrupted.elapsed() < Duration::from_secs(1),
        "{:?}",
        interrupted.elapsed()
    );
    cluster.serve("u1", "pod-1", runtime.address);
    let mut other = Caller::call(gateway.zmtp, "tok-u1").await;
    let mut running = runtime.call().await.admit().await;
    assert_eq!(
        running.body().await.len(),
        FUNCTION.len() + ARGUMENTS.len(),
        "not the call that was given up"
    );
    running.succeed().await;
    other.told_all().await;
    assert!(runtime.no_call());
}

#[tokio::test]
async fn a_large_argument_reaches_the_runtime_whole_while_it_still_comes() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let large: Vec<u8> = (0..8_000_000u32)
        .map(|n| u8::try_from(n % 251).unwrap())
        .collect();
    let expected = [FUNCTION, &large].concat();
    let calling = tokio::spawn(async move { Caller::call_with(gateway.zmtp, "tok-u1", &large).await });
    let mut running = runtime.call().await.admit().await;
    assert!(running.body().await == expected);
    running.succeed().await;
    assert_eq!(
        calling.await.unwrap().told_all().await.last().unwrap().kind(),
        "END"
    );
}

#[tokio::test]
async fn a_large_result_and_a_generators_items_come_back_whole() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    let mut running = runtime.call().await.admit().await;
    let inner = vec![7; 5 << 20];
    running
        .send_result(&[&b"\x80\x05"[..], &inner, b"."].concat())
        .await;
    running.end(&Ending::succeeded()).await;
    let told = caller.told_all().await;
    assert!(told[1].field("data") == Some(&Field::Raw(inner)));

    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    let mut running = runtime.call().await.admit().await;
    running.send(FrameKind::Item, b"\x80\x04K\x01.").await;
    running.send(FrameKind::Item, b"\x80\x04K\x02.").await;
    running.end(&Ending::succeeded()).await;
    let item = |n: u8| {
        [
            &b"cdill\nloads\n\x8e\x05\0\0\0\0\0\0\0\x80\x04K"[..],
            &[n],
            b".\x85R",
        ]
        .concat()
    };
    let list = [&b"]("[..], &item(1), &item(2), b"e"].concat();
    assert_eq!(caller.told_all().await[1].field("data"), Some(&Field::Raw(list)));
}

#[tokio::test]
async fn a_slow_reader_loses_nothing() {
    const PIECES: usize = 400;
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    let mut running = runtime.call().await.admit().await;
    let (blocked, mut told_blocked) = tokio::sync::mpsc::unbounded_channel();
    let writing = tokio::spawn(async move {
        for n in 0..PIECES {
            let piece = format!("{n:06}").repeat(20_000);
            let mut sending = std::pin::pin!(running.send(FrameKind::Stdout, piece.as_bytes()));
            if tokio::time::timeout(Duration::from_millis(200), &mut sending)
                .await
                .is_err()
            {
                let _ = blocked.send(n);
                sending.await;
            }
        }
        running.succeed().await;
    });
    let blocked_at = soon(told_blocked.recv())
        .await
        .expect("the environment is held up before all is written");
    assert!(blocked_at < PIECES);
    let told = caller.told_all().await;
    writing.await.unwrap();
    let text: String = told.iter().map(|event| event.text("data")).collect();
    assert!(
        text == (0..PIECES)
            .map(|n| format!("{n:06}").repeat(20_000))
            .collect::<String>()
    );
    assert_eq!(told.last().unwrap().kind(), "END");
}

#[tokio::test]
async fn failures_are_errors_with_the_runtimes_words() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let mut raised = CallError::new(CallErrorCode::Exception, "no");
    raised.exception_type = Some("ValueError".to_owned());
    raised.traceback = Some("Traceback (most recent call last):\n  …".to_owned());
    let exited = CallError::new(
        CallErrorCode::ProcessExited,
        "Execution process exited unexpectedly with code 3.",
    );
    for (error, message) in [
        (
            raised,
            "An unexpected error occurred: ValueError: no\nTraceback (most recent call last):\n  …",
        ),
        (exited, "Execution process exited unexpectedly with code 3."),
    ] {
        let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
        let running = runtime.call().await.admit().await;
        running.end(&Ending::because(CallState::Failed, error)).await;
        assert_eq!(error_of(&mut caller).await, message);
    }
}

#[tokio::test]
async fn a_call_whose_connection_is_cut_is_lost() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    let mut running = runtime.call().await.admit().await;
    running.send(FrameKind::Stdout, b"so far").await;
    assert_eq!(caller.told().await.unwrap().kind(), "START");
    assert_eq!(caller.told().await.unwrap().text("data"), "so far");
    drop(running);
    assert!(error_of(&mut caller).await.contains("was lost"));
}

#[tokio::test]
async fn a_call_whose_pod_was_replaced_is_lost() {
    let mut runtime = FakeRuntime::start().await;
    let other = FakeRuntime::start().await;
    let cluster = FakeKubernetes::start().await;
    cluster.create("u1", "u1");
    cluster.serve("u1", "pod-1", runtime.address);
    let gateway = TestGateway::in_cluster(&cluster, Settings::default()).await;
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    let _running = runtime.call().await.admit().await;
    cluster.serve("u1", "pod-2", other.address);
    assert!(error_of(&mut caller).await.contains("was lost"));
}

#[tokio::test]
async fn a_call_that_came_back_unrun_is_sent_to_the_next_server() {
    let mut old = FakeRuntime::start().await;
    let mut new = FakeRuntime::start().await;
    let cluster = FakeKubernetes::start().await;
    cluster.create("u1", "u1");
    cluster.serve("u1", "pod-1", old.address);
    let gateway = TestGateway::in_cluster(&cluster, Settings::default()).await;
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    old.call().await.refuse(RefusalCode::Draining, "about to stop");
    let mut queued = old.call().await.admit().await;
    queued.state(CallState::Queued).await;
    cluster.serve("u1", "pod-2", new.address);
    let drained = CallError::new(CallErrorCode::Draining, "about to stop");
    queued.end(&Ending::because(CallState::Cancelled, drained)).await;
    let mut running = new.call().await.admit().await;
    assert_eq!(running.body().await, [FUNCTION, ARGUMENTS].concat());
    running.succeed().await;
    assert_eq!(caller.told_all().await.last().unwrap().kind(), "END");
}

#[tokio::test]
async fn a_call_is_held_until_its_environment_takes_calls_and_sees_that_somebody_is_there() {
    let mut runtime = FakeRuntime::start().await;
    let cluster = FakeKubernetes::start().await;
    cluster.create("by-hand", "u1");
    let gateway = TestGateway::in_cluster(&cluster, Settings::default()).await;
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    caller.commands_until(|caller| caller.pings == 2).await;
    cluster.serve("by-hand", "pod-1", runtime.address);
    let mut running = runtime.call().await.admit().await;
    running.body().await;
    running.succeed().await;
    assert_eq!(caller.told_all().await.last().unwrap().kind(), "END");
}

#[tokio::test]
async fn held_calls_are_sent_in_the_order_in_which_they_came() {
    let mut runtime = FakeRuntime::start().await;
    let cluster = FakeKubernetes::start().await;
    cluster.create("u1", "u1");
    let gateway = TestGateway::in_cluster(&cluster, Settings::default()).await;
    let mut callers = Vec::new();
    for n in 0..4u8 {
        callers.push(Caller::call_with(gateway.zmtp, "tok-u1", &[b'K', n]).await);
        soon(async {
            while gateway.gateway.metrics.held.get() <= i64::from(n) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    cluster.serve("u1", "pod-1", runtime.address);
    for n in 0..4u8 {
        let mut running = runtime.call().await.admit().await;
        assert_eq!(running.body().await[FUNCTION.len()..], [b'K', n]);
        running.succeed().await;
    }
}

#[tokio::test]
async fn an_environment_that_sleeps_is_woken_by_a_call() {
    let mut runtime = FakeRuntime::start().await;
    let cluster = FakeKubernetes::start().await;
    cluster.create("u1", "u1");
    let uid = cluster.get("u1").unwrap()["metadata"]["uid"].clone();
    cluster.change("u1", |object| {
        object["status"] = json!({"observedGeneration": 1, "sleeps": 3, "wakes": 2});
    });
    let gateway = TestGateway::in_cluster(&cluster, Settings::default()).await;
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    let wish = cluster.applied_at_least(1).await.remove(0);
    assert_eq!((wish.manager.as_str(), wish.force), ("rexec-gateway-wake", true));
    assert_eq!(wish.body["metadata"]["uid"], uid);
    assert_eq!(
        wish.body["metadata"]["annotations"],
        json!({"rexec.dev/wake": "3"})
    );
    assert!(wish.body.get("spec").is_none());
    cluster.serve("u1", "pod-1", runtime.address);
    let mut running = runtime.call().await.admit().await;
    running.body().await;
    running.succeed().await;
    assert_eq!(caller.told_all().await.last().unwrap().kind(), "END");
}

#[tokio::test]
async fn the_literal_is_printed_where_no_server_comes_in_time_or_none_is_there() {
    let cluster = FakeKubernetes::start().await;
    let settings = Settings {
        hold: Duration::from_secs(1),
        ..Settings::default()
    };
    let gateway = TestGateway::in_cluster(&cluster, settings).await;
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    assert_eq!(caller.told_all().await, [bare(LITERAL)]);
    cluster.create("u1", "u1");
    let started = Instant::now();
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    assert_eq!(caller.told_all().await, [bare(LITERAL)]);
    assert!(started.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn suspended_and_stalled_environments_say_what_to_do() {
    let cluster = FakeKubernetes::start().await;
    cluster.create("u1", "u1");
    cluster.change("u1", |object| {
        object["spec"]["operatingMode"] = json!("Suspended");
    });
    cluster.create("u2", "u2");
    cluster.change("u2", |object| {
        object["status"] = json!({
            "observedGeneration": 1,
            "conditions": [{
                "type": "Stalled", "status": "True", "reason": "RequirementUnresolvable", "observedGeneration": 1,
                "message": "There is no package `nmpy`.", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        });
    });
    let gateway = TestGateway::in_cluster(&cluster, Settings::default()).await;
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    assert!(error_of(&mut caller).await.contains("setup_rexec_environment()"));
    let mut caller = Caller::call(gateway.zmtp, "tok-u2").await;
    assert!(
        error_of(&mut caller)
            .await
            .contains("There is no package `nmpy`.")
    );
}

#[tokio::test]
async fn a_refusal_of_the_runtime_is_told_in_its_words() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    runtime
        .call()
        .await
        .refuse(RefusalCode::QueueFull, "100 calls wait already.");
    assert_eq!(error_of(&mut caller).await, "100 calls wait already.");
}

#[tokio::test]
async fn a_caller_that_came_back_without_its_call_is_told_that_it_was_lost() {
    let runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let mut caller = Caller::connect(gateway.zmtp).await;
    caller.write(&handshake("DEALER")).await;
    assert!(error_of(&mut caller).await.contains("Make the call again."));
}

#[tokio::test]
async fn tokens_that_are_nobodys_are_refused_with_an_error() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let mut caller = Caller::call(gateway.zmtp, "guess").await;
    assert!(
        error_of(&mut caller)
            .await
            .starts_with("Token validation failed.")
    );
    let mut caller = Caller::connect(gateway.zmtp).await;
    caller.write(&handshake("DEALER")).await;
    caller.write(&message(&[b"", b"\xff", FUNCTION, ARGUMENTS])).await;
    assert_eq!(error_of(&mut caller).await, "Token is not valid utf-8.");
    assert!(runtime.no_call());
}

#[tokio::test]
async fn what_is_no_call_is_refused_with_an_error() {
    let runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    for frames in [
        &[&b""[..], b"tok-u1"][..],
        &[b"tok-u1", FUNCTION, ARGUMENTS],
        &[b"", b"tok-u1", FUNCTION, ARGUMENTS, b"x"],
    ] {
        let mut caller = Caller::connect(gateway.zmtp).await;
        caller.write(&handshake("DEALER")).await;
        caller.write(&message(frames)).await;
        assert_eq!(
            error_of(&mut caller).await,
            "Invalid request framing.",
            "{frames:?}"
        );
    }
}

#[tokio::test]
async fn a_call_that_is_too_large_is_refused_before_it_is_read() {
    let runtime = FakeRuntime::start().await;
    let cluster = FakeKubernetes::start().await;
    cluster.create("u1", "u1");
    cluster.serve("u1", "pod-1", runtime.address);
    let settings = Settings {
        max_call: 1000,
        ..Settings::default()
    };
    let gateway = TestGateway::in_cluster(&cluster, settings).await;
    let mut caller = Caller::call_with(gateway.zmtp, "tok-u1", &[7; 2000]).await;
    assert!(error_of(&mut caller).await.contains("more than the 1000 allowed"));
}

#[tokio::test]
async fn old_clients_are_told_to_upgrade() {
    let runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let mut caller = Caller::connect(gateway.zmtp).await;
    caller.write(&handshake("REQ")).await;
    caller
        .write(&message(&[b"", b"tok-u1", FUNCTION, ARGUMENTS]))
        .await;
    let Told::Bare(text) = caller.told().await.unwrap() else {
        panic!()
    };
    assert!(text.contains("pip install --upgrade scidx-rexec"));
}

#[tokio::test]
async fn pings_are_answered_in_the_middle_of_a_call() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    let running = runtime.call().await.admit().await;
    assert_eq!(caller.told().await.unwrap().kind(), "START");
    caller.write(b"\x04\x0b\x04PING\x00\x64ctx1").await;
    caller
        .commands_until(|caller| caller.pongs == [b"ctx1".to_vec()])
        .await;
    running.succeed().await;
    assert_eq!(caller.told_all().await.last().unwrap().kind(), "END");
}

#[tokio::test]
async fn other_protocols_are_hung_up_on() {
    let runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let mut caller = Caller::connect(gateway.zmtp).await;
    caller.write(b"GET / HTTP/1.1\r\n\r\n").await;
    let mut rest = Vec::new();
    let _ = soon(caller.stream.read_to_end(&mut rest)).await;
    assert_eq!(rest.len(), 107, "nothing after the opening");
}

#[tokio::test]
async fn a_gateway_that_stops_lets_calls_end_and_takes_no_others() {
    let mut runtime = FakeRuntime::start().await;
    let gateway = TestGateway::before(&runtime).await;
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    let running = runtime.call().await.admit().await;
    assert_eq!(caller.told().await.unwrap().kind(), "START");
    gateway.stop.send_replace(true);
    soon(async { while tokio::net::TcpStream::connect(gateway.zmtp).await.is_ok() {} }).await;
    assert!(!gateway.zmtp_door.is_finished());
    running.succeed().await;
    assert_eq!(caller.told_all().await.last().unwrap().kind(), "END");
    drop(caller);
    soon(gateway.zmtp_door).await.unwrap();
}

#[tokio::test]
async fn an_environment_that_cannot_be_read_is_nobody_elses_trouble() {
    let mut runtime = FakeRuntime::start().await;
    let cluster = FakeKubernetes::start().await;
    cluster.change("odd", |object| {
        object["spec"] = json!({"user": 7, "operatingMode": "Levitating"});
    });
    cluster.create("u1", "u1");
    cluster.serve("u1", "pod-1", runtime.address);
    let gateway = TestGateway::in_cluster(&cluster, Settings::default()).await;
    let mut caller = Caller::call(gateway.zmtp, "tok-u1").await;
    runtime.call().await.admit().await.succeed().await;
    assert_eq!(caller.told_all().await.last().unwrap().kind(), "END");
}

#[tokio::test]
async fn calls_keep_their_order_while_a_server_sends_them_back() {
    let mut old = FakeRuntime::start().await;
    let mut new = FakeRuntime::start().await;
    let cluster = FakeKubernetes::start().await;
    cluster.create("u1", "u1");
    cluster.serve("u1", "pod-1", old.address);
    let gateway = TestGateway::in_cluster(&cluster, Settings::default()).await;
    let _first = Caller::call_with(gateway.zmtp, "tok-u1", b"K\x00").await;
    old.call().await.refuse(RefusalCode::Draining, "about to stop");
    let _second = Caller::call_with(gateway.zmtp, "tok-u1", b"K\x01").await;
    old.call().await.refuse(RefusalCode::Draining, "about to stop");
    cluster.serve("u1", "pod-2", new.address);
    for n in 0..2u8 {
        let mut running = new.call().await.admit().await;
        assert_eq!(running.body().await[FUNCTION.len()..], [b'K', n]);
        running.succeed().await;
    }
}
