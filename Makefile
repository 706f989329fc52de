# Two commands do all the set-up: `make demo` and `make test`. Each can be run again.
PYTHON ?= python3
VENV ?= .venv
# Real processes, sockets and clusters meet a busy machine: what fails is tried once more, and the report says so (R).
ONCE_MORE := --reruns 1
BIN := $(VENV)/bin
CLUSTER ?= dev

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show what there is
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/' | expand -t 30

.PHONY: demo
demo: $(VENV)/ready ## Bring up a real cluster and run the main job on it
	$(BIN)/kueue-flux dev up --name $(CLUSTER)
	$(BIN)/python -m examples.demo --name $(CLUSTER)

.PHONY: test
test: $(VENV)/ready ## The tests: pure, on a real control plane, and on a real cluster
	$(BIN)/pytest $(ONCE_MORE) tests --ignore tests/control_plane
	$(BIN)/pytest $(ONCE_MORE) -m "not extended" tests/control_plane e2e

.PHONY: test-unit
test-unit: $(VENV)/ready ## The tests that need no cluster (minutes)
	$(BIN)/pytest $(ONCE_MORE) tests --ignore tests/control_plane

.PHONY: test-control-plane
test-control-plane: $(VENV)/ready ## The tests on kube-apiserver, Kueue and kwok
	$(BIN)/pytest $(ONCE_MORE) tests/control_plane

.PHONY: test-e2e
test-e2e: $(VENV)/ready ## The tests on kind, with real containers and real Flux
	$(BIN)/pytest $(ONCE_MORE) -m "not extended" e2e

.PHONY: test-e2e-extended
test-e2e-extended: $(VENV)/ready ## Each mode, container, volume and service on kind; takes half an hour more
	$(BIN)/pytest $(ONCE_MORE) -m extended e2e

.PHONY: lint
lint: $(VENV)/ready ## Format, types, and who may import whom
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m kueue_flux.api.crd --check
	$(BIN)/python -m kueue_flux.api.docs --check

.PHONY: generate
generate: $(VENV)/ready ## Write what is generated from the models: CRDs and docs
	$(BIN)/python -m kueue_flux.api.crd
	$(BIN)/python -m kueue_flux.api.docs

.PHONY: bench
bench: $(VENV)/ready ## Measure kueue-flux beside plain Jobs
	$(BIN)/python -m bench

.PHONY: up
up: $(VENV)/ready ## Bring up the kind dev cluster, with Kueue and this checkout's kueue-flux in it
	$(BIN)/kueue-flux dev up --name $(CLUSTER)

.PHONY: down
down: ## Take the dev cluster down; nothing of it stays on the machine
	@if [ -x $(BIN)/kueue-flux ]; then $(BIN)/kueue-flux dev down --name $(CLUSTER); else echo "no cluster was brought up from here"; fi

.PHONY: clean
clean: ## Remove the virtual environment and caches inside the checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache dist build

# The environment is rebuilt when what it is made from changes.
$(VENV)/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python's venv module is missing; on Debian: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@echo "Installing kueue-flux and its tools into $(VENV): a minute or several, by the network, without a word from pip"
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@
