# Everything that a person or CI does with this checkout. `make` alone prints the list.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules
# Images of containers often set it. Without compiled files every start of a program takes twice the time.
unexport PYTHONDONTWRITEBYTECODE

PORT ?= 8080
ARGS ?=
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
NO_PACKAGES := echo "pip's reason is above. The first start needs a network to a package index; a proxy is named by" \
  "HTTPS_PROXY, a mirror by PIP_INDEX_URL. Then type the command again." >&2; exit 1
PYTHON_STAMP := $(VENV)/.stamp-python
RUN_STAMP := $(VENV)/.stamp-run
DEV_STAMP := $(VENV)/.stamp-dev
BENCHMARKS := ingest ingest-single trigger throughput pipeline lateness burst webhooks startup growth lists memory lanes fairness

# An environment that was moved, or whose interpreter is gone, is forgotten here and made anew below.
$(shell { $(BIN)/python -c '' && grep -qF '$(CURDIR)/$(BIN)/python' $(BIN)/pip; } 2>/dev/null || rm -f $(VENV)/.stamp-*)

##@ Use it

.PHONY: run
run: $(RUN_STAMP) ## install what is missing, then start everything on PORT (default 8080)
	@exec $(BIN)/tickwheel dev --port $(PORT) $(ARGS)

.PHONY: install
install: $(RUN_STAMP) ## make .venv with the package in it, so that .venv/bin/tickwheel works
	@echo "$(BIN)/tickwheel is ready"

##@ Prove it

.PHONY: test
test: $(DEV_STAMP) ## run the tests (ARGS='-k wheel' picks some)
	@echo "== tests"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not faults" $(ARGS)

.PHONY: test-faults
test-faults: $(DEV_STAMP) ## break PostgreSQL, etcd and nodes while they work, in the short forms
	@echo "== faults"
	@$(BIN)/python -m pytest -n 1 -m faults $(ARGS)

.PHONY: check
check: format lint types contracts sizes leaks dependencies docs bench-smoke test-faults test ## run what CI runs (which tells 1,000 stories of the simulation besides)

.PHONY: format
format: $(DEV_STAMP) ## check the format
	@echo "== format"
	@$(BIN)/ruff format --check --quiet . || { echo "'make fmt' mends it."; exit 1; }

.PHONY: lint
lint: $(DEV_STAMP) ## check the lint rules
	@echo "== lint"
	@$(BIN)/ruff check .

.PHONY: types
types: $(DEV_STAMP) ## check the types of sources, tools, tests and benchmarks, strictly
	@echo "== types"
	@$(BIN)/mypy

.PHONY: contracts
contracts: $(DEV_STAMP) ## check which floor imports which
	@echo "== import contracts"
	@$(BIN)/lint-imports

.PHONY: sizes
sizes: $(DEV_STAMP) ## check that no file has grown too long
	@echo "== file sizes"
	@$(BIN)/python tools/check_file_sizes.py

.PHONY: leaks
leaks: $(DEV_STAMP) ## check that no file names a private path or a package host
	@echo "== leaks"
	@$(BIN)/python tools/check_no_leaks.py

.PHONY: dependencies
dependencies: $(DEV_STAMP) ## check that dependencies are pinned, declared, used and under allowed licences
	@echo "== dependencies"
	@$(BIN)/python tools/check_dependencies.py

.PHONY: audit
audit: dependencies ## the same, and ask a service for known vulnerabilities (needs a network)
	@$(BIN)/python tools/known_vulnerabilities.py

.PHONY: docs
docs: $(DEV_STAMP) ## check links, commands and generated parts of the docs
	@echo "== docs"
	@$(BIN)/python tools/check_doc_links.py
	@$(BIN)/python tools/state_diagram.py --check
	@$(BIN)/python tools/http_api_page.py --check
	@$(BIN)/python tools/cli_reference.py --check
	@$(BIN)/python tools/settings_reference.py --check
	@$(BIN)/python tools/fault_table.py --check
	@$(BIN)/python tools/metrics_reference.py --check
	@$(BIN)/python tools/grafana_dashboard.py --check

.PHONY: bench-smoke
bench-smoke: $(DEV_STAMP) ## run each benchmark once, tiny, so that none rots
	@echo "== benchmarks, smoke"
	@$(BIN)/python tools/check_benchmarks.py $(BENCHMARKS) failover takeover overload
	@$(BIN)/python bench/cron.py --iterations 1 --repeats 1 > /dev/null
	@$(BIN)/python bench/wheel.py --timers 2000 > /dev/null
	@$(BIN)/python bench/webhook_client.py --posts 100 > /dev/null
	@$(BIN)/python bench/sqlite_store.py --jobs 500 > /dev/null
	@$(BIN)/python bench/metrics.py --rounds 20 > /dev/null
	@$(BIN)/python -m bench.queues --hints 2000 > /dev/null
	@$(BIN)/python -m bench.redis_buckets --timers 2000 > /dev/null
	@$(BIN)/python -m bench.redis_caches --rounds 1 --jobs 100 > /dev/null
	@$(BIN)/python -m bench.dashboard --jobs 500 > /dev/null
	@$(BIN)/python -m bench.audit_log --rounds 1 --jobs 200 > /dev/null
	@$(BIN)/python -m bench.sealing_parts --jobs 100 > /dev/null

