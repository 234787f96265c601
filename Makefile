# Two commands: `make demo` runs the main job, `make test` passes the tests.
# Both build .venv in this folder; nothing outside the folder is touched, except that `make test`
# installs Mosquitto, PostgreSQL and Chromium where they are missing, the user is root and the system is Debian.
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

.PHONY: help demo test test-integrations tutorials fuzz power-cut model soak quick check unit mosquitto bench stranger docs site graph screenshots lock results attacks pages paper mutants deb test-deb sbom audit clean fleet fleet-soak
.DEFAULT_GOAL := help

help:
	@echo "make demo     run the whole loop for half a minute in the terminal"
	@echo "make test     lint, types, all tests (with COVERAGE=yes slower, and with coverage)"
	@echo "make quick    lint, types, and the tests that take little time and no broker (a minute)"
	@echo "make fuzz     the fuzzers for an hour of processor time (FUZZ_S: seconds for each of them)"
	@echo "make power-cut  a power cut at every write and sync of outbox and ledger, for longer (TIMES)"
	@echo "make model    100,000 steps of device, broker and calibrator with faults in any order (RUNS of 100)"
	@echo "make fleet    many cohorts on a few workers, with faults, each checked to the last tick (ARGS=--help)"
	@echo "make fleet-soak  a fault every 30 s on 200 devices of a fleet, on both brokers, with its workers' memory (SOAK_S)"
	@echo "make test-integrations  install Home Assistant and Node-RED in build/integrations, and try both with a site"
	@echo "make tutorials  simulate the tutorials' sites, and draw their pictures again"
	@echo "make soak     20 minutes of faults on 50 devices, three combinations of broker and database, and the models for longer"
	@echo "make check    lint and types only"
	@echo "make bench    the benchmarks, as ratios measured in one run"
	@echo "make stranger time the way from an empty environment to the first release (three minutes)"
	@echo "make docs     regenerate the reference documents"
	@echo "make site     check the documents' links and build build/site from them"
	@echo "make graph    draw docs/house/imports-after.svg again, which folder imports which (needs Graphviz)"
	@echo "make screenshots  take the pictures of docs/console again (needs Chromium)"
	@echo "make lock     renew constraints.txt, the versions that make installs"
	@echo "make results  run the sections of docs/results.md that are stale in full (ARGS=SECTION: in any case), and write the page"
	@echo "make attacks  run the attack suite in full (two minutes) and rewrite docs/attacks.md"
	@echo "make pages    all of that, with the replayed recordings, the references and the paper (half an hour or more)"
	@echo "make paper    typeset docs/paper with the numbers of docs/results.md, in build/paper (installs pandoc and typst there)"
	@echo "make mutants  put small faults into privacy-relevant code, and see that tests notice (ARGS=\"FILE --each 0\")"
	@echo "make deb      build the Debian packages hushmq-agent and hushmq-site in build/deb (ARCHITECTURE=arm64 for others)"
	@echo "make test-deb build them, and install, start and remove them in a Debian 12 of its own (root, debootstrap)"
	@echo "make sbom     list what agent and site are installed with, in build/sbom (CycloneDX)"
	@echo "make audit    look for known vulnerabilities in it (needs an advisory service; Error 3: it does not answer)"
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

# While mypy takes one core, the other compiles the tests, which each of pytest's processes would do again.
test: $(VENV)/dev
	@$(BIN)/pytest --collect-only -q >/dev/null 2>&1 & $(MAKE) --no-print-directory check mosquitto; checked=$$?; wait; exit $$checked
	@$(MAKE) --no-print-directory unit

check: $(VENV)/dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

mosquitto:
	@sh tests/install-mosquitto.sh
	@sh tests/install-postgres.sh
	@sh tests/install-browser.sh

# Fuzzers for FUZZ_S seconds of processor time each, and as many runs of the model (make fuzz FUZZ_S=1200 ARGS=tests/agent/test_fuzz.py).
FUZZ_S ?= 900
fuzz: $(VENV)/dev
	@HUSHMQ_FUZZ_S=$(FUZZ_S) HUSHMQ_MODEL_RUNS=$(FUZZ_S) HUSHMQ_FUZZ_SEED=$$(date +%s) $(BIN)/pytest -n 2 -q --timeout 0 $(or $(ARGS),tests/agent/test_fuzz.py tests/calibrator/test_fuzz.py tests/hushmq/test_fuzz_readers.py tests/hushmq/test_fuzz_files.py tests/test_model.py)

RUNS ?= 1000
model: $(VENV)/dev
	@HUSHMQ_MODEL_RUNS=$(RUNS) $(BIN)/pytest -n 2 -q --timeout 0 tests/test_model.py tests/test_delivery_model.py $(ARGS)

