//! NetworkPolicies of an environment: nothing in, nothing out, but for the gateway's calls, the operator's control, and what the
//! settings let out. They hold for every pod of the namespace, init containers included.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
    NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::metadata;
use crate::egress::{self, Block, Destination};
use crate::names::Owner;
use crate::settings::{CALL_PORT, CONTROL_PORT, Settings};

/// Label that Kubernetes puts on every namespace with its own name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Address on which NodeLocal DNSCache listens on every node.
const NODE_LOCAL_DNS: &str = "169.254.20.10/32";

/// Names of the policies.
pub const NAMES: [&str; 4] = ["default-deny", "allow-calls", "allow-control", "allow-egress"];

/// All policies of an environment.
pub fn policies(owner: &Owner, settings: &Settings) -> Vec<NetworkPolicy> {
    let gateway = pods(
        &settings.gateway_namespace,
        "app.kubernetes.io/name",
        "rexec-gateway",
    );
    let operator = pods(
        &settings.operator_namespace,
        "app.kubernetes.io/name",
        "rexec-operator",
    );
    vec![
        default_deny(owner),
        allow_in(owner, NAMES[1], gateway, CALL_PORT),
        allow_in(owner, NAMES[2], operator, CONTROL_PORT),
        allow_out(owner, settings),
    ]
}

fn policy(owner: &Owner, name: &str, spec: NetworkPolicySpec) -> NetworkPolicy {
    NetworkPolicy {
        metadata: metadata(owner, name),
        spec: Some(spec),
    }
}

fn default_deny(owner: &Owner) -> NetworkPolicy {
    policy(
        owner,
        NAMES[0],
        NetworkPolicySpec {
            pod_selector: Some(LabelSelector::default()),
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
            ..NetworkPolicySpec::default()
        },
    )
}

fn allow_in(owner: &Owner, name: &str, from: NetworkPolicyPeer, port: i32) -> NetworkPolicy {
    policy(
        owner,
        name,
        NetworkPolicySpec {
            pod_selector: Some(LabelSelector::default()),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(vec![NetworkPolicyIngressRule {
                from: Some(vec![from]),
                ports: Some(vec![tcp(port)]),
            }]),
            egress: None,
        },
    )
}

fn allow_out(owner: &Owner, settings: &Settings) -> NetworkPolicy {
    let internet = egress::public_internet(&settings.api_server)
        .into_iter()
        .map(block)
        .collect();
    let mut rules = dns();
    rules.push(NetworkPolicyEgressRule {
        to: Some(internet),
        ports: None,
    });
    rules.extend(settings.egress_allow.iter().map(destination));
    policy(
        owner,
        NAMES[3],
        NetworkPolicySpec {
            pod_selector: Some(LabelSelector::default()),
            policy_types: Some(vec!["Egress".to_owned()]),
            egress: Some(rules),
            ingress: None,
        },
    )
}

/// Cluster DNS by its usual labels, on the usual port or on those that its container calls `dns` and `dns-tcp`: policies see the port
/// behind the Service, and that is not 53 wherever DNS runs without privilege.
fn dns() -> Vec<NetworkPolicyEgressRule> {
    let named = |name: &str, protocol| port(IntOrString::String(name.to_owned()), protocol);
    let plain = || vec![port(IntOrString::Int(53), "UDP"), tcp(53)];
    let pods = pods("kube-system", "k8s-app", "kube-dns");
    let node_local = block(Block {
        cidr: NODE_LOCAL_DNS.to_owned(),
        except: Vec::new(),
    });
    let to_pods = [plain(), vec![named("dns", "UDP"), named("dns-tcp", "TCP")]].concat();
    vec![
        NetworkPolicyEgressRule {
            to: Some(vec![pods]),
            ports: Some(to_pods),
        },
        NetworkPolicyEgressRule {
            to: Some(vec![node_local]),
            ports: Some(plain()),
        },
    ]
}

fn destination(destination: &Destination) -> NetworkPolicyEgressRule {
    NetworkPolicyEgressRule {
        to: Some(vec![block(Block {
            cidr: destination.cidr.to_string(),
            except: Vec::new(),
        })]),
        ports: Some(vec![tcp(destination.port.into())]),
    }
}

fn pods(namespace: &str, label: &str, value: &str) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        namespace_selector: Some(selector(NAMESPACE_NAME, namespace)),
        pod_selector: Some(selector(label, value)),
        ip_block: None,
    }
}

fn selector(label: &str, value: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some(BTreeMap::from([(label.to_owned(), value.to_owned())])),
        match_expressions: None,
    }
}

fn block(Block { cidr, except }: Block) -> NetworkPolicyPeer {
    let except = (!except.is_empty()).then_some(except);
    NetworkPolicyPeer {
        ip_block: Some(IPBlock { cidr, except }),
        ..NetworkPolicyPeer::default()
    }
}

fn tcp(number: i32) -> NetworkPolicyPort {
    port(IntOrString::Int(number), "TCP")
}

fn port(port: IntOrString, protocol: &str) -> NetworkPolicyPort {
    NetworkPolicyPort {
        port: Some(port),
        protocol: Some(protocol.to_owned()),
        end_port: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::settings;
    use serde_json::{Value, json};

    fn specs() -> Vec<Value> {
        let owner = Owner {
            name: "env".into(),
            uid: "uid".into(),
            user: "alice".into(),
        };
        let mut settings = settings();
        settings.egress_allow = vec!["10.9.8.7/32:3141".parse().unwrap()];
        policies(&owner, &settings)
            .iter()
            .map(|policy| serde_json::to_value(&policy.spec).unwrap())
            .collect()
    }

    #[test]
    fn everything_is_denied_to_every_pod_first() {
        assert_eq!(
            specs()[0],
            json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
        );
    }

    #[test]
    fn calls_come_from_gateway_pods_and_control_from_operator_pods() {
        for (spec, namespace, name, port) in [
            (&specs()[1], "rexec-gw", "rexec-gateway", 8080),
            (&specs()[2], "rexec-system", "rexec-operator", 8081),
        ] {
            assert_eq!(spec["policyTypes"], json!(["Ingress"]));
            assert_eq!(
                spec["ingress"],
                json!([{
                    "from": [{
                        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                        "podSelector": {"matchLabels": {"app.kubernetes.io/name": name}},
                    }],
                    "ports": [{"port": port, "protocol": "TCP"}],
                }])
            );
        }
    }

    #[test]
    fn out_go_name_lookups_the_public_internet_and_what_the_settings_allow() {
        let spec = &specs()[3];
        let plain = [
            json!({"port": 53, "protocol": "UDP"}),
            json!({"port": 53, "protocol": "TCP"}),
        ];
        let named = [
            json!({"port": "dns", "protocol": "UDP"}),
            json!({"port": "dns-tcp", "protocol": "TCP"}),
        ];
        assert_eq!(spec["egress"][0]["ports"], json!([plain.clone(), named].concat()));
        assert_eq!(spec["egress"][1]["ports"], json!(plain));
        let internet = &spec["egress"][2]["to"][0]["ipBlock"];
        assert_eq!(internet["cidr"], "0.0.0.0/0");
        assert!(
            internet["except"]
                .as_array()
                .unwrap()
                .contains(&json!("10.0.0.0/8"))
        );
        assert_eq!(
            spec["egress"][3],
            json!({"to": [{"ipBlock": {"cidr": "10.9.8.7/32"}}], "ports": [{"port": 3141, "protocol": "TCP"}]})
        );
    }
}
