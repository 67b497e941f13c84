# tilewright. `make demo` and `make test` are all a newcomer needs; both set up .venv on first use.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Bytecode is kept whatever the shell says: hundreds of the tests' children would compile the package anew.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n logical --maxprocesses 8 --dist worksteal

.PHONY: help demo test fast avx2 qemu soak lint docs dist pythons bench gpu counts coverage clean

help:  ## what there is to make
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): pyproject.toml
	@echo "[1/2] making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit("tilewright needs Python 3.11 or later; set PYTHON=python3.x") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "[2/2] installing tilewright and what its demo and tests use (about a minute)"
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable '.[dev,tune]'
	@touch $@

$(VENV)/model: $(STAMP)
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --target $@ onnx protobuf typing_extensions magika || \
	  echo "the wheel with the demo's network is not to be had: the demo goes without"

demo: $(STAMP) $(VENV)/model  ## the main job: a matmul in six steps, a photograph sharpened, a network
	@PYTHONPATH=$(VENV)/model $(BIN)/python -m tilewright run --demo

test: $(STAMP)  ## every test, drawn checks as a sample
	@$(PYTEST) tests

fast: $(STAMP)  ## the tests that are not in tests/slow.txt, two of three, in a minute or so
	@$(PYTEST) tests -m fast

AVX2_PART := $(addprefix tests/,codegen/llvm codegen/test_target.py topi autoschedule te/intrinsics schedule/tensorize \
	schedule/primitives schedule/lowering ir/passes/cpu test_regressions.py test_error_catalogue.py)

avx2: $(STAMP)  ## the tests of machine code as on a processor that has AVX2 and no AVX-512
	@TILEWRIGHT_HOST="-mcpu=haswell" $(PYTEST) $(AVX2_PART)

QEMU_PART := -m fast tests

qemu: $(STAMP)  ## the fast tests in a Python for AArch64, by qemu-user (an hour; QEMU_PART chooses)
	@$(BIN)/python -m tools.emulated_python out/aarch64
	@out/aarch64/bin/python -m pytest -n logical --maxprocesses 8 --dist worksteal $(QEMU_PART)

soak: $(STAMP)  ## every test, drawn checks at their full counts (about two hours)
	@TILEWRIGHT_SOAK=1 $(PYTEST) tests

lint: $(STAMP)  ## ruff (layout and rules) and pyright
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check .
	@$(BIN)/pyright

docs: $(STAMP)  ## the site, out/docs/VERSION/index.html: pages, tutorials with what they print, the reference
	@$(BIN)/python docs/make_site.py out/docs

dist: $(STAMP)  ## dist/: the source distribution and the wheel, built twice and compared
	@rm -rf dist out/dist
	@$(BIN)/python -m build --outdir dist . >/dev/null && $(BIN)/python -m build --outdir out/dist . >/dev/null
	@cd dist && sha256sum * | tee SHA256SUMS && cd ../out/dist && sha256sum --check --quiet ../../dist/SHA256SUMS && echo "the bytes are the same"

# Each is one that `venv` of the standard library makes environments with.
PYTHONS := python3.11 python3.12 python3.13 python3.14

pythons: $(STAMP)  ## the wheel in an empty environment of every Python that it is for (PYTHONS names them)
	@TILEWRIGHT_PYTHONS="$(PYTHONS)" $(BIN)/python -m pytest -v -k empty tests/test_wheel.py

coverage: $(STAMP)  ## lines of the tree that the tests run
	@cd tests && $(subst $(BIN),../$(BIN),$(PYTEST)) --cov=tilewright --cov-config=../pyproject.toml --cov-report=term:skip-covered

bench: $(STAMP)  ## times against other libraries, interleaved, one and two threads; calls and compiling
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable '.[bench]'
	@$(BIN)/python -m tilewright bench --all
	@$(BIN)/python -m tools.benchmarks
	@$(BIN)/python -m tools.benchmarks.compile
	@$(BIN)/python -m tools.benchmarks.compile_models

gpu: $(STAMP)  ## ten minutes on a GPU: all checked, a sample sanitized, times beside torch and Triton, a tuning run
	@$(BIN)/python -m tools.benchmarks.gpu

pack: $(STAMP)  ## kernels as libraries and a program that tries them on a bare machine with a GPU: out/gpu_pack (no GPU here)
	@$(BIN)/python -m tools.gpu_pack.pack out/gpu_pack

counts: $(STAMP)  ## counts what GPUs would do for all of topi, without one: docs/gpu-counts.md
	@$(BIN)/python -m tools.benchmarks.gpu_counts --page docs/gpu-counts.md

clean:  ## remove the environment and what the tools left
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis tests/.pytest_cache out
