# What a person types. Behind each target stands one script or one `cargo` command.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.PHONY: help demo check man test test-arm64 test-static test-readme test-oldest-rust test-kernels test-compilers kernels-page packages test-packages source-package test-source test-metrics web screenshots lint book deny bench-capture bench-blktrace bench-sources bench-locate bench-budget bench-busy bench-recorder bench-calls bench-views bench-peers bench-waits lab-matrix deps bench-html bench-screens bench-report bench-reproduce bench-replay soak publish-files test-publish test-recorder-guest test-fleet demo-fleet fuzz-nightly hostile

# Where cargo puts what it builds.
TARGET = $${CARGO_TARGET_DIR:-target}

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-19s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Build iowhy and watch a real workload with it for ten seconds
	@scripts/install-deps build demo
	cargo build --profile demo --package iowhy --package iowhy-labs
	@$(TARGET)/demo/iowhy-labs demo

man: ## Write the manual pages and shell completions into the target directory, by what `make demo` built
	@scripts/install-deps build
	cargo build --profile demo --package iowhy --package iowhy-labs
	@scripts/man $(TARGET)/demo/iowhy

check: ## The quick check without root: style, lints, unit tests
	@scripts/check

test: ## Install what is missing, build, check style, run every test, build the docs: 40 to 70 minutes
	@scripts/install-deps build test web
	@scripts/test

test-fleet: ## Lint, build and test the fleet: its own workspace, with a real S3 server and a cluster
	@scripts/install-deps build
	@scripts/test-fleet

demo-fleet: ## A simulated fleet in an S3 server, a cluster, a question and its answer
	@scripts/install-deps build
	@scripts/demo-fleet

test-readme: ## The README's first command in a clean Debian 13 and 12, timed
	@scripts/install-deps static
	@scripts/test-readme

test-oldest-rust: ## Compile the program by the oldest Rust that Cargo.toml promises, in a clean Ubuntu
	@scripts/install-deps static
	@scripts/test-oldest-rust

test-static: ## Build the static release binary and run it in a bullseye userland
	@scripts/install-deps build static
	@scripts/test-static

test-arm64: ## Build for aarch64, and run the small check in guests with Linux 6.1 and the newest
	@scripts/install-deps build test vm
	@scripts/test-kernels --small 6.1-arm64 sid-arm64

test-kernels: ## Run what needs a kernel in guests with Linux 5.10, 6.1, 6.12 and the newest; then test-arm64
	@scripts/install-deps build test vm
	@scripts/test-kernels
	@scripts/test-kernels --small 6.1-arm64 sid-arm64

test-compilers: ## Compile the BPF programs with every clang, 14 to the newest, and load them here and in guests
	@scripts/install-deps build test static vm
	@scripts/test-compilers --page 5.10 6.1 6.12 sid 6.1-arm64 sid-arm64

kernels-page: ## Ask each kernel in a guest what it gives; writes docs/kernels.md
	@scripts/install-deps build test vm
	cargo build --release --package iowhy --package iowhy-labs
	IOWHY_BIN_ARM64=$$(scripts/cross | tail -n 1) $(TARGET)/release/iowhy-labs kernels-page

packages: ## Make tarballs, .debs and .rpms: of iowhy, static, of iowhy-fleet-push and of iowhy-fleet
	@scripts/install-deps build packages
	@scripts/packages
	@scripts/packages --fleet-push
	@scripts/packages --fleet

test-packages: ## Make the packages; install, upgrade and remove them in clean userlands
	@scripts/install-deps build packages static source
	@scripts/packages
	@scripts/packages --fleet-push
	@scripts/packages --fleet
	@scripts/test-packages
	@scripts/test-recipes $(TARGET)/$$(uname -m)-unknown-linux-gnu/release/iowhy
	@scripts/test-kubernetes $(TARGET)/$$(uname -m)-unknown-linux-gnu/release/iowhy

source-package: ## Make the Debian source package, with the crates, which builds without network
	@scripts/install-deps build source
	@scripts/packages --source

test-source: source-package ## Build that in a clean Debian 13 without network, by its own Rust; lintian reads both
	@scripts/test-source

publish-files: ## Make the crates as they are published: with compiled BPF programs
	@scripts/install-deps build
	@scripts/publish-files

test-publish: ## The same, and build the published crate where there is no clang
	@scripts/install-deps build
	@scripts/publish-files --check

