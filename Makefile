# run · test · check · bench · up · down · clean: nothing else. All state lies under var/ and .venv/.
.PHONY: run test check bench up down clean
SHELL := /bin/bash

run: ## set up, run the whole life of a small model through Airflow, and show what came out
	@bin/setup
	@bin/run-dag lifecycle
	@bin/with-env python -m tasks show dags/lifecycle.yaml

test: ## set up and run the tests
	@bin/setup tests
	@bin/with-env python -m pytest

check: ## format, lint, types, layers
	@bin/setup
	@bin/with-env ruff format --check .
	@bin/with-env ruff check .
	@bin/with-env mypy
	@bin/with-env lint-imports --no-cache

bench: ## every claim of speed or quality, ours beside the peer's
	@bin/setup
	@bin/with-env python benchmarks/__main__.py

up: ## start Airflow and MLflow on this machine's loopback, behind a login: both or none
	@bin/setup
	@mlflow/serve up
	@bin/airflow-up || { mlflow/serve down; exit 4; }

down: ## stop both
	@bin/airflow-down
	@mlflow/serve down

clean: ## stop what `make up` started, remove all state and the environment
	@[ ! -d var/run ] || [ ! -x .venv/bin/python ] || $(MAKE) --no-print-directory down
	rm -rf var .venv
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
