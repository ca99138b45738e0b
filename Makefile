# Everything that is built or fetched lies in the cache, outside of the checkout; results lie in target/.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

export REXEC_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/rexec
export CARGO_TARGET_DIR ?= $(REXEC_CACHE)/target
export PYTHONPATH := $(CURDIR)/e2e:$(CURDIR)/images:$(CURDIR)/e2e/cluster
export PYTHONDONTWRITEBYTECODE := 1

PYTHON ?= python3
# The cluster to work on: `local` (one on this machine, named by CLUSTER_NAME) or `current` (that of the caller's kubeconfig).
CLUSTER ?= local
CLUSTER_NAME ?= demo
# Where images are pushed for a cluster that is not ours: HOST/PREFIX.
REGISTRY ?=
# For the demo on a cluster whose pods do not reach PyPI: a package index, and CIDR:PORT of it.
INDEX_URL ?=
EGRESS_ALLOW ?=

STEP := e2e/step
TARGET := x86_64-unknown-linux-gnu
CRATES := -p rexec-operator -p rexec-gateway -p rexec-runtime-server
# Cheap ones first, what needs a cluster last.
SUITES := images/tests e2e/cluster/tests e2e/tests/unit e2e/tests/runtime e2e/tests/local e2e/tests/cluster
# The tools' virtual environment, made when first asked for.
TOOLS = $(shell PYTHONPATH='$(PYTHONPATH)' REXEC_CACHE='$(REXEC_CACHE)' $(PYTHON) -m rexec_e2e.venvs tools)/bin

.PHONY: help
help: ## Say what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z%-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '\n  CLUSTER=%s  CLUSTER_NAME=%s  REGISTRY=%s\n  REXEC_CACHE=%s\n' '$(CLUSTER)' '$(CLUSTER_NAME)' '$(REGISTRY)' '$(REXEC_CACHE)'

.PHONY: demo
demo: images ## Put a cluster up, deploy, and make a remote call with the public client; leaves it up
	@$(PYTHON) -m rexec_e2e.demo --cluster '$(CLUSTER)' --name '$(CLUSTER_NAME)' --registry '$(REGISTRY)' \
	--index-url '$(INDEX_URL)' --egress-allow '$(EGRESS_ALLOW)'

.PHONY: down
down: ## Take the demo's cluster down
	@CLUSTER_NAME='$(CLUSTER_NAME)' e2e/cluster/cluster down

.PHONY: laptop
laptop: build ## Gateway and runtime server as plain processes, without Kubernetes, until Ctrl-C
	@$(PYTHON) -m rexec_e2e.laptop

.PHONY: test
test: lint generate-check cargo-test images ## Check and test everything, a Kubernetes of its own included
	@trap 'CLUSTER_NAME=test e2e/cluster/cluster down >/dev/null 2>&1 || true' EXIT; \
	echo '==> images, cluster tool, laptop and cluster tests' >&2; \
	CLUSTER_NAME=test '$(TOOLS)/pytest' --durations=15 --durations-min=5 $(SUITES) $(PYTEST_ARGS)

.PHONY: cargo-test
cargo-test:
	@$(STEP) 'Rust tests' cargo test --quiet --workspace --locked

.PHONY: test-local
test-local: build ## The end-to-end tests that need no cluster
	@'$(TOOLS)/pytest' $(filter-out %/cluster,$(SUITES)) $(PYTEST_ARGS)

.PHONY: lint
lint: lint-rust lint-python lint-shell ## Check formatting and style

.PHONY: lint-rust
lint-rust:
	@$(STEP) 'Rust formatting' cargo fmt --all --check
	@$(STEP) 'Rust lints' cargo clippy --workspace --all-targets --locked -- -D warnings
	@if command -v cargo-deny >/dev/null; then $(STEP) 'Rust dependencies' cargo deny --log-level error check bans licenses sources; \
	else echo '    Rust dependencies: not checked, cargo-deny is not installed' >&2; fi

.PHONY: lint-python
lint-python:
	@$(STEP) 'Python formatting' '$(TOOLS)/ruff' format --quiet --check .
	@$(STEP) 'Python lints' '$(TOOLS)/ruff' check --quiet .
	@$(STEP) 'Python types' '$(TOOLS)/mypy' --no-error-summary images e2e

.PHONY: lint-shell
lint-shell:
	@if command -v shellcheck >/dev/null; then \
	$(STEP) 'Shell lints' shellcheck $$(git ls-files | xargs grep -lE '^#!(/usr/bin/env bash|/bin/(ba)?sh)'); \
	else echo '    Shell lints: not checked, shellcheck is not installed' >&2; fi

.PHONY: fmt
fmt: ## Format the sources
	@$(STEP) 'Rust formatting' cargo fmt --all
	@$(STEP) 'Python formatting' '$(TOOLS)/ruff' format --quiet .

.PHONY: generate
generate: ## Write the files that are generated from the sources
	@$(STEP) 'generated files' e2e/generate

.PHONY: generate-check
generate-check:
	@$(STEP) 'generated files are up to date' e2e/generate-check config/crd docs/reference

.PHONY: build
build: ## Build the static programs
	@RUSTFLAGS='-C target-feature=+crt-static' \
	$(STEP) 'static programs' cargo build --release --locked --target $(TARGET) $(CRATES)

.PHONY: images
images: build ## Write OCI archives of our images to target/images
	@$(STEP) 'images' '$(TOOLS)/python' -m rexec_images build \
	--binaries '$(CARGO_TARGET_DIR)/$(TARGET)/release' --cache '$(REXEC_CACHE)/wheels' --out target/images

.PHONY: deploy
deploy: images ## Push the images to REGISTRY=HOST/PREFIX and apply config/default with the caller's kubeconfig
	@$(PYTHON) -m rexec_e2e.deploy --registry '$(REGISTRY)' apply

.PHONY: undeploy
undeploy: ## Delete what `deploy` applied, and with it every environment
	@$(PYTHON) -m rexec_e2e.deploy --registry '$(REGISTRY)' delete

.PHONY: bench-build
bench-build:
	@RUSTFLAGS='-C target-feature=+crt-static' \
	$(STEP) 'static programs' cargo build --release --locked --target $(TARGET) $(CRATES) -p rexec-load

.PHONY: bench
bench: bench-build ## Measure; prints a table and writes target/bench
	@'$(TOOLS)/python' -m bench

bench-%: bench-build
	@'$(TOOLS)/python' -m bench '$*'

.PHONY: clean
clean: ## Remove results; what is cached stays (it is all in REXEC_CACHE)
	@rm -rf target .mypy_cache .ruff_cache .pytest_cache
