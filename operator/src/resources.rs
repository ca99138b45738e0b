//! Requests and limits of the server: what the spec says, over the default.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rexec_crds::environment::Resources;

use crate::quantity::Amount;

/// The size of an environment that asks for none: resource, request, limit.
const DEFAULT_SIZE: &[(&str, &str, &str)] = &[("cpu", "500m", "2"), ("memory", "1Gi", "4Gi")];

/// Requests and limits that were judged and completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    requests: BTreeMap<String, Amount>,
    limits: BTreeMap<String, Amount>,
}

impl Size {
    /// The size that `wished` asks for. What it leaves out comes from the default, stretched where the other half asks for more or
    /// less than that; a resource other than CPU and memory is requested in full, as Kubernetes demands.
    ///
    /// # Errors
    /// All faults, each a sentence.
    pub fn from_spec(wished: Option<&Resources>) -> Result<Self, Vec<String>> {
        let Resources { requests, limits } = wished.cloned().unwrap_or_default();
        let mut faults = Vec::new();
        let requests = amounts(&requests, "requests", &mut faults);
        let limits = amounts(&limits, "limits", &mut faults);
        for (name, request) in &requests {
            if limits.get(name).is_some_and(|limit| limit < request) {
                faults.push(format!(
                    "resources.requests.{name} is more than resources.limits.{name}; lower the request"
                ));
            }
        }
        if faults.is_empty() {
            Ok(Self::completed(requests, limits))
        } else {
            Err(faults)
        }
    }

    fn completed(mut requests: BTreeMap<String, Amount>, mut limits: BTreeMap<String, Amount>) -> Self {
        for (name, request, limit) in DEFAULT_SIZE {
            let default = |text| Amount::parse_text(text).expect("a quantity");
            let wished = requests.get(*name).copied();
            let limit = *limits
                .entry((*name).to_owned())
                .or_insert_with(|| wished.map_or(default(limit), |wished| wished.max(default(limit))));
            requests
                .entry((*name).to_owned())
                .or_insert_with(|| default(request).min(limit));
        }
        for (name, limit) in &limits {
            requests.entry(name.clone()).or_insert(*limit);
        }
        for (name, request) in &requests {
            limits.entry(name.clone()).or_insert(*request);
        }
        Self { requests, limits }
    }

    /// The limit of memory.
    pub fn memory(&self) -> Amount {
        self.limits["memory"]
    }

    /// As a container has it.
    pub fn requirements(&self) -> ResourceRequirements {
        ResourceRequirements {
            requests: Some(quantities(&self.requests, Amount::quantity)),
            limits: Some(quantities(&self.limits, Amount::quantity)),
            claims: None,
        }
    }

    /// As a quota has it: room for one pod and its successor, which must not wait until the quota's controller has seen the first go.
    pub fn quota(&self) -> BTreeMap<String, Quantity> {
        let twice = |amount: Amount| amount.doubled().quantity();
        let requests = self
            .requests
            .iter()
            .map(|(name, amount)| (format!("requests.{name}"), twice(*amount)));
        let limits = self.limits.iter().filter(|(name, _)| is_limited(name));
        let limits = limits.map(|(name, amount)| (format!("limits.{name}"), twice(*amount)));
        requests.chain(limits).collect()
    }
}

/// A quota knows limits of these alone.
fn is_limited(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
}

fn quantities(
    amounts: &BTreeMap<String, Amount>,
    write: impl Fn(Amount) -> Quantity,
) -> BTreeMap<String, Quantity> {
    amounts
        .iter()
        .map(|(name, amount)| (name.clone(), write(*amount)))
        .collect()
}

fn amounts(
    wished: &BTreeMap<String, Quantity>,
    field: &str,
    faults: &mut Vec<String>,
) -> BTreeMap<String, Amount> {
    let mut amounts = BTreeMap::new();
    for (name, quantity) in wished {
        let path = format!("resources.{field}.{name}");
        if !is_resource_name(name) {
            faults.push(format!(
                "{path} is no resource: write cpu, memory, ephemeral-storage, or the full name of another one"
            ));
            continue;
        }
        match Amount::parse(quantity) {
            Ok(amount) if amount.is_negative() => faults.push(format!("{path} is negative")),
            Ok(amount) if !is_limited(name) && !amount.is_whole() => {
                faults.push(format!("{path} must be a whole number"));
            }
            Ok(amount) => drop(amounts.insert(name.clone(), amount)),
            Err(error) => faults.push(format!("{path}: {error}")),
        }
    }
    amounts
}

/// CPU, memory, local storage, huge pages, or an extended resource: `domain/name`.
fn is_resource_name(name: &str) -> bool {
    let word = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            && text
                .bytes()
                .next()
                .is_some_and(|byte| byte.is_ascii_alphanumeric())
            && text
                .bytes()
                .last()
                .is_some_and(|byte| byte.is_ascii_alphanumeric())
    };
    match name.split_once('/') {
        Some((domain, name)) => domain.contains('.') && word(domain) && word(name) && name.len() <= 63,
        None => is_limited(name) || (name.starts_with("hugepages-") && word(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(items: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
        items
            .iter()
            .map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned())))
            .collect()
    }

    fn size(requests: &[(&str, &str)], limits: &[(&str, &str)]) -> Result<Size, Vec<String>> {
        Size::from_spec(Some(&Resources {
            requests: map(requests),
            limits: map(limits),
        }))
    }

    fn shown(size: &Size) -> (BTreeMap<String, Quantity>, BTreeMap<String, Quantity>) {
        let requirements = size.requirements();
        (
            requirements.requests.expect("requests"),
            requirements.limits.expect("limits"),
        )
    }

    #[test]
    fn no_wish_is_the_default_size() {
        let (requests, limits) = shown(&Size::from_spec(None).expect("valid"));
        assert_eq!(requests, map(&[("cpu", "500m"), ("memory", "1Gi")]));
        assert_eq!(limits, map(&[("cpu", "2"), ("memory", "4Gi")]));
    }

    #[test]
    fn half_a_wish_stretches_the_default() {
        let (requests, limits) = shown(&size(&[("memory", "8Gi")], &[("cpu", "250m")]).expect("valid"));
        assert_eq!(requests, map(&[("cpu", "250m"), ("memory", "8Gi")]));
        assert_eq!(limits, map(&[("cpu", "250m"), ("memory", "8Gi")]));
    }

    #[test]
    fn extended_resources_are_requested_in_full() {
        let (requests, limits) = shown(&size(&[], &[("nvidia.com/gpu", "2")]).expect("valid"));
        assert_eq!(
            (
                requests["nvidia.com/gpu"].0.as_str(),
                limits["nvidia.com/gpu"].0.as_str()
            ),
            ("2", "2")
        );
    }

    #[test]
    fn faults_are_told_all_at_once() {
        let faults = size(
            &[
                ("cpu", "4"),
                ("memory", "-1"),
                ("gpu", "1"),
                ("nvidia.com/gpu", "500m"),
            ],
            &[("cpu", "2"), ("memory", "x")],
        )
        .expect_err("faults");
        assert_eq!(faults.len(), 5, "{faults:#?}");
    }

    #[test]
    fn the_quota_has_room_for_a_successor() {
        let quota = size(&[], &[("nvidia.com/gpu", "1")]).expect("valid").quota();
        assert_eq!(quota["requests.cpu"].0, "1");
        assert_eq!(quota["limits.memory"].0, "8Gi");
        assert_eq!(quota["requests.nvidia.com/gpu"].0, "2");
        assert!(!quota.contains_key("limits.nvidia.com/gpu"));
    }
}