.PHONY: bench
bench: $(RUN_STAMP) ## run the benchmarks at full size on SQLite, one JSON line each
	@for name in $(BENCHMARKS); do $(BIN)/tickwheel bench $$name --json $(ARGS) || exit 1; done

.PHONY: bench-peers
bench-peers: $(DEV_STAMP) ## run the same workloads on other schedulers too, about half an hour, into docs/benchmarks.md
	@$(BIN)/python -m bench.peers --write docs/benchmarks.md $(ARGS)

.PHONY: simulate
SEEDS ?= 500
simulate: $(DEV_STAMP) ## tell many random stories on virtual time, of clusters and of one process (SEEDS=500)
	@SIMULATION_SEEDS=$(SEEDS) $(BIN)/python -m pytest -n $(WORKERS) tests/simulation/test_simulation.py \
	  tests/services/test_random_histories.py $(ARGS)

.PHONY: fuzz
INPUTS ?= 200000
fuzz: $(DEV_STAMP) ## feed odd input to every parser, and to the server through its OpenAPI document (INPUTS=200000)
	@$(BIN)/python -m tests.fuzz --inputs $(INPUTS) --workers $(WORKERS) $(ARGS)
	@TESTS_EXAMPLES=60 $(BIN)/python -m pytest -s -n 0 --timeout=0 tests/interfaces/http/test_schemathesis.py

.PHONY: chaos
chaos: chaos-sqlite chaos-cluster chaos-workers ## run the crash tests in their long form: real processes, kills, stops, partitions

.PHONY: chaos-sqlite
chaos-sqlite: $(DEV_STAMP) ## kill -9 a server on SQLite again and again under load
	@$(BIN)/python -m tests.acceptance.crash sqlite $(ARGS)

.PHONY: chaos-cluster
chaos-cluster: $(DEV_STAMP) ## break three nodes on one PostgreSQL for two minutes
	@$(BIN)/python -m tests.acceptance.crash cluster $(ARGS)

.PHONY: chaos-workers
chaos-workers: $(DEV_STAMP) ## break nodes, workers inside and outside, and Redis for two minutes
	@$(BIN)/python -m tests.acceptance.crash workers $(ARGS)

.PHONY: test-engines
VERSION_TESTS := -k "not sqlite and not memory" tests/conformance tests/adapters/postgresql \
  tests/interfaces/cli/test_migrate_cluster.py tests/postgresql_faults/test_nodes.py
test-engines: $(DEV_STAMP) ## run the fault suites in their long forms, and the store on each PostgreSQL there is
	@TESTS_LONG=1 $(BIN)/python -m pytest -n 1 --timeout=900 tests/postgresql_faults $(ARGS)
	@for folder in $$($(BIN)/python -m tests.servers.postgresql_binaries); do \
	  echo "== $$($$folder/postgres --version)"; \
	  TESTS_POSTGRESQL_BIN=$$folder $(BIN)/python -m pytest -n 1 --timeout=300 $(VERSION_TESTS) $(ARGS) || exit 1; \
	done

##@ Change it

.PHONY: fmt
fmt: $(DEV_STAMP) ## format the code and mend what lint can mend
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .
	@$(BIN)/python tools/state_diagram.py
	@$(BIN)/python tools/http_api_page.py
	@$(BIN)/python tools/cli_reference.py
	@$(BIN)/python tools/settings_reference.py
	@$(BIN)/python tools/fault_table.py
	@$(BIN)/python tools/metrics_reference.py
	@$(BIN)/python tools/grafana_dashboard.py

.PHONY: lock
lock: $(DEV_STAMP) ## resolve the dependencies anew into the three lock files
	@sh tools/lock.sh $(VENV)

.PHONY: clean
clean: ## remove what was built and cached, .venv too (your data in .tickwheel stays)
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests tools bench -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help: ## print this list
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(PYTHON_STAMP):
	@sh tools/make_venv.sh $(VENV)
	@touch $@

$(RUN_STAMP): requirements-build.lock requirements.lock pyproject.toml | $(PYTHON_STAMP)
	@echo "Installing Tickwheel into $(VENV) (a minute at most; the next time is quick)"
	@$(PIP) install --require-hashes -r requirements-build.lock -r requirements.lock || { $(NO_PACKAGES); }
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV_STAMP): requirements-dev.lock $(RUN_STAMP)
	@echo "Installing what tests and checks need into $(VENV)"
	@$(PIP) install --require-hashes -r requirements-dev.lock || { $(NO_PACKAGES); }
	@touch $@
