# tpubridge: `make demo` shows it, `make test` checks it; both set up what they need. `make help` lists the rest.
BUILD ?= build
JOBS ?= $(shell nproc)
# WERROR=ON: warnings are errors, as in CI.
CMAKE_FLAGS ?= $(if $(TPUBRIDGE_TORCH_DIR),-DTPUBRIDGE_TORCH_DIR=$(TPUBRIDGE_TORCH_DIR))
# A torch of the user's own saves fetching one.
DEPS_GROUPS := core $(if $(TPUBRIDGE_TORCH_DIR),,torch)
export TPU_SKIP_MDS_QUERY = 1

.PHONY: help demo test build tarball deb wheel wheel-python bench bench-peers aot asan tsan tsan-core fuzz fuzz-steps op-database format lint clean deps configure
help:
	@echo "make demo    set up, build, look at this machine, run a program and train a small GPT on it"
	@echo "make test    set up, build, run all tests"
	@echo "make build   the command in $(BUILD)/bin/tpubridge, the libraries in $(BUILD)/lib"
	@echo "make tarball, make deb   what is built, for other machines: $(BUILD)/package/; see docs/install.md"
	@echo "make wheel   import tpubridge, for python3 and a torch of PyPI: $(BUILD)/wheel/; see docs/from-python.md"
	@echo "make aot     fetch Google's TPU compiler and build what drives it: tpubridge fit"
	@echo "make bench   figures of this machine, beside JAX's and PyTorch's where make bench-peers has brought them"
	@echo "             BENCH='--only gpt --quick' chooses; bench/run -h tells more"
	@echo "make fuzz    readers of hostile input under libFuzzer, half an hour each; FUZZ_SECONDS=60 FUZZ='json npy' for less"
	@echo "make fuzz-steps  random compiled steps beside traced ones and the CPU, for an hour; SECONDS_TO_FUZZ=600 for less"
	@echo "make op-database the ops of torch's own database beside the CPU; OP_DATABASE='--dtype bfloat16' for another type"
	@echo "make asan    the tests of the torch-free part under the address and undefined-behaviour sanitizers"
	@echo "make tsan    the tests of tracing, programs, caches and steps under the thread sanitizer; make tsan-core  of the torch-free part, by clang"
	@echo "make format  clang-format; make lint  clang-tidy and format check; make clean"

deps:
	@command -v python3 >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq python3 >/dev/null; \
	  else echo "setup: python3 is missing; install it and start again: sudo apt-get install -y python3"; exit 1; fi; }
	@setup/deps $(DEPS_GROUPS)

configure: deps
	@cmake -S . -B $(BUILD) -G Ninja $(if $(WERROR),-DTPUBRIDGE_WERROR=$(WERROR)) $(CMAKE_FLAGS) > $(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }

build: configure
	@cmake --build $(BUILD) -j $(JOBS) --target product

test: configure
	@cmake --build $(BUILD) -j $(JOBS)
	@cd $(BUILD) && ctest --output-on-failure --no-tests=error -LE offline_tpu -j $(JOBS)

