# `make` alone lists the targets. Everything is installed into .venv, nothing outside it.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# Where it is set, each process compiles all it imports anew, tests with their rewritten asserts
# first: a quarter of the time of `make unit`.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
BIN := .venv/bin
# What runs cronhare on this machine, and what checks it on top of that: one environment, two stamps.
INSTALLED := .venv/installed
EQUIPPED := .venv/equipped

PIP := $(BIN)/python -m pip install --quiet
LOCKED := $(PIP) --require-hashes --only-binary :all: --no-compile
# On all cores, where pip takes one; and not at the first import, which many tests have at a time.
# What cannot be compiled is for another Python, and is told where it is imported.
COMPILE_ALL := $(BIN)/python -m compileall -qq --workers 0 .venv/lib || true

.PHONY: help
help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 16

.PHONY: install
install: $(EQUIPPED)  ## make the environment in .venv, with all that checks need

$(INSTALLED): requirements/with-page.lock requirements/build.lock pyproject.toml hatch_build.py src/adapters/process/vfork.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "cronhare needs Python 3.11 or newer; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12" >&2; exit 2; }
	@scripts/make-venv "$(PYTHON)" .venv
	@$(LOCKED) --requirement requirements/with-page.lock --requirement requirements/build.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@$(COMPILE_ALL)
	@touch $@

$(EQUIPPED): $(INSTALLED) requirements/dev.lock
	@$(LOCKED) --requirement requirements/dev.lock
	@$(COMPILE_ALL)
	@touch $@

.PHONY: run
run: $(INSTALLED)  ## start scheduler and worker on this machine, with the examples
	@exec $(BIN)/cronhare up --jobs examples/jobs.toml

.PHONY: demo-failures
demo-failures: $(INSTALLED)  ## what becomes of failures: breaker, budget, poison pill, replay, …; under a minute
	@exec $(BIN)/python -m scripts.demo_failures

# Files in their order, the browser first: the small ones at the end keep all processes busy to it.
# Much of the time servers are waited for: hence six processes on two cores, and beside them one for
# all that needs no server, which would be collected six times among them.
WITH_SERVERS := --quiet --numprocesses 6 --dist loadfile --no-loadscope-reorder

.PHONY: test types alone tests
test: $(EQUIPPED)  ## format check, lint, strict types, import contracts, unit and integration tests
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports --no-cache
	@scripts/ensure-programs
	@$(MAKE) --no-print-directory --jobs=3 types alone tests

types:  # beside the tests, which wait for servers at their beginning
	$(BIN)/mypy

alone:
	TMPDIR=$$(scripts/scratch-folder) $(BIN)/pytest --quiet -p no:xdist --doctest-modules -m "not long" --pyargs cronhare tests/unit
	cd examples/shop && ../../$(BIN)/pytest --quiet -p no:xdist -p no:cacheprovider

tests:
	TMPDIR=$$(scripts/scratch-folder) $(BIN)/pytest $(WITH_SERVERS) -m "not long" tests/browser tests/integration

# Two processes that collect their own half each: shared out test by test, both would collect all.
INNER := tests/unit/adapters tests/unit/application

.PHONY: unit unit-inner unit-others
unit: $(EQUIPPED)  ## the unit tests alone: no server, no process
	@$(MAKE) --no-print-directory --jobs=2 --output-sync unit-inner unit-others

unit-inner:
	$(BIN)/pytest --quiet -p no:xdist $(INNER)

unit-others:
	$(BIN)/pytest --quiet -p no:xdist $(INNER:%=--ignore=%) tests/unit

.PHONY: browser
browser: $(EQUIPPED)  ## the page in a real browser, which it installs; leaves screenshots in build/pictures
	@scripts/ensure-programs chromium libatomic1
	CI=true $(BIN)/pytest --quiet -p no:xdist tests/browser

CYCLES ?= 20

.PHONY: faults
faults: $(EQUIPPED)  ## every fault again and again, on private servers: CYCLES=20, some minutes each
	@scripts/ensure-programs
	$(BIN)/pytest --quiet -m long tests/integration
	$(BIN)/python -m tests.faults --cycles $(CYCLES)
	$(BIN)/python -m tests.faults.limits

.PHONY: fuzz
fuzz: $(EQUIPPED)  ## every boundary with all that may come from outside, beside the innocent
	@scripts/ensure-programs
	$(BIN)/python -m tests.fuzz $(BOUNDARIES)

.PHONY: bench
bench: $(EQUIPPED)  ## the benchmarks, beside the alternatives; some minutes
	$(BIN)/python benchmarks/bench_cron.py
	$(BIN)/python benchmarks/bench_dispatch.py

PEERS := build/peers

.PHONY: bench-peers
bench-peers: $(EQUIPPED)  ## beside Celery, Dramatiq and taskiq, in one run: SECTIONS="nothing command functions start due enqueue"
	@test -x $(PEERS)/bin/dramatiq || { scripts/make-venv "$(PYTHON)" $(PEERS) && \
	  $(PEERS)/bin/python -m pip install --quiet --requirement requirements/peers.txt; }
	@scripts/ensure-programs rabbitmq-server mariadb-server
	$(BIN)/python benchmarks/peers.py $(PEERS)/bin/python $(SECTIONS)

.PHONY: format
format: $(EQUIPPED)  ## put the code into its form
	$(BIN)/ruff format --quiet .
	$(BIN)/ruff check --quiet --fix .

# One resolution, six files: `cronhare` alone, with its page (`make run`), with all extras (the
# image), beside Django, what builds it, and what checks it. All of them are run with what the tests were run with.
COMPILE = uv pip compile --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
  --no-annotate --no-header --quiet --python-version 3.11

.PHONY: lock
lock:  ## resolve the dependencies anew into requirements/*.lock (needs uv)
	$(COMPILE) --group dev --all-extras pyproject.toml --output-file requirements/dev.lock --upgrade
	$(COMPILE) --constraint requirements/dev.lock pyproject.toml --output-file requirements/runtime.lock
	$(COMPILE) --constraint requirements/dev.lock --extra web pyproject.toml --output-file requirements/with-page.lock
	$(COMPILE) --constraint requirements/dev.lock --all-extras pyproject.toml --output-file requirements/all-extras.lock
	$(COMPILE) --constraint requirements/dev.lock --group django pyproject.toml --output-file requirements/django.lock
	echo hatchling | $(COMPILE) --constraint requirements/dev.lock - --output-file requirements/build.lock

# Old libraries use what the newer ones below them call deprecated.
LOWEST := build/lowest
ON_LOWEST = TMPDIR=$$(scripts/scratch-folder) $(LOWEST)/bin/pytest --quiet -p no:xdist -W default::DeprecationWarning

.PHONY: lowest
lowest:  ## unit tests, the ledger's and the broker's on the oldest libraries that pyproject.toml allows
	@scripts/ensure-programs rabbitmq-server mariadb-server postgresql openssl
	@scripts/make-venv "$(PYTHON)" $(LOWEST)
	@$(LOWEST)/bin/python -m pip install --quiet uv
	@$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
	  --all-extras --group test --requirement pyproject.toml --editable .
	@$(LOWEST)/bin/uv pip freeze --quiet --python $(LOWEST)/bin/python --exclude-editable | xargs echo "On"
	$(ON_LOWEST) tests/unit
	$(ON_LOWEST) tests/integration/test_claim_store_contract.py tests/integration/test_async_broker_contract.py

.PHONY: clean
clean:  ## remove the environment and what tools left behind
	rm -rf .venv $(LOWEST) .mypy_cache .pytest_cache .ruff_cache .hypothesis dist
