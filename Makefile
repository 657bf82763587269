# make ask      installs what is needed, fetches the default models, builds the index, answers a question
# make test     installs what the tests need and runs all of them
# make check    formatting, lint, types, import rules, corpus and documentation checks
# make bench    measures speed beside what a user would pick instead
# All of them work on a machine that has Python 3.11 or newer, make and a package mirror.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip
Q      ?= How do I request two A100 GPUs for 12 hours on Meridian?
TESTS  ?= tests

.PHONY: ask install test check bench clean models fmt
.DELETE_ON_ERROR:

ask: $(VENV)/.base
	@$(BIN)/hpcllm models pull
	@$(BIN)/hpcllm ingest >/dev/null
	@$(BIN)/hpcllm ask "$(Q)"

install: $(VENV)/.base

models: $(VENV)/.base
	@$(BIN)/hpcllm models pull

# A stamp is newer than what it was made from, so that a repeated make does nothing.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed, and $(PYTHON) is older: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(BIN)/python pyproject.toml constraints.txt
	@$(PIP) install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.test: $(VENV)/.base
	@$(PIP) install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,web,slack]'
	@touch $@

test: $(VENV)/.test models
	$(BIN)/python -m pytest $(TESTS)

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m tests.checks

fmt: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test models
	$(BIN)/python -m tests.bench

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
