# Every target makes .venv itself; all it needs is Python 3.11 or later.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test fuzz kill lint bench clean

demo: $(STAMP)-demo
	$(BIN)/python -m bots.demo

test: $(STAMP)-dev
	$(BIN)/python -m pytest -n 2 --dist loadgroup

fuzz: $(STAMP)-dev
	PIPECAT_ASYNC_TOOLS_FUZZ=50000 $(BIN)/python -m pytest -n 2 tests/fuzz/test_fuzz.py

kill: $(STAMP)-dev
	PIPECAT_ASYNC_TOOLS_KILL=all $(BIN)/python -m pytest -n 2 tests/kill

lint: $(STAMP)-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(STAMP)-dev
	$(BIN)/python -m benchmarks.versus_native
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.stores

$(BIN)/python:
	$(PYTHON) -m venv .venv

$(STAMP)-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	touch $@

clean:
	rm -rf .venv
