//! Quota and limit range of an environment's namespace: bounds for whatever else comes to run there.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    LimitRange, LimitRangeItem, LimitRangeSpec, ResourceQuota, ResourceQuotaSpec,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::metadata;
use crate::names::{DEFAULT, Owner};
use crate::resources::Size;

/// Objects of which an environment has none, and the pods: the server and its successor.
const COUNTS: &[(&str, &str)] = &[
    ("pods", "2"),
    ("services", "0"),
    ("services.loadbalancers", "0"),
    ("services.nodeports", "0"),
    ("persistentvolumeclaims", "0"),
    ("replicationcontrollers", "0"),
];

/// The quota: the size twice, and no objects by which a namespace could cost more.
pub fn quota(owner: &Owner, size: &Size) -> ResourceQuota {
    let mut hard = quantities(COUNTS);
    hard.extend(size.quota());
    ResourceQuota {
        metadata: metadata(owner, DEFAULT),
        spec: Some(ResourceQuotaSpec {
            hard: Some(hard),
            ..ResourceQuotaSpec::default()
        }),
        ..ResourceQuota::default()
    }
}

/// The limit range: what a container has that says nothing. It has no maximum, which would have to change before the pod does.
pub fn range(owner: &Owner) -> LimitRange {
    let item = LimitRangeItem {
        type_: "Container".to_owned(),
        default: Some(quantities(&[("cpu", "2"), ("memory", "4Gi")])),
        default_request: Some(quantities(&[("cpu", "500m"), ("memory", "1Gi")])),
        ..LimitRangeItem::default()
    };
    LimitRange {
        metadata: metadata(owner, DEFAULT),
        spec: Some(LimitRangeSpec { limits: vec![item] }),
    }
}

fn quantities(items: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    items
        .iter()
        .map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quota_holds_two_pods_of_the_size() {
        let owner = Owner {
            name: "env".into(),
            uid: "uid".into(),
            user: "alice".into(),
        };
        let hard = quota(&owner, &Size::from_spec(None).unwrap())
            .spec
            .unwrap()
            .hard
            .unwrap();
        assert_eq!(
            (hard["pods"].0.as_str(), hard["limits.cpu"].0.as_str()),
            ("2", "4")
        );
        assert_eq!(hard["services.loadbalancers"].0, "0");
    }
}