# A fault every ten seconds for SOAK_S seconds on each combination; records and figure are in build/soak.
SOAK_S ?= 400
soak: $(VENV)/dev mosquitto
	@rm -rf build/soak
	@failed=; for pair in "nats sqlite" "mosquitto sqlite" "nats postgres"; do set -- $$pair; \
	  $(BIN)/python -m tests.soak.run_soak --broker $$1 --database $$2 --seconds $(SOAK_S) --out build/soak $(ARGS) || failed=yes; \
	done; $(BIN)/python -m tests.soak.soak_figure build/soak build/soak/soak.svg; test -z "$$failed"
	@HUSHMQ_MODEL_RUNS=$(RUNS) $(BIN)/pytest -n 2 -q --timeout 0 tests/test_delivery_model.py

# A longer life of outbox and ledger, cut at each of its moments (make power-cut TIMES=20).
TIMES ?= 10
power-cut: $(VENV)/dev
	@HUSHMQ_POWER_CUT_TIMES=$(TIMES) $(BIN)/pytest -n 2 -q --timeout 0 tests/power_cut $(ARGS)

# 200 cohorts on three workers, a NATS cluster and PostgreSQL, with faults (root, for a network namespace and a small disk;
# make fleet ARGS="--cohorts 20 --faults kill,stop" needs neither).
fleet: $(VENV)/dev
	@$(BIN)/python -m tests.calibrator.fleet.fleet_faults $(ARGS)

# 200 devices of ten cohorts, a fault every 30 s for SOAK_S seconds on each broker; records and figure are in build/fleet.
fleet-soak: $(VENV)/dev mosquitto
	@for broker in nats mosquitto; do \
	  $(BIN)/python -m tests.calibrator.fleet.fleet_faults --broker $$broker --cohorts 10 --beat-s 10 --window-s 30 --grace-s 12 \
	    --collect-s 1 --claim-s 6 --faults kill,stop,node,database --soak-s $(SOAK_S) $(ARGS) || exit 1; \
	done; $(BIN)/python -m tests.soak.soak_figure build/fleet build/fleet/fleet-soak.svg
test-integrations: $(VENV)/dev mosquitto
	@sh tests/integrations/install.sh
	@$(BIN)/pytest -q -rs tests/integrations $(ARGS)

tutorials: $(VENV)/dev
	@$(BIN)/python -m hushmq.documents.tutorial_pictures $(ARGS)

unit: $(VENV)/dev
	@$(PYTEST) $(if $(COVERAGE),--cov --cov-report=term) $(ARGS)

quick: check
	@$(BIN)/pytest -n auto --dist worksteal -q -m 'not slow' $(ARGS)

bench: $(VENV)/dev
	@$(BIN)/python -m hushmq.evaluation.benchmarks $(ARGS)

# A fresh environment and an empty folder, with the defaults of a stranger, on a port that is free.
stranger: $(VENV)/python
	@rm -rf build/stranger && mkdir -p build/stranger
	@$(PYTHON) -m venv build/stranger/venv
	@build/stranger/venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt '.[demo]'
	@build/stranger/venv/bin/python tests/hushmq/setup/stranger.py build/stranger/site $(ARGS)

docs: $(VENV)/dev
	@$(BIN)/python -m hushmq.documents.write_documents

site: $(VENV)/dev
	@$(BIN)/python -m hushmq.documents.site

graph: $(VENV)/dev
	@$(BIN)/python -m hushmq.documents.import_graph docs/house/imports-after.svg

screenshots: $(VENV)/dev
	@$(BIN)/python -m tests.console.screenshots docs/console

lock: $(VENV)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip compile pyproject.toml --quiet --extra dev --universal --python-version 3.11 --no-annotate \
	  --custom-compile-command 'make lock' --output-file constraints.txt $(or $(ARGS),--upgrade)

results: $(VENV)/dev
	@$(BIN)/python -m hushmq.evaluation.results_page $(ARGS)

attacks: $(VENV)/dev
	@$(BIN)/python -m hushmq.evaluation.results_page attacks

# Everything that is measured, one after the other, and what quotes it.
pages: results
	@$(BIN)/python -m hushmq.evaluation.replay.replay_recordings
	@$(MAKE) --no-print-directory docs paper

# Where pip has no wheel of them for this system, the paper is written as Markdown only, and that is said.
paper: $(VENV)/dev
	@test -d build/paper/tools || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  --target build/paper/tools typst==0.15.0 pypandoc_binary==1.17 || rm -rf build/paper/tools
	@PYTHONPATH=build/paper/tools $(BIN)/python -m hushmq.evaluation.paper_document

mutants: $(VENV)/dev
	@$(BIN)/python -m tests.mutation.run_mutants $(ARGS)

ARCHITECTURE ?= amd64
deb: $(VENV)/dev
	@$(BIN)/python deploy/debian/build_deb.py agent --architecture $(ARCHITECTURE)
	@$(BIN)/python deploy/debian/build_deb.py site --architecture $(ARCHITECTURE)

test-deb: $(VENV)/dev
	@sh tests/deploy/try-debian-packages.sh

sbom audit:
	@PYTHON=$(PYTHON) sh deploy/supply-chain.sh $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* build *.egg-info src/*.egg-info evaluation/build evaluation/*.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +
