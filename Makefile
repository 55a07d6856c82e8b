# Everything runs in .venv, made from requirements.lock. Paths are relative, so the directory may have any name.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# The versions that the lock is made for come first.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

BIN := .venv/bin
READY := .venv/.ready
CODE := runtime operator tests e2e examples
# What fails soonest comes first, and whole jobs last.
SERVERS := $(filter-out %/__pycache__/ %/runtime/,$(wildcard tests/integration/*/))
TESTS := tests/architecture tests/unit tests/properties tests/simulation $(SERVERS) tests/integration/runtime
# A core of the slow tests shows each feature once; the rest is what `make test-long` runs.
CORE := core or not slow
REST := slow and not core and not thorough
# Much of a test's time is waiting, so that there are more workers than cores. Each has a Spark of its own: 2 GB.
WORKERS ?= 3
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# uv does not read pip's settings; a mirror configured for pip serves uv as well.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
export UV_LINK_MODE ?= copy

.PHONY: help demo bench bench-autoscaler bench-backpressure bench-batch-latency bench-buckets bench-by-hand bench-channels bench-controller bench-executors bench-increments bench-kafka bench-load bench-migrations bench-nexmark bench-page bench-postgresql chaos dist e2e e2e-all test test-all test-long test-thorough ui browser notebook generate golden hooks lint format lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(READY) ## Run the flights job, kill it on the way, compare its output with a batch (ARGS="--help")
	$(BIN)/python examples/flights/demo.py $(ARGS)

bench: $(READY) ## Measure cost, recovery, checkpoints and channels against plain Spark (ARGS="--help")
	$(BIN)/python -m bench $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m bench.channels)

bench-autoscaler: $(READY) ## Simulate automatic scaling over ten traces against Flink's (ARGS="--help")
	$(BIN)/python -m bench.autoscaler $(ARGS)

bench-backpressure: $(READY) ## Measure checkpoints and recovery while a channel is full (ARGS="--help")
	$(BIN)/python -m bench.backpressure $(ARGS)

bench-batch-latency: $(READY) ## Measure how soon readers see what each batch publishes (ARGS="--help")
	$(BIN)/python -m bench.batch_latency $(ARGS)

bench-buckets: $(READY) ## Measure finding and reading objects in a bucket against plain Spark's s3a (ARGS="--help")
	$(BIN)/python -m bench.buckets $(ARGS)

bench-by-hand: $(READY) ## Measure decoding and bad rows against plain Spark by hand (ARGS="--help")
	$(BIN)/python -m bench.by_hand $(ARGS)

bench-channels: $(READY) ## Measure what a channel and a fan-out cost against plans without (ARGS="--help")
	$(BIN)/python -m bench.channels $(ARGS)

bench-controller: $(READY) ## Measure the controller with 1,000 StreamJobs on the cluster of KUBECONFIG (ARGS="--help")
	$(BIN)/python -m bench.controller $(ARGS)

bench-executors: $(READY) ## Measure executors: CPU, checkpoints, restores, the loss of one (ARGS="--help")
	$(BIN)/python -m bench.executors $(ARGS)

bench-increments: $(READY) ## Measure checkpoints and restores with many shared files and a long history (ARGS="--help")
	$(BIN)/python -m bench.incremental $(ARGS)

bench-kafka: $(READY) ## Measure throughput from Kafka to Kafka against plain Spark's (ARGS="--help")
	$(BIN)/python -m bench.kafka $(ARGS)

bench-load: $(READY) ## Measure the rate behind a backlog, and latency by load (ARGS="--help")
	$(BIN)/python -m bench.load $(ARGS)

bench-migrations: $(READY) ## Measure the migration of state to the form of a changed query (ARGS="--help")
	$(BIN)/python -m bench.migrations $(ARGS)

bench-nexmark: $(READY) ## Measure Nexmark's queries against Flink and plain Spark (ARGS="--help")
	$(BIN)/python -m bench.nexmark $(ARGS)

bench-page: $(READY) ## Measure what the page and profiles cost a job, and its first paint; needs make browser (ARGS="--help")
	$(BIN)/python -m bench.page $(ARGS)

bench-postgresql: $(READY) ## Measure writing to PostgreSQL against Spark's JDBC writer (ARGS="--help")
	$(BIN)/python -m bench.postgresql $(ARGS)

test: lint ## Set up, check and test: all but the slow tests, in ten minutes (PYTEST_ARGS="-k name")
	$(BIN)/python -m pytest $(TESTS) $(PARALLEL) -m "$(CORE)" $(PYTEST_ARGS)

test-long: $(READY) ## Run the tests that make test leaves out and that need no cluster (PYTEST_ARGS="-k name")
	$(BIN)/python -m pytest $(TESTS) $(PARALLEL) -m "$(REST)" $(PYTEST_ARGS)

test-thorough: $(READY) ## Run the tests that show in yet another way what make test-long shows (PYTEST_ARGS="-k name")
	$(BIN)/python -m pytest $(TESTS) $(PARALLEL) -m "thorough" $(PYTEST_ARGS)

test-all: test test-long test-thorough ## Run all tests that need no cluster

e2e: $(READY) ## Run the scenarios on the cluster that KUBECONFIG names, or on a local one (PYTEST_ARGS="-k name")
	$(BIN)/python -m pytest e2e -m "not thorough" $(PYTEST_ARGS)

e2e-all: $(READY) ## Run all scenarios, the long list of what can go wrong included (PYTEST_ARGS="-k name")
	$(BIN)/python -m pytest e2e $(PYTEST_ARGS)

chaos: $(READY) ## Kill and stop a job at random moments for as long as asked (MINUTES=60 SEED=n ARGS=--published)
	$(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED)) $(ARGS)

ui: ## Build the web page of jobs from ui/; needs Node and npm
	cd ui && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && node build.js

browser: $(READY) ## Install Playwright for the tests of the web page, which also need the command chromium
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.browser.lock

notebook: $(READY) ## Install Jupyter's kernel for the tests of the example notebooks
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.notebook.lock

generate: $(READY) ## Write all generated files anew: definitions, references, the chart's copies, the jar (needs a JDK)
	$(BIN)/python -m streamjob_runtime.spark.jvm.build
	$(BIN)/python -m streamjob_operator.resources.crd
	for each in docs/generate*.py charts/generate.py; do PYTHONPATH=. $(BIN)/python $$each || exit 1; done

golden: $(READY) ## Write anew what tests compare with: views, metrics, Kubernetes objects; read the difference
	STREAMJOB_GOLDEN=write $(BIN)/python -m pytest -q tests/unit/view/test_views.py tests/unit/metrics/test_metrics.py \
		tests/unit/operator/objects/test_golden.py::test_the_golden_file_has_the_form_in_which_it_is_written

hooks: $(READY) ## Check style, imports and subjects at each commit; needs the command pre-commit
	pre-commit install --hook-type pre-commit --hook-type commit-msg

dist: $(READY) ## Build packages, chart, images, bills of materials and checksums into dist/ (ARGS="--help")
	$(BIN)/python -m release $(ARGS)

lint: $(READY) ## Check style, types and the directions of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy --show-traceback runtime operator tests $(wildcard bench e2e release)
	MYPYPATH=examples/flights $(BIN)/python -m mypy --show-traceback examples/flights
	$(BIN)/lint-imports

format: $(READY) ## Format the code and apply automatic fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: $(READY) ## Rewrite the lock with the newest versions that pyproject.toml allows
	$(BIN)/uv pip compile pyproject.toml --extra runtime --extra postgresql --extra iceberg --extra delta --extra otel --extra lineage --extra operator --group dev --python-version 3.11 \
		--upgrade --generate-hashes --no-emit-index-url --no-header --quiet -o requirements.lock
	$(BIN)/uv pip compile --group browser --python-version 3.11 --universal \
		--upgrade --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet -o requirements.browser.lock
	$(BIN)/uv pip compile --group notebook -c requirements.lock --python-version 3.11 --universal \
		--upgrade --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet -o requirements.notebook.lock
	echo uv | $(BIN)/uv pip compile - --python-version 3.11 --universal \
		--upgrade --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet -o requirements.uv.lock
	$(BIN)/uv pip compile release/requirements.in --python-version 3.11 --universal \
		--upgrade --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet -o release/requirements.lock
	$(BIN)/uv pip compile bench/nexmark/requirements.in --python-version 3.11 \
		--upgrade --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet -o bench/nexmark/requirements.lock

clean: ## Remove what the other targets made, .venv included
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build spark-warehouse ui/node_modules
	rm -rf .streamjob examples/flights/data examples/flights/output examples/flights/.streamjob
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock requirements.uv.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later with its venv module is needed (make PYTHON=...)" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.uv.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	$(BIN)/python -m streamjob_runtime.spark.warm_up
	@touch $@
