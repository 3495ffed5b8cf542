# Everything a newcomer or CI needs. `make` alone lists the targets.
# The distribution's own Python, where it can make environments: it is built with profile-guided optimisation, which one
# from pyenv is not unless asked, and the interpreter's part of a request costs a fifth less (docs/decisions/0031-which-python.md).
PYTHON ?= $(shell /usr/bin/python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
            && echo /usr/bin/python3 || echo python3)
VENV   := .venv
BIN    := $(VENV)/bin
# One more than two cores: half of the time a test waits for processes that it has started.
WORKERS ?= 3
SEEDS   ?= 200
MINUTES ?= 30
NODES   ?= 3
ITEM    ?= all
# What is run on the compiled form as well; on the sources everything is.
COMPILED_TESTS ?= $(addprefix tests/,storage replication handlers runtime protocol/test_one_fetch.py simulation/test_no_loss.py)
FORM    ?= normal
# A test that is stuck in C code, with Python's lock, heeds no time-out, and keeps the other workers from its share of the
# tests as well. This ends its worker, with the stacks of its threads; later than the time-out of any test of these targets.
UNSTICK := -o faulthandler_timeout=960 -o faulthandler_exit_on_timeout=true

.DEFAULT_GOAL := help
.PHONY: help install run test lint types imports unit compiled unit-compiled interop bench bench-full bench-quick bench-cluster bench-spark crash chaos spark-crash spark-cluster demo simulate screenshots clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(BIN)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev,console,spark]'
	touch $@

install: $(BIN)/.installed  ## make .venv with ottla and everything it needs

run: install  ## start three nodes on 127.0.0.1:9092 to 9094 with their data in ./data, and the console on 8090
	$(BIN)/ottla up --nodes 3 --data-dir data --console

demo: install  ## three nodes, made-up events and the pipeline on Spark, live; checked at the end (needs Java)
	$(BIN)/ottla demo --dir demo

test: install  ## everything that must pass: style, types, layers, tests
	$(MAKE) -j 2 lint types imports compiled
	$(MAKE) unit unit-compiled

lint: install  ## ruff: style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install  ## mypy --strict
	$(BIN)/mypy

imports: install  ## import-linter: the layers of docs/ARCHITECTURE.md
	$(BIN)/lint-imports

# Compiled first: tests start hundreds of processes, and where Python is told to write no bytecode each compiles all of it.
unit: compiled  ## pytest
	$(BIN)/python -m tests.programs
	$(BIN)/python -m compileall -q src
	$(BIN)/pytest -n $(WORKERS) --dist worksteal $(UNSTICK) -m 'not interop and not long'

compiled: install  ## the package as wheels have it, with its hot modules compiled by mypyc, in build/compiled (two minutes)
	$(BIN)/python hatch_build.py build/compiled

unit-compiled: compiled  ## pytest on it: what every request goes through, and clusters under faults
	$(BIN)/python -m compileall -q build/compiled
	PYTHONPATH=build/compiled $(BIN)/pytest -n $(WORKERS) --dist worksteal $(UNSTICK) -m 'not pure and not interop and not long' $(COMPILED_TESTS)

interop: install  ## Kafka's own tools and dump-log against a node (needs Java and Maven)
	$(BIN)/python -m tests.interop.kafka_tools
	$(BIN)/pytest -m interop tests/interop

crash: install  ## kill -9 in a long loop, and the disk that crashes anywhere, twenty times as long as in make test
	$(BIN)/pytest -m long tests/robustness
	OTTLA_CRASH_RUNS=20 $(BIN)/pytest -n $(WORKERS) tests/storage/test_crash.py

chaos: install  ## real nodes are killed, cut off, filled up and misled while clients write: make chaos MINUTES=30
	MINUTES=$(MINUTES) $(BIN)/pytest -s tests/chaos

spark-crash: install  ## a Spark query, then the pipeline, is killed in the middle of batches and started again (needs Java)
	$(BIN)/pytest -m long tests/spark tests/pipelines

spark-cluster: install  ## the demo with the pipeline on a Spark cluster of a master and two workers (needs Java)
	$(BIN)/ottla demo --dir demo-cluster --workers 2

simulate: install  ## whole clusters and nodes in virtual time under faults: make simulate SEEDS=1000 NODES=3
	$(BIN)/python -m ottla.testing.simulate --seeds $(SEEDS) --nodes $(NODES)
	SEEDS=$(SEEDS) $(BIN)/pytest -n $(WORKERS) --timeout 0 tests/simulation/test_no_loss.py tests/simulation/test_rot.py tests/simulation/test_transactions.py

bench: install  ## Ottla beside Apache Kafka into docs/benchmarks: make bench, or make bench ITEM=latency FORM=short
	$(BIN)/python -m bench $(ITEM) --form $(FORM)

bench-full: install  ## the same with every combination of settings (three hours)
	$(BIN)/python -m bench $(ITEM) --form full

bench-quick: install  ## has a message become dearer than the committed figures? (three minutes, more in a slow hour)
	$(BIN)/python -m bench quick

bench-cluster: install  ## three nodes: throughput, latency, and how long writers stand still when one dies
	$(BIN)/python -m bench cluster --form $(FORM)

bench-spark: install  ## Spark's source and sink, beside Spark's own Kafka connector on Apache Kafka (needs Java and Maven)
	$(BIN)/python -m bench spark --json bench/build/spark.json

screenshots: install  ## docs/images: the console in front of a small cluster, as a browser shows it
	$(BIN)/python -m tests.console.screenshots

clean:  ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist .interop bench/build demo demo-cluster
