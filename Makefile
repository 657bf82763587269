# make ask      installs what is needed, fetches the default models, builds the index, answers a question
# make web      installs what the server needs and starts it with the reference site
# make test     installs what the tests need and runs all of them
# make check    formatting, lint, types, import rules, corpus and documentation checks
# make eval-smoke  answers 100 test questions with and without the ranker, and says whether the published
#               results are reproduced
# make eval-full   starts all systems on all test questions in the background; call it again to go on
# make bench    measures speed beside what a user would pick instead
# All of them work on a machine that has Python 3.11 or newer, make and a package mirror.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip
Q      ?= How do I request two A100 GPUs for 12 hours on Meridian?
TESTS  ?= tests

# Systems of corpus/systems.toml that are run.
SMOKE  ?= extractive extractive-vectors
FULL   ?= extractive extractive-vectors extractive-answers-all smollm2-135m smollm2-135m+rag \
          smollm2-135m+rag+checks hpc-smollm2-135m hpc-smollm2-135m+rag hpc-smollm2-135m+rag+checks \
          qwen2.5-coder-0.5b+rag qwen2.5-coder-0.5b+rag+checks
# Too slow for all questions on two cores: asked a fixed subset.
SUBSET ?= qwen2.5-coder-1.5b+rag qwen2.5-coder-1.5b+rag+checks

.PHONY: ask web install test check bench clean models fmt eval-smoke eval-full eval-all
.DELETE_ON_ERROR:

ask: $(VENV)/.base
	@$(BIN)/hpcllm models pull --quiet
	@$(BIN)/hpcllm ingest >/dev/null
	@$(BIN)/hpcllm ask "$(Q)"

$(VENV)/.web: $(VENV)/.base
	@$(PIP) install --quiet --disable-pip-version-check -c constraints.txt -e '.[web]'
	@touch $@

web: $(VENV)/.web models
	@$(BIN)/hpcllm ingest >/dev/null
	@$(BIN)/hpcllm serve

install: $(VENV)/.base

models: $(VENV)/.base
	@$(BIN)/hpcllm models pull --quiet

# A stamp is newer than what it was made from, so that a repeated make does nothing.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed, and $(PYTHON) is older: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(BIN)/python pyproject.toml constraints.txt
	@$(PIP) install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.test: $(VENV)/.base
	@$(PIP) install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,web,slack,train]'
	@touch $@

test: $(VENV)/.test models
	@$(BIN)/hpcllm models pull --quiet smollm2-135m-instruct
	$(BIN)/python -m pytest $(TESTS)

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m tests.checks

fmt: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

eval-smoke: models
	$(BIN)/hpcllm ingest >/dev/null
	$(BIN)/hpcllm eval run --ids corpus/questions/smoke.txt $(SMOKE:%=--only %)
	$(BIN)/hpcllm eval compare results/smoke
	$(BIN)/hpcllm eval report results/smoke --html results/smoke.html
	$(BIN)/hpcllm eval reproduce $(SMOKE:%=results/smoke/%.jsonl)

eval-full: models
	@mkdir -p results
	@nohup $(MAKE) --no-print-directory eval-all >>results/full.log 2>&1 & \
	  echo "running in the background; see results/full.log and, in the end, results/report.html"

eval-all:
	$(BIN)/hpcllm models pull smollm2-135m-instruct hpc-smollm2-135m
	$(BIN)/hpcllm models pull qwen2.5-coder-0.5b-instruct qwen2.5-coder-1.5b-instruct
	$(BIN)/hpcllm ingest >/dev/null
	$(BIN)/hpcllm eval run --split dev --only extractive-answers-all
	$(BIN)/hpcllm eval run --split test $(FULL:%=--only %)
	$(BIN)/hpcllm eval run --ids corpus/questions/subset-150.txt $(SUBSET:%=--only %)
	$(BIN)/hpcllm eval report results/test results/subset-150 --html results/report.html --markdown results/report.md

bench: $(VENV)/.test models
	$(BIN)/python -m tests.bench

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
