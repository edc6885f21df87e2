# The targets are listed in CONTRIBUTING.md. Targets of few tests name the folders that have them, since
# collecting all files takes most of a minute; a test compares these folders with the markers.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := DS_BUILD_OPS=0 DS_ACCELERATOR=cpu $(BIN)/python -m pip install --quiet -c constraints.txt
OTHERS := slow or battery or bench or parity or cluster or timing or statistics
PLAIN := bakeoff suite models reports ablations tools

.PHONY: setup develop demo docs catalogue test whole-test nightly slow-test battery parity-test timing-test statistics-test mutants cluster-test chaos chaos-short week week-short bench results pages lint audit types ui clean

# What a user needs.
setup: .venv/done

.venv/done: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) -e .
	touch .venv/done

# The same with the tools of the tests.
develop: .venv/developed

.venv/developed: .venv/done
	$(INSTALL) -e '.[test]'
	touch .venv/developed

demo: setup
	$(BIN)/bakeoff run docs/demo.py --executor inline

test: develop
	$(BIN)/python -m pytest -n logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder

# Whole sweeps, commands and pages. Three at a time on two cores, since some wait for Ray.
whole-test: develop
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "whole and not ($(OTHERS))"

# Clusters, injected faults and long tests, which CI leaves out; for the main branch at night.
nightly: cluster-test chaos-short slow-test battery statistics-test

slow-test: develop
	$(BIN)/python -m pytest -m slow

battery: develop
	$(BIN)/python -m pytest -n 3 -m "battery or not (slow or bench or parity or cluster or timing or statistics)" tests/models
	$(BIN)/python -m pytest -n 3 -m battery tests/suite

# The same outputs as public implementations, with the same weights.
parity-test: .venv/bench
	$(BIN)/python -m pytest -m parity tests/parity tests/benchmarks

timing-test: develop
	$(BIN)/python -m pytest -m timing -s tests/suite/timing tests/suite/probes

statistics-test: develop
	$(BIN)/python -m pytest -m statistics -s tests/reports

mutants: develop
	$(BIN)/python tools/mutants.py

cluster-test: develop
	$(BIN)/python -m pytest -m "cluster and not slow" tests/cluster tests/suite/cluster tests/suite/sweep tests/suite/probes tests/suite/training/engines

# Inject faults into real sweeps. `python -m tools.chaos --write` writes the figures into docs/reliability.md.
chaos: develop
	$(BIN)/python -m tools.chaos

chaos-short: develop
	$(BIN)/python -m tools.chaos --short

# Simulate a week of use; compare every number that is shown with the journals.
week: develop
	$(BIN)/python -m tools.chaos --only week

week-short: develop
	$(BIN)/python -m pytest -m slow tests/tools/test_week.py

bench: .venv/bench
	BAKEOFF_BENCHMARKS=docs/benchmarks.md $(BIN)/python -m pytest -m bench --benchmark-enable -s tests/benchmarks

# timm asks for torchvision, of which no build for CPUs fits our torch; its models do without.
.venv/bench: .venv/developed
	$(INSTALL) -e '.[bench]'
	$(BIN)/python -m pip install --quiet --no-deps timm==1.0.31
	touch .venv/bench

# Keep the finished reports NAME of the output folder OUT in docs/results; then make all pages there again.
results: setup
	$(BIN)/python -m tools.results $(NAME) --out $(or $(OUT),out)

# Make the pages in docs/results again from their frames, after a change of code.
pages: setup
	$(BIN)/python -m tools.results

# Build the site of the documentation into site/.
docs: .venv/documented
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.venv/documented: .venv/done
	$(INSTALL) -e '.[docs]'
	touch .venv/documented

# Write docs/catalogue.md from the registries, the tables of docs/guide.md from the classes, and
# ablations/overview.json, which `bakeoff list` shows.
catalogue: setup
	$(BIN)/python -m tools.build_catalogue
	$(BIN)/python -m tools.build_guide

lint: develop
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/check_structure.py
	$(BIN)/python tools/check_english.py $(PLAIN)
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive bakeoff suite models ablations reports tools

# Known vulnerabilities of the installed packages. Without a network it prints a note and passes.
audit: develop
	$(BIN)/python tools/audit.py

types: develop
	$(BIN)/mypy

ui: setup
	$(BIN)/bakeoff ui

clean:
	rm -rf .venv out site .pytest_cache .ruff_cache .mypy_cache
