# What a person types. Behind each target stands one script or one `cargo` command.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.PHONY: help demo test test-static test-kernels kernels-page lint screens book deny bench-capture bench-blktrace bench-locate bench-calls bench-views bench-peers bench-waits lab-matrix deps

# The compiler for BPF. Debian 12 has it; crates/capture asks for it by this variable.
export CLANG ?= clang-16
# Where cargo puts what it builds.
TARGET = $${CARGO_TARGET_DIR:-target}

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Build iowhy and watch a real workload with it for ten seconds
	@scripts/install-deps build demo
	cargo build --release --package iowhy --package iowhy-labs
	@$(TARGET)/release/iowhy-labs demo

test: ## Install what is missing, build, check style, run every test, build the docs
	@scripts/install-deps build test
	@scripts/test

test-static: ## Build the static release binary and run it in a bullseye userland
	@scripts/install-deps build static
	@scripts/test-static

test-kernels: ## Run what needs a kernel in guests with Linux 5.10, 6.1, 6.12 and the newest
	@scripts/install-deps build test vm
	@scripts/test-kernels

kernels-page: ## Ask each kernel in a guest what it gives; writes docs/kernels.md
	@scripts/install-deps build test vm
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs kernels-page

lint: ## Check formatting and lints
	@scripts/install-deps build
	@scripts/lint

screens: ## Write docs/screens.md from recordings in KEPT (iowhy-labs matrix --keep KEPT)
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs screens --kept "$(KEPT)"

book: ## Build docs/ as a book
	@scripts/book

deny: ## Check licences and sources of dependencies
	@scripts/deny

bench-capture: ## Measure what watching costs, beside perf and bpftrace; writes docs/performance.md
	@scripts/install-deps build bench
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-capture

bench-blktrace: ## Measure reading captures, beside blkparse and btt; writes docs/blktrace-benchmarks.md
	@scripts/install-deps build test bench
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-blktrace

bench-locate: ## Measure block to file, beside debugfs; writes docs/blktrace-benchmarks.md
	@scripts/install-deps build test bench
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-locate

bench-calls: ## Measure what a system call costs while iowhy looks at it; writes docs/files.md
	@scripts/install-deps build bench
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-calls

bench-views: ## Compare the views with iostat, pidstat and biolatency; writes docs/views.md
	@scripts/install-deps build test bench
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-views

bench-peers: ## Compare blktrace and libbpf-tools with iowhy in guests; writes docs/peers.md
	@scripts/install-deps build test bench vm
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-peers

bench-waits: ## Make each wait class happen, here and in a guest; writes docs/waits.md
	@scripts/install-deps build test vm
	cargo build --release --package iowhy --package iowhy-labs
	$(TARGET)/release/iowhy-labs bench-waits

lab-matrix: ## Run every lab, and write what iowhy found into docs/diagnosis.md
	@scripts/install-deps build test programs bench
	cargo build --release --package iowhy --package iowhy-labs
	PATH=$$(scripts/python-env):$$PATH $(TARGET)/release/iowhy-labs matrix --page docs/diagnosis.md

deps: ## Install every package that any target needs
	@scripts/install-deps build demo test static vm bench
