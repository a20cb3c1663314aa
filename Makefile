# Every target works on a fresh clone: it makes .venv first, and installs again only when something changed.

PYTHON ?= python3
ARGS ?=
EXAMPLES ?= 20000
# What an earlier run was told, so that it need not be told twice.
-include $(wildcard .venv/told-*.mk)
TORCH ?= $(shell sed -n '/^torch==/p' constraints.txt)
TORCH_INDEX ?=
WHEELS ?=

told = $(filter command environment,$(origin $(1)))
torch_wanted := $(TORCH) from $(if $(TORCH_INDEX),$(TORCH_INDEX),the index that pip uses)
torch_there := $(shell cat .venv/.torch 2>/dev/null)
pip := .venv/bin/python -m pip --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.PHONY: help setup demo up test test-nightly test-compose check clean FORCE

help:
	@echo 'make setup   install everything into .venv (the other targets do this by themselves)'
	@echo 'make demo    run 24 jobs on a small built-in model; images and a report go to demo-out/'
	@echo 'make up      run the whole service in this terminal until Ctrl-C; ARGS="--port 8001" is handed to hotslot up'
	@echo 'make test    run the tests; ARGS="-k name" is handed to pytest'
	@echo 'make test-nightly   hold the scripts of the queue to their model for an hour or so; EXAMPLES=20000 sets of calls'
	@echo 'make test-compose   build the images, bring the compose stack up and test it; needs Docker'
	@echo 'make check   check formatting, lint, types and who imports whom'
	@echo 'make clean   remove .venv, demo-out, bench/out, builds and caches in this folder; jobs, images and models stay'
	@echo
	@echo 'PYTHON=python3.12   the Python to use, 3.11 or newer (default: python3)'
	@echo 'TORCH=torch==X.Y.Z  the torch to install (default: $(TORCH))'
	@echo 'WHEELS=FOLDER       wheels that the worker image of test-compose takes before the index, as torch'
	@echo 'TORCH_INDEX=URL     the package index that torch alone comes from (default: the one pip uses)'
	@echo
	@echo 'On Linux x86_64 the torch on PyPI is a CUDA build: several GB, right for an NVIDIA GPU. Without one, take'
	@echo 'the CPU build, a tenth of that: make demo TORCH_INDEX=URL, where URL is the CPU wheel index named on'
	@echo 'pytorch.org. It is enough to say so once; make clean forgets it.'

setup: .venv/.installed

demo: .venv/.installed
	.venv/bin/hotslot demo --out demo-out

up: .venv/.installed
	.venv/bin/hotslot up $(ARGS)

test: .venv/.installed
	OMP_NUM_THREADS=1 .venv/bin/pytest -n auto --maxprocesses 4 --dist loadfile $(ARGS)

test-nightly: .venv/.installed
	EXAMPLES=$(EXAMPLES) .venv/bin/pytest tests/shared/model $(ARGS)

test-compose: .venv/.installed
	TEST_COMPOSE=1 TEST_WHEELS='$(abspath $(WHEELS))' \
	    $(if $(call told,TORCH_INDEX),TORCH_INDEX='$(TORCH_INDEX)') .venv/bin/pytest tests/compose $(ARGS)

check: .venv/.installed
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

clean:
	rm -rf .venv demo-out bench/out build dist *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.made:
	@command -v $(PYTHON) >/dev/null 2>&1 \
	    || { echo '$(PYTHON) is missing: apt install python3 python3-venv'; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo '$(PYTHON) is too old, Hotslot needs 3.11: apt install python3.11 python3.11-venv; make PYTHON=python3.11'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	    || { echo '$(PYTHON) cannot make a virtual environment: apt install $(notdir $(PYTHON))-venv'; exit 1; }
	@echo 'Making .venv'
	@$(PYTHON) -m venv .venv
	@touch $@

# By itself and first, because only torch may have to come from another index. Its own requirements, like everything
# else, are then pinned and come from where pip finds all the rest.
.venv/.torch: .venv/.made
ifneq ($(torch_there),$(torch_wanted))
.venv/.torch: FORCE
	@echo 'Installing $(torch_wanted)'
	@test -n '$(TORCH_INDEX)' || test "$$(uname -sm)" != 'Linux x86_64' \
	    || echo 'This can be a CUDA build of several GB; "make help" says how to get the small CPU build.'
	@$(pip) install --no-deps $(if $(torch_there),--force-reinstall) $(if $(TORCH_INDEX),--index-url '$(TORCH_INDEX)') '$(TORCH)'
	@$(if $(call told,TORCH),echo 'TORCH ?= $(TORCH)' >.venv/told-torch.mk)
	@$(if $(call told,TORCH_INDEX),echo 'TORCH_INDEX ?= $(TORCH_INDEX)' >.venv/told-index.mk)
	@printf '%s\n' '$(torch_wanted)' >$@
endif

.venv/.installed: pyproject.toml constraints.txt .venv/.torch
	@echo 'Installing Hotslot and what it needs into .venv: this takes a minute or two'
	@grep -v '^torch==' constraints.txt >.venv/constraints.txt
	@$(pip) install -qq -c .venv/constraints.txt -e '.[worker,local,dev]'
	@touch $@

FORCE:
