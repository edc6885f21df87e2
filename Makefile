# The targets are listed in CONTRIBUTING.md.
PYTHON ?= python3
BIN := .venv/bin
PLAIN := bakeoff suite models reports ablations tools

.PHONY: setup demo catalogue test slow-test battery parity-test timing-test statistics-test mutants cluster-test chaos chaos-short week week-short bench results pages lint audit types ui clean

setup: .venv/done

.venv/done: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	DS_BUILD_OPS=0 DS_ACCELERATOR=cpu $(BIN)/python -m pip install --quiet -c constraints.txt -e '.[test]'
	touch .venv/done

demo: setup
	$(BIN)/bakeoff run docs/demo.py --executor inline

test: setup
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

slow-test: setup
	$(BIN)/python -m pytest -m slow

battery: setup
	$(BIN)/python -m pytest -n 3 -m "battery or not (slow or bench or parity or cluster or timing or statistics)" tests/models
	$(BIN)/python -m pytest -n 3 -m battery tests/suite

# The same outputs as public implementations, with the same weights.
parity-test: .venv/bench
	$(BIN)/python -m pytest -m parity

timing-test: setup
	$(BIN)/python -m pytest -m timing -s

statistics-test: setup
	$(BIN)/python -m pytest -m statistics -s

mutants: setup
	$(BIN)/python tools/mutants.py

cluster-test: setup
	$(BIN)/python -m pytest -m "cluster and not slow"

# Inject faults into real sweeps. `python -m tools.chaos --write` writes the figures into docs/reliability.md.
chaos: setup
	$(BIN)/python -m tools.chaos

chaos-short: setup
	$(BIN)/python -m tools.chaos --short

# Simulate a week of use; compare every number that is shown with the journals.
week: setup
	$(BIN)/python -m tools.chaos --only week

week-short: setup
	$(BIN)/python -m pytest -m slow tests/tools/test_week.py

bench: .venv/bench
	BAKEOFF_BENCHMARKS=docs/benchmarks.md $(BIN)/python -m pytest -m bench --benchmark-enable -s tests/benchmarks

# timm asks for torchvision, of which no build for CPUs fits our torch; its models do without.
.venv/bench: .venv/done
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python -m pip install --quiet --no-deps timm==1.0.31
	touch .venv/bench

# Keep the finished reports NAME of the output folder OUT in docs/results; then make all pages there again.
results: setup
	$(BIN)/python -m tools.results $(NAME) --out $(or $(OUT),out)

# Make the pages in docs/results again from their frames, after a change of code.
pages: setup
	$(BIN)/python -m tools.results

# Write docs/catalogue.md from the registries, and ablations/overview.json, which `bakeoff list` shows.
catalogue: setup
	$(BIN)/python -m tools.build_catalogue

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/check_structure.py
	$(BIN)/python tools/check_english.py $(PLAIN)
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive bakeoff suite models ablations reports tools

# Known vulnerabilities of the installed packages. Without a network it prints a note and passes.
audit: setup
	$(BIN)/python tools/audit.py

types: setup
	$(BIN)/mypy

ui: setup
	$(BIN)/bakeoff ui

clean:
	rm -rf .venv out .pytest_cache .ruff_cache .mypy_cache