test-recorder-guest: ## The .deb in a guest: its service, a disk that hangs, a power cut, what is known then
	@scripts/install-deps build test static vm
	@scripts/test-recorder-guest

test-metrics: ## Check alert rules and dashboard with a real Prometheus and a running daemon
	@scripts/install-deps build packages
	cargo build --package iowhy
	@scripts/test-metrics $(TARGET)/debug/iowhy

web: ## Build the script of the HTML report from its sources, to be committed with them
	@scripts/install-deps web
	@scripts/web build

screenshots: ## Pictures of the HTML reports of several recordings; writes docs/report.png
	@scripts/install-deps build web
	cargo build --package iowhy
	@scripts/web screenshots

lint: ## Check formatting and lints
	@scripts/install-deps build
	@scripts/lint

book: ## Build docs/ as a book
	@scripts/book

bench-reproduce: ## Reproduce labs from their recordings on the same disk; writes docs/reproduce.md
	@scripts/install-deps build test programs bench
	cargo build --release --package iowhy --package iowhy-labs
	PATH=$$(scripts/python-env):$$PATH $(TARGET)/release/iowhy-labs bench-reproduce

bench-replay: ## Measure how punctual a replay is, compared with fio's; writes docs/reproduce.md
	@scripts/install-deps build test bench
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-replay

deny: ## Check licences and sources of dependencies
	@scripts/deny

bench-capture: ## Measure what watching costs, beside perf and bpftrace; writes docs/performance.md
	@scripts/install-deps build bench
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-capture

bench-sources: ## Measure reading a sosreport of 100 MB; writes docs/sources.md
	@scripts/install-deps build
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-sources

bench-blktrace: ## Measure reading captures, beside blkparse and btt; writes docs/blktrace-benchmarks.md
	@scripts/install-deps build test bench
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-blktrace

bench-locate: ## Measure block to file, beside debugfs; writes docs/blktrace-benchmarks.md
	@scripts/install-deps build test bench
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-locate

bench-budget: ## Measure what watches of ten seconds cost, beside their budget; writes docs/budget.md
	@scripts/install-deps build bench
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-budget

bench-busy: ## Measure what a watch loses while other programs want all CPUs; writes docs/performance.md
	@scripts/install-deps build bench
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-busy

bench-recorder: ## Measure what the flight recorder costs and how soon an incident is on disk; writes docs/recorder.md
	@scripts/install-deps build bench
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-recorder

soak: ## Run the flight recorder for two hours of churn and trouble; writes what it holds on to into docs/recorder.md
	@scripts/install-deps build bench
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs soak

bench-screens: ## Measure what drawing iowhy top costs, and how soon commands answer; writes docs/top.md
	$(TARGET)/release/iowhy-labs bench-screens

bench-calls: ## Measure what a system call costs while iowhy looks at it; writes docs/files.md
	@scripts/install-deps build bench
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-calls

bench-views: ## Compare the views with iostat, pidstat and biolatency; writes docs/views.md
	@scripts/install-deps build test bench
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-views

bench-html: ## Measure the HTML report: writing it, drawing it in Chromium; writes docs/html.md
	@scripts/install-deps build web
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-html

bench-report: ## Measure reading recordings of millions of requests; writes docs/performance.md
	@scripts/install-deps build
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-report

bench-peers: ## Compare blktrace and libbpf-tools with iowhy in guests; writes docs/peers.md
	@scripts/install-deps build test bench vm
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-peers

bench-waits: ## Make each wait class happen, here and in a guest; writes docs/waits.md
	@scripts/install-deps build test vm
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-waits

lab-matrix: ## Run every lab, and write what iowhy found into docs/labs.md
	@scripts/install-deps build test programs bench
	cargo build --release --package iowhy --package iowhy-labs
	PATH=$$(scripts/python-env):$$PATH $(TARGET)/release/iowhy-labs matrix --page docs/labs.md

deps: ## Install every package that any target needs
	@scripts/install-deps build demo test web static vm bench

hostile: ## Put 10,000 spoiled inputs of every kind through a command each; writes docs/hostile-input.md
	@scripts/install-deps build
	cargo build --package iowhy
	cargo test --quiet --package iowhy-labs --test hostile

fuzz-nightly: ## Feed every reader and every view with damaged input, twelve minutes each
	@IOWHY_FUZZ_SECONDS=720 scripts/fuzz
