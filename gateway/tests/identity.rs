//! Token introspection over real sockets.

#![allow(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use rexec_gateway::identity::introspection::Introspection;
use rexec_gateway::identity::{Identity, IdentityError, PrefixedSource, Source};
use serde_json::Value;

/// An identity provider that knows the tokens `tok-…` and is broken for others.
struct Provider {
    identity: Identity,
    asked: Arc<AtomicUsize>,
}

async fn provider() -> Provider {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let answer = move |body: String| async move {
        counter.fetch_add(1, Ordering::Relaxed);
        let token: Value = serde_json::from_str(&body).unwrap();
        match token["token"].as_str().unwrap() {
            "expired" => (StatusCode::OK, r#"{"error": "expired"}"#.to_owned()),
            "html" => (StatusCode::OK, "<html>".to_owned()),
            "down" => (StatusCode::INTERNAL_SERVER_ERROR, String::new()),
            token => (
                StatusCode::OK,
                format!(
                    r#"{{"sub": "{}", "username": "x"}}"#,
                    token.trim_start_matches("tok-")
                ),
            ),
        }
    };
    let listener = support::local().await;
    let url = format!("http://{}/introspect", listener.local_addr().unwrap());
    tokio::spawn(
        async move { axum::serve(listener, Router::new().route("/introspect", post(answer))).await },
    );
    support::tls();
    let source = Source::Introspection(Introspection::new(&url, None).unwrap());
    Provider {
        identity: Identity::new(vec![PrefixedSource {
            source,
            prefix: "idp:".to_owned(),
        }]),
        asked,
    }
}

#[tokio::test]
async fn a_token_is_its_subjects_and_is_asked_about_once() {
    let provider = provider().await;
    for _ in 0..3 {
        let user = provider.identity.check("tok-alice").await.unwrap();
        assert_eq!((user.id.as_str(), user.name.as_deref()), ("idp:alice", Some("x")));
    }
    assert_eq!(provider.asked.load(Ordering::Relaxed), 1);
    assert_eq!(provider.identity.check("tok-bob").await.unwrap().id, "idp:bob");
}

#[tokio::test]
async fn a_refused_token_is_refused_and_a_broken_provider_is_not_available() {
    let provider = provider().await;
    assert!(matches!(
        provider.identity.check("expired").await,
        Err(IdentityError::Refused(_))
    ));
    for token in ["html", "down"] {
        assert!(matches!(
            provider.identity.check(token).await,
            Err(IdentityError::Unavailable(_))
        ));
    }
    let asked = provider.asked.load(Ordering::Relaxed);
    let _ = provider.identity.check("down").await;
    assert_eq!(
        provider.asked.load(Ordering::Relaxed),
        asked + 1,
        "no answer is not remembered"
    );
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_is_not_available() {
    let listener = support::local().await;
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    support::tls();
    let source = Source::Introspection(Introspection::new(&url, None).unwrap());
    let identity = Identity::new(vec![PrefixedSource {
        source,
        prefix: String::new(),
    }]);
    let error = identity.check("tok-alice").await.unwrap_err();
    assert!(
        error.to_string().contains("it cannot be reached") && !error.to_string().contains("127.0.0.1"),
        "{error}"
    );
}
