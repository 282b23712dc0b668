# Every command of the project. `make` prints them.

PYTHON ?= $(firstword $(foreach p,python3 python3.14 python3.13 python3.12 python3.11,$(shell $(p) -c 'import sys; sys.version_info >= (3, 11) and print("$(p)")' 2>/dev/null)) python3)
PYTEST_ARGS ?=
SECTION ?= test
ARGS ?=
SEEDS ?= 2000
FIRST ?=
MUTANTS ?=
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
BIN := .venv/bin

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo dashboards test test-all simulate-faults lint format bench docs docs-serve docs-pages docs-check mutants apt clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: .venv/installed-test ## create .venv with all that tests and checks need (PYTHON=python3.12 to choose one)

.venv/created:
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON) here: install Python 3.11 or newer, or name one with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is $$($(PYTHON) -V 2>&1), 3.11 or newer is needed: name one with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) has no venv module: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

# torch comes first and alone, so that nothing else can pull another build of it.
.venv/installed-torch: .venv/created
	$(BIN)/pip install torch==2.13.0
	@touch $@

.venv/installed-demo: pyproject.toml .venv/installed-torch
	$(BIN)/pip install -e '.[torch,examples]'
	@touch $@

.venv/installed-test: pyproject.toml .venv/installed-torch
	$(BIN)/pip install -e '.[torch,examples,simulate,docs,test]'
	@touch .venv/installed-demo .venv/installed-docs $@

.venv/installed-docs: pyproject.toml .venv/created
	$(BIN)/pip install -e '.[docs]'
	@touch $@

.venv/installed-mutants: pyproject.toml .venv/installed-test
	$(BIN)/pip install -e '.[mutants]'
	@touch $@

demo: .venv/installed-demo ## see two training jobs share four slots (about a minute after installation)
	@$(BIN)/python examples/demo.py

dashboards: .venv/installed-demo ## Prometheus and, where it is installed, Grafana over a running daemon (ARGS="--url http://...")
	@$(BIN)/python -m grafana.show $(ARGS)

# More processes than there are cores: tests with daemons and workers mostly wait.
test: venv apt ## that the product works, in a few minutes (PYTEST_ARGS="-k name" to choose)
	$(BIN)/python -m pytest -n $$(($(JOBS) + 1)) -m "not slow and not kubernetes" $(PYTEST_ARGS)

test-all: venv apt ## every test, with coverage (PYTEST_ARGS="-m slow" to choose by cost)
	$(BIN)/python -m pytest -n $$(($(JOBS) + 1)) --durations=20 --cov --cov-report=term $(PYTEST_ARGS)

simulate-faults: venv ## random clusters, workloads and faults against the engine, others in every run (SEEDS=2000 FIRST=0 JOBS=cores)
	$(BIN)/python -m tests.faults --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST)) --jobs $(JOBS)

mutants: .venv/installed-mutants ## wrong lines that no test notices (MUTANTS="scheduler.bounds*" to choose; then .venv/bin/mutmut show NAME)
	$(BIN)/mutmut run --max-children $(JOBS) $(MUTANTS)
	$(BIN)/mutmut results

lint: venv ## style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: venv ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: venv ## run every benchmark (first: make apt SECTION=bench)
	$(BIN)/python -m benchmarks

docs: .venv/installed-docs ## build the documentation as a site, below site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docs-serve: .venv/installed-docs ## show the documentation at http://127.0.0.1:8000 while it is written
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

docs-pages: .venv/installed-docs ## write the pages and charts anew that are made from the code and from figures
	$(BIN)/python -m docs.generate

docs-check: venv ## check that the documents are true
	$(BIN)/python -m pytest tests/docs $(PYTEST_ARGS)

# Installs as root on Debian and its kin; elsewhere it names what is missing. Never fails: tests skip what they cannot run.
apt: ## install the Debian packages that tests use (SECTION=bench for the benchmarks')
	@missing=; \
	for package in $$(sed -n '/^\[$(SECTION)\]/,/^$$/ { /^[a-z]/p }' packages.debian); do \
	  dpkg-query -W -f '$${db:Status-Abbrev}' "$$package" 2>/dev/null | grep -q '^ii' || missing="$$missing $$package"; \
	done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing && exit 0; \
	fi; \
	echo "not installed:$$missing (what needs it is skipped); as root: apt-get install$$missing"

clean: ## remove .venv and everything that tools have left
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage build dist site mutants
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
