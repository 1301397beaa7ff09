# Everything happens in .venv, with uv where it is installed and plain pip where not. The tests of MCP have .venv-mcp:
# what openenv needs, which the other tests talk to, excludes mcp 2.

PYTHON ?= python3
BIN := .venv/bin
MCP := .venv-mcp/bin
# Many tests wait for servers and containers, so that one worker more than there are cores uses these well.
WORKERS ?= $(shell expr $$(nproc) + 1)
install = $(shell command -v uv >/dev/null 2>&1 && echo "uv pip install --quiet --python $(1)/python" || echo "$(1)/python -m pip install --quiet --disable-pip-version-check")
# Tests start hundreds of processes, and each would compile what it imports: a server took 1.0 s of CPU, not 0.3.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-kubernetes check format bench clean

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

setup: .venv/.dev .venv-mcp/.dev .venv-mcp/.npm  ## make .venv and .venv-mcp with all that development needs

demo: .venv/.train  ## make an environment, drive it, train on it (half a minute, most of it the first install)
	@$(BIN)/python -m envweave.examples.demo

test: .venv/.dev .venv-mcp/.dev .venv-mcp/.npm  ## run the tests, WORKERS=… of them at once
	$(BIN)/python -m pytest --ignore=tests/mcp --ignore=tests/kubernetes -n $(WORKERS) --dist loadscope --no-loadscope-reorder; \
	first=$$?; $(MCP)/python -m pytest tests/mcp && exit $$first

test-kubernetes: .venv/.dev  ## run the tests that need a cluster, which they start: see docs/kubernetes.md
	$(BIN)/python -m pytest tests/kubernetes

check: .venv/.dev  ## style, types, import directions
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.dev  ## let ruff write the style
	$(BIN)/ruff check --fix src tests bench
	$(BIN)/ruff format src tests bench

bench: .venv/.dev  ## measure against gymnasium, OpenEnv, smolagents and docker; writes bench.json
	$(BIN)/python -m bench --out bench.json

clean:  ## remove .venv, .venv-mcp and what tools leave behind
	rm -rf .venv .venv-mcp build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

.venv/bin/python .venv-mcp/bin/python: %/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "envweave needs Python 3.11 or newer, $(PYTHON) is older"; echo "hint: make PYTHON=python3.12 …"; exit 1; }
	@echo "making $*"
	@if command -v uv >/dev/null 2>&1; then uv venv --quiet --python $(PYTHON) $*; else $(PYTHON) -m venv $*; fi

.venv/.train: pyproject.toml | .venv/bin/python
	@echo "installing envweave and what its training examples need"
	@$(call install,$(BIN)) -e '.[train]'
	@touch $@

.venv/.dev: pyproject.toml | .venv/bin/python
	@echo "installing envweave and what its tests need"
	@$(call install,$(BIN)) torch==2.13.0
	@$(call install,$(BIN)) -e '.[dev]'
	@touch $@ .venv/.train

.venv-mcp/.dev: pyproject.toml | .venv-mcp/bin/python
	@echo "installing what the tests of MCP need"
	@$(call install,$(MCP)) -e '.[dev-mcp]'
	@touch $@

.venv-mcp/.npm: tests/mcp/package.json .venv-mcp/.dev
	@echo "installing what they need from npm"
	@if $(MCP)/python tests/mcp/peers.py; then touch $@; else echo "npm has failed: tests that need its packages are skipped, and the next make tries again"; fi
