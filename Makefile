# Ringtrain's verbs. Each one sets up what it needs.
.PHONY: setup demo test bench lint

# Cluster tests last: they take the longest.
TESTS = $(filter-out tests/cluster/ tests/support/,$(sort $(wildcard tests/*/))) tests/cluster

setup: ## .venv with Ringtrain and its tools
	@tools/setup

demo: setup ## train a small GPT on this machine
	.venv/bin/ringtrain run -f examples/gpt-text.yaml

test: lint ## all tests, those on a real Kubernetes (as root) included
	@if [ "$$(id -u)" = 0 ] && [ -z "$$RINGTRAIN_TEST_KUBECONFIG" ]; then testbed/install-deps; fi
	.venv/bin/pytest $(TESTS)

bench: setup ## the benchmarks, at their shortest: prove that they run, decide nothing (communication as root)
	.venv/bin/python bench/codec.py --quick
	.venv/bin/python bench/loss.py --quick
	.venv/bin/python bench/pipeline.py --quick
	.venv/bin/python bench/checkpoint.py --quick
	.venv/bin/python bench/communication.py --quick

lint: setup ## formatting, style, types and layers
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/mypy tests testbed
	.venv/bin/lint-imports
