# Ringtrain's verbs. Each one sets up what it needs.
.PHONY: setup demo test bench lint docs

# Cluster tests last: they take the longest.
TESTS = $(filter-out tests/cluster/ tests/support/,$(sort $(wildcard tests/*/))) tests/cluster

setup: ## .venv with Ringtrain and its tools
	@tools/setup

demo: setup ## train a small GPT on this machine
	.venv/bin/ringtrain run -f examples/gpt-text.yaml

test: lint ## all tests, those on a real Kubernetes (as root) included
	@if [ "$$(id -u)" = 0 ] && [ -z "$$RINGTRAIN_TEST_KUBECONFIG" ]; then testbed/install-deps; fi
	.venv/bin/pytest $(TESTS)

bench: setup ## the benchmarks, at their shortest: prove that they run, decide nothing (communication as root; reconcile as root on the cluster of KUBECONFIG)
	.venv/bin/python bench/codec.py --quick
	.venv/bin/python bench/loss.py --quick
	.venv/bin/python bench/pipeline.py --quick
	.venv/bin/python bench/checkpoint.py --quick
	.venv/bin/python bench/recovery.py --quick
	.venv/bin/python bench/coordinator.py --quick
	.venv/bin/python bench/heartbeats.py --quick
	.venv/bin/python bench/communication.py --quick
	if [ -n "$$KUBECONFIG" ]; then .venv/bin/python bench/reconcile.py --quick; fi

lint: setup ## formatting, style, types and layers
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/mypy tests testbed
	.venv/bin/lint-imports

docs: setup ## the documentation as a site, its links checked: build/site/index.html
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build
