# One door. `make` alone explains each target; each does its own set-up in a fresh clone.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

export PYTHON
READY := .venv/.ready
RUN := .venv/bin/python
PYTEST := $(RUN) -m pytest
RESULTS := benchmarks/results
# Put before what starts Spark: a Java that is new enough is found, or installed.
JAVA = JAVA_HOME="$$(tools/java)"; export JAVA_HOME;
# The same where Java is started again and again, and nothing is measured: it starts in half the time, and runs slower.
CLASSES := .venv/classes.jsa
OFTEN = $(JAVA) [ -e $(CLASSES) ] || tools/classes $(CLASSES); \
	export SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:SharedArchiveFile=$(CURDIR)/$(CLASSES) -Xlog:disable";

# What `make bench` measures of the engine, one after the other; each writes its results.
MEASURED := engine joins dedupe per_key idle_keys lookups hot_joins thousand_events hot_keys memory great_state latency \
	slow_sink kafka_source kafka_sink postgres_upsert

# The tests of what lies outside the inner rings, where Java or servers may be needed.
OUTSIDE := $(addprefix tests/,spark sinks sources clients operations cli test_servers.py)

# Most of the work of the laws: the table of kernel = oracle.
TABLE := tests/laws/test_agreement_of_kernel_and_oracle.py

# Two processes, each given one test at a time in the order that tests/conftest.py makes: the longest first.
SHARED := -n 2 --dist load --maxschedchunk 1

# It takes hours in the long lane, so that each kind of window is a target of its own there.
AGREEMENTS := $(addprefix agreement-,tumbling hopping session global same)

# What the tests of the long lane say, into a file of this name: $(call prove,name,which tests)
prove = { echo "\# make $@, $$(date -u +%F), $$(git rev-parse --short HEAD), $$($(RUN) --version), $$(nproc) cores"; \
	STRANDLINE_LANE=prove $(PYTEST) --no-header -q $(SHARED) -m "" $(2) \
	| sed -u "/^bringing up nodes/d"; } | tee $(RESULTS)/$(1).txt

.PHONY: help demo test check style types bench chaos docs prove laws flows lock format clean soak $(AGREEMENTS)

help: ## Explain each target
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## Run a flow on Spark, kill it in the middle, and see that nothing is lost (a minute or so)
	@$(JAVA) $(RUN) -m strandline demo

test: style types ## Everything CI runs: check, plus the laws and what needs Spark, Kafka, PostgreSQL, Redis (minutes)
	@tools/servers || echo "Tests that need a server which is not there are skipped, and say so."
	$(OFTEN) $(PYTEST) $(SHARED) --durations 15 -m "not prove"

check: style types ## Style, types, import rings, fast tests: no JVM, under two minutes
	$(PYTEST) -n 2 -q

style: $(READY) ## Ruff only: lint and format
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

types: $(READY) ## Mypy only: strict
	$(RUN) -m mypy

bench: $(READY) ## Measure the kernel against Polars, the engine against Spark's own streaming, sources and sinks (hours; a quiet machine)
	@tools/servers
	$(RUN) -m benchmarks.kernel
	$(JAVA) for part in $(MEASURED); do $(RUN) -m benchmarks.$$part || failed="$${failed-} $$part"; done; \
	    [ -z "$${failed-}" ] || { echo "over their limits:$$failed"; exit 1; }

chaos: $(READY) ## The crash matrix: 200 faults done to a flow, 170 to operators, 300 to sinks and servers; ten incidents that health must name (hours)
	@tools/servers
	@$(OFTEN) for part in chaos chaos.operators chaos.servers chaos.incidents; do $(RUN) -m $$part || failed=1; done; [ -z "$${failed-}" ]

soak: $(READY) ## Run a flow at 20,000 events/s and see that memory, files, state and manifests do not grow (half an hour)
	$(JAVA) $(RUN) -m benchmarks.soak

docs: $(READY) ## Write the generated pages and pictures of docs/ again; some of what they show is run on Spark
	$(JAVA) $(RUN) -m docs.generate

prove: laws flows chaos soak bench ## The long lane, outside CI: all of these, many hours; results are committed

laws: $(AGREEMENTS) ## Ten times the examples of every law of the inner rings, freshly drawn (hours; no JVM); writes benchmarks/results/{agreement-*,laws}.txt
	@$(call prove,laws,$(addprefix --ignore ,$(TABLE) $(OUTSIDE)))

# A process for each of the three modes.
$(AGREEMENTS): agreement-%: $(READY)
	@$(call prove,$@,-n 3 $(TABLE) -k $*)

flows: $(READY) ## The same on Spark and with servers: all transcripts, 1,000 drawn flows (hours); writes benchmarks/results/flows.txt
	@$(OFTEN) $(call prove,flows,$(OUTSIDE))

lock: ## Resolve requirements.lock again from pyproject.toml (needs uv)
	@command -v uv >/dev/null || { echo "error: uv is not installed."; echo "  fix: python3 -m pip install uv"; exit 1; }
	uv pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes --no-annotate \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    --extra all --group dev pyproject.toml --output-file requirements.lock

format: $(READY) ## Let ruff mend what it can
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

clean: ## Remove everything that make has made, .venv included
	rm -rf .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml tools/setup
	@tools/setup
	@touch $@