# Each reader of hostile input by itself (tests/fuzz/README.md). It stops at the first that finds something.
FUZZ_SECONDS ?= 1800
FUZZ ?= $(notdir $(wildcard tests/fuzz/corpus/*))
fuzz: BUILD := $(BUILD)-fuzz
fuzz: DEPS_GROUPS := core clang
fuzz: CMAKE_FLAGS += -DCMAKE_CXX_COMPILER=clang++-19 -DTPUBRIDGE_FUZZ=ON -DTPUBRIDGE_BENCH=OFF -DTPUBRIDGE_TORCH=OFF
fuzz: configure
	@cmake --build $(BUILD) -j $(JOBS) --target $(addprefix fuzz_,$(FUZZ))
	@for name in $(FUZZ); do \
	  mkdir -p $(BUILD)/corpus/$$name $(BUILD)/found && echo "fuzz: $$name, $(FUZZ_SECONDS) s" && \
	  $(BUILD)/bin/fuzz_$$name -max_total_time=$(FUZZ_SECONDS) -timeout=5 -rss_limit_mb=2048 -max_len=65536 \
	    -print_final_stats=0 -verbosity=0 -artifact_prefix=$(BUILD)/found/$$name- \
	    $(BUILD)/corpus/$$name tests/fuzz/corpus/$$name || exit 1; done

# Seeds go on from FUZZ_FROM; a failure is printed as a program of a few lines, with the seed that repeats it.
SECONDS_TO_FUZZ ?= 3600
FUZZ_FROM ?= 1000
fuzz-steps: configure
	@cmake --build $(BUILD) -j $(JOBS) --target test_step
	@TPUBRIDGE_FUZZ_SECONDS=$(SECONDS_TO_FUZZ) TPUBRIDGE_FUZZ_SEED=$(FUZZ_FROM) $(BUILD)/bin/test_step --gtest_filter=Fuzz.ForHours

# torch's own samples of its ops, with gradients, beside the CPU: OP_DATABASE='--dtype bfloat16 --only glu,take'
op-database: build bench-peers
	@$(PEERS)/bin/python tests/python/op_database.py $(BUILD)/lib/libtpubridge.so $(OP_DATABASE)

tarball deb: build
	@cd $(BUILD) && cpack -G $(if $(filter deb,$@),DEB,TGZ) > package.log 2>&1 || { cat package.log; exit 1; }
	@ls -1 $(BUILD)/package/*$(if $(filter deb,$@),.deb,.tar.gz)

# For the pinned torch, or TORCH=2.14.0, in an environment of its own from PyPI; or for that of PYTHON=/path/to/python.
PINNED_TORCH := $(shell awk '$$1 == "torch" && $$2 == "torch" {print $$3; exit}' setup/wheels.txt)
TORCH ?= $(PINNED_TORCH)
PYTHON_HOME = $(abspath $(or $(TPUBRIDGE_DEPS),.deps)/python-$(TORCH))
PYTHON ?= $(PYTHON_HOME)/bin/python
ifneq ($(TORCH),$(PINNED_TORCH))
wheel: BUILD := $(BUILD)-torch-$(TORCH)
wheel: DEPS_GROUPS := core
wheel: CMAKE_FLAGS += -DTPUBRIDGE_TORCH_DIR=$$($(PYTHON) -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')
endif
wheel: CMAKE_FLAGS += -DTPUBRIDGE_PYTHON=$(PYTHON)
wheel: wheel-python configure
	@cmake --build $(BUILD) -j $(JOBS) --target wheel
# The stamp is written last and says that all of it is there.
wheel-python:
	@test -e $(PYTHON_HOME)/ready || test $(PYTHON) != $(PYTHON_HOME)/bin/python || { \
	  rm -rf $(PYTHON_HOME) && python3 -m venv $(PYTHON_HOME) && \
	  $(PYTHON) -m pip install -q --disable-pip-version-check torch==$(TORCH) numpy pytest && touch $(PYTHON_HOME)/ready; }

demo: build
	@BUILD=$(BUILD) setup/demo

aot: DEPS_GROUPS += aot
aot: build
	@test -x $(BUILD)/bin/tpubridge-aot || { echo "tpubridge-aot was not built; see $(BUILD).log"; exit 1; }
	@echo "ready: $(BUILD)/bin/tpubridge fit FILE.mlir --tpu v5e"

bench: build
	@cmake --build $(BUILD) -j $(JOBS) --target tpubridge_bench tpubridge_bench_device tpubridge_workloads
	@$(BUILD)/bin/tpubridge_bench
	@$(BUILD)/bin/tpubridge_bench_device
	@bench/run --build $(BUILD) $(BENCH)

# What the benchmarks compare with, in a Python environment of its own: JAX and PyTorch, some gigabytes from PyPI.
# The copy of the list is written last and says that all of it is there.
PEERS = $(or $(TPUBRIDGE_DEPS),.deps)/peers
bench-peers: deps
	@cmp -s bench/peers/requirements.txt $(PEERS)/requirements.txt || { \
	  rm -rf $(PEERS) && python3 -m venv $(PEERS) && \
	  $(PEERS)/bin/pip install -q --disable-pip-version-check -r bench/peers/requirements.txt && \
	  cp bench/peers/requirements.txt $(PEERS)/requirements.txt; }

# The torch-free library: libtorch itself is not built for the sanitizers.
asan:
	@$(MAKE) --no-print-directory test BUILD=$(BUILD)-asan CMAKE_FLAGS="-DTPUBRIDGE_SANITIZE=ON -DTPUBRIDGE_BENCH=OFF -DTPUBRIDGE_TORCH=OFF"

# Our own code alone: libtorch and the plugin are not built for it (tests/tsan.supp).
TSAN_TESTS = test_trace test_exec test_cache test_step
tsan: BUILD := $(BUILD)-tsan
tsan: CMAKE_FLAGS += -DTPUBRIDGE_TSAN=ON -DTPUBRIDGE_BENCH=OFF
tsan: configure
	@cmake --build $(BUILD) -j $(JOBS) --target $(TSAN_TESTS)
	@cd $(BUILD) && ctest --output-on-failure --no-tests=error -R '^($(subst $() ,|,$(TSAN_TESTS)))$$'

# What needs no libtorch: part of CI, and its check of the other compiler. TSAN_CXX=g++ where clang cannot be had.
TSAN_CXX ?= clang++-19
tsan-core:
	@$(MAKE) --no-print-directory tsan BUILD=$(BUILD)-core-tsan-$(subst +,p,$(notdir $(TSAN_CXX))) TSAN_TESTS="test_base test_cache test_pjrt" \
	  DEPS_GROUPS="core $(if $(findstring clang,$(TSAN_CXX)),clang)" \
	  CMAKE_FLAGS="$(CMAKE_FLAGS) -DCMAKE_CXX_COMPILER=$(TSAN_CXX) -DTPUBRIDGE_TSAN=ON -DTPUBRIDGE_BENCH=OFF -DTPUBRIDGE_TORCH=OFF"

SOURCES = $$(git ls-files '*.h' '*.cc')
format:
	@command -v clang-format >/dev/null || { echo "install it first: apt-get install -y clang-format"; exit 1; }
	@clang-format -i $(SOURCES)
# Each source by itself, without the precompiled header, which is the compiler's own. LINT='tpubridge/step/*.cc' chooses.
LINT ?= tpubridge/*.cc tools/*.cc
lint: DEPS_GROUPS += lint
lint: deps
	@command -v clang-format >/dev/null || { echo "install it first: apt-get install -y clang-format"; exit 1; }
	@clang-format --dry-run --Werror $(SOURCES)
	@cmake -S . -B $(BUILD)-lint -G Ninja $(CMAKE_FLAGS) -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
	  -DTPUBRIDGE_UNITY=OFF -DTPUBRIDGE_BENCH=OFF \
	  > $(BUILD)-lint.log 2>&1 || { cat $(BUILD)-lint.log; exit 1; }
	@git ls-files $(foreach p,$(LINT),'$(p)') | xargs setup/lint $(BUILD)-lint $(JOBS)

clean:
	@rm -rf build build-* build*.log
