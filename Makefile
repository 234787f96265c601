# Two commands: `make demo` runs the main job, `make test` passes the tests.
# Both build .venv in this folder; nothing outside the folder is touched, except that `make test`
# installs Mosquitto and PostgreSQL where they are missing, the user is root and the system is Debian.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests wait for brokers and disks as much as they compute: two processes for each core.
WORKERS ?= $(shell echo $$((2 * $$(nproc))))
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist worksteal
# Versions are those of constraints.txt, also for the build. They are constraints without hashes, for every Python from
# 3.11 and every platform: pip takes no editable install where it checks hashes, and a Raspberry Pi takes its wheels from
# another index than PyPI, where the same release has other hashes.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Processes that the tests start read byte code instead of making it anew, also where the environment forbids to keep it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test quick check unit mosquitto bench docs site graph lock results clean
.DEFAULT_GOAL := help

help:
	@echo "make demo     run the whole loop for half a minute in the terminal"
	@echo "make test     lint, types, all tests (with COVERAGE=yes slower, and with coverage)"
	@echo "make quick    lint, types, and the tests that take little time and no broker (a minute)"
	@echo "make check    lint and types only"
	@echo "make bench    the benchmarks, as ratios measured in one run"
	@echo "make docs     regenerate the reference documents"
	@echo "make site     check the documents' links and build build/site from them"
	@echo "make graph    draw docs/house/imports-after.svg again, which folder imports which (needs Graphviz)"
	@echo "make lock     renew constraints.txt, the versions that make installs"
	@echo "make results  evaluate in full (half an hour) and rewrite docs/results.md"
	@echo "make clean    remove .venv and caches"

$(VENV)/python: Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hushmq needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/demo: $(VENV)/python pyproject.toml constraints.txt
	@echo "installing hushmq[demo] into $(VENV)"
	@$(PIP) setuptools
	@$(PIP) --no-build-isolation --editable '.[demo]'
	@touch $@

$(VENV)/dev: $(VENV)/python pyproject.toml constraints.txt
	@echo "installing hushmq[dev] into $(VENV)"
	@$(PIP) setuptools
	@$(PIP) --no-build-isolation --editable '.[dev]'
	@touch $(VENV)/demo $@

demo: $(VENV)/demo
	@$(BIN)/hushmq demo $(ARGS)

test: check mosquitto unit

check: $(VENV)/dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

mosquitto:
	@sh tests/install-mosquitto.sh
	@sh tests/install-postgres.sh

unit: $(VENV)/dev
	@$(PYTEST) $(if $(COVERAGE),--cov --cov-report=term) $(ARGS)

quick: check
	@$(BIN)/pytest -n auto --dist worksteal -q -m 'not slow' $(ARGS)

bench: $(VENV)/dev
	@$(BIN)/python -m hushmq.evaluation.benchmarks $(ARGS)

docs: $(VENV)/dev
	@$(BIN)/python -m hushmq.documents.write_documents

site: $(VENV)/dev
	@$(BIN)/python -m hushmq.documents.site

graph: $(VENV)/dev
	@$(BIN)/python -m hushmq.documents.import_graph docs/house/imports-after.svg

lock: $(VENV)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip compile pyproject.toml --quiet --extra dev --universal --python-version 3.11 --no-annotate \
	  --custom-compile-command 'make lock' --output-file constraints.txt $(or $(ARGS),--upgrade)

results: $(VENV)/dev
	@$(BIN)/hushmq evaluate $(ARGS)
	@$(BIN)/python -m hushmq.evaluation.results_page

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* build *.egg-info src/*.egg-info evaluation/build evaluation/*.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +
