use super::*;
use serde_json::{Value, json};

fn read(status: &Value) -> PodView {
    let pod = json!({"metadata": {"name": "server", "uid": "pod-uid"}, "spec": {"containers": []}, "status": status});
    PodView::read(&serde_json::from_value(pod).expect("a pod"))
}

/// A scheduled pod with these states of `runtime`, `install` and `server`.
fn pod(states: [Value; 3]) -> PodView {
    let [copy, install, server] = states;
    let container = |name: &str, state: Value| {
        let mut container = json!({"name": name, "image": format!("{name}-image"), "imageID": "", "ready": false,
                                   "restartCount": 0});
        container
            .as_object_mut()
            .unwrap()
            .extend(state.as_object().unwrap().clone());
        container
    };
    read(&json!({
        "phase": "Pending",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "initContainerStatuses": [container("runtime", copy), container("install", install)],
        "containerStatuses": [container("server", server)],
    }))
}

fn done() -> Value {
    json!({"state": {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:05:00Z"}}})
}

fn waits(reason: &str, message: &str) -> Value {
    json!({"state": {"waiting": {"reason": reason, "message": message}}})
}

fn next() -> Value {
    waits("PodInitializing", "")
}

fn failed(exit_code: i32, message: &str) -> Value {
    json!({"state": {"terminated": {"exitCode": exit_code, "reason": "Error", "message": message}}})
}

fn cause(view: &PodView) -> &Cause {
    match &view.stage {
        Stage::Unschedulable(cause)
        | Stage::PullFailed { cause, .. }
        | Stage::InstallFailed(cause)
        | Stage::Crashed(cause)
        | Stage::Failed(cause) => cause,
        other => panic!("{other:?} is no failure"),
    }
}

#[test]
fn a_start_passes_through_its_stages() {
    let running = || json!({"state": {"running": {}}});
    assert_eq!(read(&json!({})).stage, Stage::Scheduling);
    let scheduled = json!({"conditions": [{"type": "PodScheduled", "status": "True"}]});
    assert_eq!(read(&scheduled).stage, Stage::Preparing);
    assert_eq!(pod([next(), next(), next()]).stage, Stage::Preparing);
    assert_eq!(pod([running(), next(), next()]).stage, Stage::Preparing);
    assert_eq!(
        pod([done(), next(), next()]).stage,
        Stage::Pulling("install-image".into())
    );
    assert_eq!(pod([done(), running(), next()]).stage, Stage::Installing);
    assert_eq!(pod([done(), done(), next()]).stage, Stage::Booting);
    assert_eq!(pod([done(), done(), running()]).stage, Stage::Booting);
    assert!(pod([done(), done(), running()]).is_installed());
}

#[test]
fn op_f05_it_serves_only_when_running_ready_and_with_an_address() {
    for phase in ["Pending", "Running", "Succeeded", "Failed", "Unknown"] {
        for ready in ["True", "False", "Unknown"] {
            for ip in [None, Some(""), Some("10.0.0.1")] {
                for terminating in [false, true] {
                    let mut view = read(&json!({
                        "phase": phase, "podIP": ip,
                        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": ready}],
                    }));
                    view.terminating = terminating;
                    let expected =
                        phase == "Running" && ready == "True" && ip == Some("10.0.0.1") && !terminating;
                    assert_eq!(view.serves(), expected, "{phase} {ready} {ip:?} {terminating}");
                }
            }
        }
    }
}

#[test]
fn op_f06_an_evicted_pod_does_not_serve_although_it_says_ready() {
    let view = read(&json!({
        "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.", "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "True"}],
    }));
    assert!(!view.answers);
    assert_eq!(cause(&view).reason, reasons::EVICTED);
    assert!(cause(&view).message.contains("low on resource: memory"));
}

#[test]
fn other_failures_of_a_whole_pod_are_told_apart() {
    let failed = |status: Value| cause(&read(&status)).reason;
    assert_eq!(
        failed(json!({"phase": "Failed", "reason": "NodeLost"})),
        reasons::NODE_LOST
    );
    assert_eq!(
        failed(json!({"phase": "Failed", "reason": "OutOfcpu", "message": "no"})),
        reasons::POD_FAILED
    );
    assert_eq!(failed(json!({"phase": "Succeeded"})), reasons::POD_FAILED);
    let disrupted = json!({"phase": "Failed", "conditions": [
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "preempted"}]});
    assert_eq!(failed(disrupted), reasons::EVICTED);
}

#[test]
fn an_unschedulable_pod_has_the_words_of_the_scheduler() {
    let view = read(
        &json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu."}]}),
    );
    assert_eq!(cause(&view).reason, reasons::UNSCHEDULABLE);
    assert!(cause(&view).message.contains("1 Insufficient cpu."));
}

#[test]
fn op_f25_image_problems_are_told_apart() {
    let not_found = "Back-off pulling image \"x\": ErrImagePull: rpc error: code = NotFound desc = failed to resolve: not found";
    for (reason, message, expected) in [
        ("ErrImagePull", not_found, reasons::IMAGE_NOT_FOUND),
        ("ImagePullBackOff", not_found, reasons::IMAGE_NOT_FOUND),
        ("ErrImagePull", "manifest unknown", reasons::IMAGE_NOT_FOUND),
        (
            "ErrImagePull",
            "dial tcp: i/o timeout",
            reasons::IMAGE_PULL_FAILED,
        ),
        (
            "ErrImagePull",
            "dial tcp: lookup registry: no such host; not found",
            reasons::IMAGE_PULL_FAILED,
        ),
        (
            "ImagePullBackOff",
            "pull access denied",
            reasons::IMAGE_PULL_FAILED,
        ),
        (
            "InvalidImageName",
            "couldn't parse image name",
            reasons::INVALID_IMAGE_NAME,
        ),
    ] {
        for view in [
            pod([waits(reason, message), next(), next()]),
            pod([done(), waits(reason, message), next()]),
            pod([done(), done(), waits(reason, message)]),
        ] {
            assert_eq!(cause(&view).reason, expected, "{reason}: {message}");
            assert!(
                cause(&view).message.contains("-image`"),
                "{}",
                cause(&view).message
            );
            assert!(cause(&view).message.contains(message));
        }
    }
}

#[test]
fn an_image_is_missed_since_its_own_container_is_due() {
    let since = |view: PodView| match view.stage {
        Stage::PullFailed { since, .. } => since.expect("known").to_string(),
        other => panic!("{other:?}"),
    };
    let missing = || waits("ErrImagePull", "not found");
    assert_eq!(since(pod([missing(), next(), next()])), "2026-01-01T00:00:00Z");
    assert_eq!(since(pod([done(), missing(), next()])), "2026-01-01T00:05:00Z");
}

#[test]
fn the_failed_requirement_line_is_read_from_the_termination_message() {
    let message = r#"{"kind":"Unresolvable","line":"numpyy==1","tail":"no such package"}"#;
    let view = pod([done(), failed(1, message), next()]);
    assert_eq!(cause(&view).reason, reasons::REQUIREMENT_FAILED);
    assert!(cause(&view).message.contains("`numpyy==1`") && cause(&view).message.contains("no such package"));
}

#[test]
fn a_failure_is_still_read_while_the_node_tries_again() {
    let message = r#"{"kind":"IndexUnreachable","line":null,"tail":"timed out"}"#;
    for state in [
        json!({"running": {}}),
        json!({"waiting": {"reason": "CrashLoopBackOff"}}),
    ] {
        let again = json!({"restartCount": 1, "state": state,
                           "lastState": {"terminated": {"exitCode": 1, "message": message}}});
        assert_eq!(
            cause(&pod([done(), again, next()])).reason,
            reasons::INDEX_UNREACHABLE
        );
    }
}

#[test]
fn an_installer_that_says_nothing_is_an_installation_that_failed() {
    for (view, words) in [
        (pod([failed(1, "cannot copy"), next(), next()]), "cannot copy"),
        (
            pod([
                done(),
                failed(1, "{\"kind\":\"Strange\",\"tail\":\"odd\"}"),
                next(),
            ]),
            "odd",
        ),
        (pod([done(), failed(2, "not json"), next()]), "exit code 2"),
        (
            pod([
                done(),
                json!({"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}),
                next(),
            ]),
            "raise spec.resources.limits.memory",
        ),
    ] {
        assert_eq!(cause(&view).reason, reasons::INSTALL_FAILED);
        assert!(cause(&view).message.contains(words), "{}", cause(&view).message);
    }
}

#[test]
fn op_f28_an_oom_kill_inside_a_pod_that_runs_on_is_seen() {
    let restarted = json!({"restartCount": 2, "state": {"running": {}},
                           "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}});
    let view = pod([done(), done(), restarted]);
    assert_eq!(cause(&view).reason, reasons::OOM_KILLED);
    assert_eq!(
        view.termination,
        Some(LastTermination {
            pod_uid: "pod-uid".into(),
            restarts: 2,
            reason: "OOMKilled".into()
        })
    );
}

#[test]
fn a_crash_counts_once_whether_it_is_seen_during_or_after_the_restart() {
    let ended = json!({"exitCode": 1, "reason": "Error"});
    let during = pod([
        done(),
        done(),
        json!({"restartCount": 0, "state": {"terminated": ended}}),
    ]);
    let after = pod([
        done(),
        done(),
        json!({"restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                                            "lastState": {"terminated": ended}}),
    ]);
    assert_eq!(during.termination, after.termination);
    assert_eq!(
        (cause(&during).reason, cause(&after).reason),
        (reasons::CRASH_LOOP, reasons::CRASH_LOOP)
    );
}

#[test]
fn a_server_that_cannot_be_started_says_why() {
    let view = pod([done(), done(), waits("RunContainerError", "exec: no such file")]);
    assert_eq!(cause(&view).reason, reasons::CRASH_LOOP);
    assert!(cause(&view).message.contains("exec: no such file"));
}
