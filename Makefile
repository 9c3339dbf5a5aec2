# make run           the main job on an embedded example, until Ctrl-C; with ONCE=1 it ends by itself
# make test          all tests, against real servers; ARGS="tests/protocol -k names" for some of them
# make check         format, lint, types, imports, lock file
# make setup         the environment in .venv, which all of these need
# make lock          requirements.lock anew, after a change of pyproject.toml
# make clean         removes what these have made in this folder

PYTHON ?= python3
WORKERS ?= 2
ONCE ?=
ARGS ?=

BIN := .venv/bin

.PHONY: run test check setup lock clean

setup: .venv/.ready
	@:

.venv/.ready: requirements.lock pyproject.toml testenv/setup.sh
	@sh testenv/setup.sh "$(PYTHON)"

run: setup
	@ONCE="$(ONCE)" $(BIN)/python examples/quickstart/run.py

test: setup
	@$(BIN)/python -m testenv.prepare $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(ARGS)

check: setup
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@sh testenv/lock.sh check

lock: setup
	@sh testenv/lock.sh write

clean:
	@rm -rf .venv build dist reports quickstart htmlcov .coverage .coverage.* *.egg-info
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
