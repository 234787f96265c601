# Two commands: `make demo` runs the main job, `make test` passes the tests.
# Both build .venv in this folder; nothing outside the folder is touched, except that `make test`
# installs Mosquitto where it is missing, the user is root and the system is Debian.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= auto

.PHONY: demo test check unit mosquitto bench docs results clean
.DEFAULT_GOAL := help

help:
	@echo "make demo     run the whole loop for half a minute in the terminal"
	@echo "make test     lint, types, tests with coverage"
	@echo "make check    lint and types only"
	@echo "make bench    the benchmarks, as ratios measured in one run"
	@echo "make docs     regenerate the reference documents"
	@echo "make results  evaluate in full (half an hour) and rewrite docs/results.md"
	@echo "make clean    remove .venv and caches"

$(VENV)/python: Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hushmq needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/demo: $(VENV)/python pyproject.toml
	@echo "installing hushmq[demo] into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo]'
	@touch $@

$(VENV)/dev: $(VENV)/python pyproject.toml
	@echo "installing hushmq[dev] into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
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
	@$(BIN)/pytest -n $(WORKERS) --cov --cov-report=term $(ARGS)

bench: $(VENV)/dev
	@$(BIN)/python -m hushmq.evaluation.benchmarks $(ARGS)

docs: $(VENV)/dev
	@$(BIN)/python -m hushmq.documents.write_documents

results: $(VENV)/dev
	@$(BIN)/hushmq evaluate $(ARGS)
	@$(BIN)/python -m hushmq.evaluation.results_page

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* build *.egg-info src/*.egg-info
