# What a newcomer types. Each target is a line or two that a person could type.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test slow-test timing-test statistics-test mutants cluster-test bench learning-rates lint types ui clean

setup: .venv/done

.venv/done: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	DS_BUILD_OPS=0 DS_ACCELERATOR=cpu $(BIN)/python -m pip install --quiet -c constraints.txt -e '.[test]'
	touch .venv/done

demo: setup
	$(BIN)/bakeoff run heads complexity --scale quick

test: setup
	$(BIN)/python -m pytest -n 3 --dist loadfile

slow-test: setup
	$(BIN)/python -m pytest -m slow

timing-test: setup
	$(BIN)/python -m pytest -m timing -s

statistics-test: setup
	$(BIN)/python -m pytest -m statistics -s

mutants: setup
	$(BIN)/python tools/mutants.py

cluster-test: setup
	$(BIN)/python -m pytest -m cluster

bench: .venv/bench
	BAKEOFF_BENCHMARKS=docs/benchmarks.md $(BIN)/python -m pytest -m bench --benchmark-enable -s tests/benchmarks

.venv/bench: .venv/done
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	touch .venv/bench

# The table of tuned learning rates, from the committed results of the ablation learning_rate.
learning-rates: setup
	$(BIN)/python -m reports.chosen_rates docs/results/learning_rate/results.csv > ablations/learning_rates.csv.new
	mv ablations/learning_rates.csv.new ablations/learning_rates.csv

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

ui: setup
	$(BIN)/bakeoff ui

clean:
	rm -rf .venv out .pytest_cache .ruff_cache .mypy_cache
