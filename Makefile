# Everything runs in a virtual environment that is made here; the first run downloads what it needs.

# Another Python or Django: make test PYTHON=python3.13 DJANGO='Django~=6.1.0'
PYTHON ?=
DJANGO ?=
VENV ?= .venv$(if $(PYTHON)$(DJANGO),-$(shell printf '%s' '$(notdir $(PYTHON)) $(DJANGO)' | tr -cs 'A-Za-z0-9.' '-'))

# Which engines (ENGINES=sqlite,postgresql), whether all must be there (REQUIRE_ALL=1), and what
# else pytest or a benchmark gets (ARGS='-k claim').
ENGINES ?=
REQUIRE_ALL ?=
ARGS ?=
BENCH ?= $(filter-out _%,$(basename $(notdir $(wildcard tests/benchmarks/*.py))))

python := $(VENV)/bin/python
run := $(python) -m tests.run $(if $(ENGINES),--engines '$(ENGINES)') $(if $(REQUIRE_ALL),--require-all)

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow storm lint format bench install clean
.DELETE_ON_ERROR:

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.demo  ## Index a real folder with the example project and show its pages
	$(python) example_project/manage.py demo

test: $(VENV)/.dev  ## Run the tests on SQLite, PostgreSQL and, where one answers, MariaDB
	$(run) $(ARGS)

test-slow: $(VENV)/.dev  ## Run the tests that take minutes
	$(run) -m slow $(ARGS)

storm: $(VENV)/.dev  ## Kill workers and break databases for minutes, then look for what was lost (ARGS='--seed 7')
	DURABLE=1 $(run) --module tests.storm $(ARGS)
	$(run) -n0 -m slow tests/storm/test_hosts.py tests/storm/test_sqlite_load.py

lint: $(VENV)/.dev  ## Check style, types and that no migration is missing
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(python) -m tests.run --engines sqlite --module django makemigrations --check --dry-run django_sqlqueue

format: $(VENV)/.dev  ## Rewrite the code in the project's style
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(VENV)/.dev  ## Run the benchmarks (BENCH=claim_cost for one of them)
	export DURABLE=1; $(foreach name,$(BENCH),$(run) --module tests.benchmarks.$(name) $(ARGS) &&) true

install: $(VENV)/.dev  ## Make the virtual environment for all of the above

clean:  ## Remove what was made here, the virtual environments too
	rm -rf .venv .venv-* build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(python):
	@for candidate in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11); do \
		if $$candidate -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "Making $(VENV) with $$($$candidate --version)"; \
			$$candidate -m venv $(VENV) && $(python) -m pip install --quiet --upgrade pip; exit; \
		fi; \
	done; \
	echo "No Python 3.11 or newer with the venv module was found (on Debian: apt install python3-venv)." >&2; \
	echo "Name one: make PYTHON=/path/to/python3" >&2; \
	exit 1

$(VENV)/.demo: pyproject.toml | $(python)
	$(python) -m pip install --quiet --editable '.[cron,postgres]' --group example $(if $(DJANGO),'$(DJANGO)')
	@touch $@

$(VENV)/.dev: pyproject.toml | $(python)
	$(python) -m pip install --quiet --editable '.[cron,postgres]' --group dev $(if $(DJANGO),'$(DJANGO)')
	@touch $@
