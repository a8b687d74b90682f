# The words of this project: make WORD. What each does is the sentence after ##; `make` alone prints them.
PYTHON ?= python3
RUN := .venv/bin
PIP := $(RUN)/python -m pip install --quiet --disable-pip-version-check
NATIVE := combine/page/native/reader.c combine/page/native/build.py
SOURCES := combine daemons formats tests bench docs

.PHONY: help install develop harvest test check lint format types docs bench bench-peers bench-scale bench-harvesters bench-steps explore soak power fuzz audit simulate clean

help: ## print these words
	@sed -n 's/^\([a-z-]*\):.*## /make \1: /p' Makefile

install: .venv/.installed ## set up .venv, with .venv/bin/combine

harvest: .venv/.installed ## harvest the bundled site on loopback, or with URL=… DEPTH=2 another
	@$(RUN)/python -m bench.demo "$${URL-}" "$${DEPTH-}"

test: .venv/.developed ## run the tests and measure what they cover
	$(RUN)/python -m pytest -n 2 --cov --cov-report= --cov-fail-under=0
	@rm -f .coverage.*  # what processes left that a test killed
	@$(RUN)/python -m coverage report --include='formats/*' --fail-under=100
	@$(RUN)/python -m coverage report --skip-covered

check: lint types test ## all that must hold before a commit: format, lint, types, import rules, tests

lint: .venv/.developed ## is the form right, and do imports go down?
	$(RUN)/ruff format --check $(SOURCES)
	$(RUN)/ruff check $(SOURCES)
	$(RUN)/lint-imports --no-logo

types: .venv/.developed ## mypy --strict
	$(RUN)/mypy

format: .venv/.developed ## give the code its form
	$(RUN)/ruff format $(SOURCES)
	$(RUN)/ruff check --fix $(SOURCES)

docs: .venv/.installed ## write the generated tables of docs/ anew
	$(RUN)/python -m docs.settings

bench: .venv/.installed ## pages/s and CPU ms per page of each process, on a synthetic web; ARGS="--pages 1000 …"
	$(RUN)/python -m bench.measure --pages 10000 --runs 3 $(ARGS)

bench-peers: .venv/.installed ## the same work by Combine and by its peers, in turns; ARGS="--runs 1 --only floor …"
	$(RUN)/python -m bench.compare $(ARGS)

bench-scale: .venv/.installed ## what a link and a job cost with 1 to 20 million known URLs (12 minutes, 7 GB of disk); ARGS="--millions 1 --aged"
	$(RUN)/python -m bench.scale $(ARGS)

bench-harvesters: .venv/.installed ## pages/s by the number of harvesters, where the web answers after 200 ms
	$(RUN)/python -m bench.harvesters $(ARGS)

bench-steps: .venv/.developed ## µs of our own functions, one by one
	$(RUN)/python -m bench.steps

explore: .venv/.developed ## every state of a small system under faults, at length; the tests do the short ones
	$(RUN)/python -m tests.explorer $(ARGS)

soak: .venv/.developed ## whole harvests under faults, 200 seeds in at most 50 minutes; again: ARGS="--seed 17"
	$(RUN)/python -m tests.soak $(ARGS)

power: .venv/.developed ## the power fails at any call of a recorded harvest, half an hour; again: ARGS="--seed 17 --tries 1"
	$(RUN)/python -m tests.power $(ARGS)

fuzz: .venv/.developed ## strangers' bytes for all that reads any, ten minutes each; ARGS="--seconds 60 html"
	$(RUN)/python -m tests.fuzz $(ARGS)

audit: .venv/.installed ## known advisories of what is installed, by pip-audit in an environment of its own
	$(PYTHON) -m venv build/audit && build/audit/bin/pip install --quiet pip-audit
	$(RUN)/pip freeze --exclude-editable > build/audit/installed.txt
	build/audit/bin/pip-audit --no-deps --disable-pip -r build/audit/installed.txt

simulate: .venv/.developed ## days of harvesting in a minute, by the real scheduler; ARGS="--scale 10 giant"
	$(RUN)/python -m tests.simulator $(ARGS)

clean: ## remove what the other words made, but no harvest
	rm -rf .venv .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist bench/out

# A stamp says that .venv holds what pyproject.toml asks for, so that a second call costs nothing.
.venv/.installed: pyproject.toml $(NATIVE) .venv/bin/pip
	@echo "Setting up .venv: once, for about a minute"
	$(PIP) --editable .
	@touch $@
	@echo "Ready: .venv/bin/combine --help"

.venv/.developed: pyproject.toml $(NATIVE) .venv/bin/pip
	@echo "Setting up .venv with what the tests need: once, for about a minute"
	$(PIP) --editable '.[dev]'
	@touch $@ .venv/.installed

.venv/bin/pip:
	@PYTHON="$(PYTHON)" sh .ci/venv
