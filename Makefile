# What a user types. CMake and Ninja do the work; this file knows their command lines and the packages.
#
#   make demo                 install what is missing, build, train on the digits under `cannon run`
#   make check                every test: release, clang, sanitizers, format and lint
#   make install PREFIX=...   an installation laid out as CANN's
#   make test                 the release build's tests only, without clients' software from PyPI
#   make check-clients        clients' software, whole: PyTorch's operator database on torch_npu
#   make bench                ours beside the peers
#   make format               rewrite the sources in the project's format
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

BUILD ?= build
PREFIX ?= /usr/local/cannon
PACKAGES := build-essential cmake ninja-build pkg-config clang clang-format clang-tidy libclang-rt-dev \
  libcjson-dev libdw-dev libcmocka-dev zlib1g-dev python3 python3-numpy python3-venv
COMPILERS_gcc := -DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++
COMPILERS_clang := -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++

# The cases of the random numeric tests: others for every state of the tree, the same whenever that is tested again.
export CANNON_SEED ?= $(shell printf %d 0x$$(git rev-parse --short=7 'HEAD^{tree}' 2>/dev/null || date +%s))

.PHONY: all demo check test install bench format packages clean check-release check-clang check-asan check-tsan check-style check-clients
all: $(BUILD)/prefix

# Debian's packages, where one is missing and we may install it.
packages:
	@missing=$$(for p in $(PACKAGES); do dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	[ -z "$$missing" ] || { \
	  if [ "$$(id -u)" = 0 ]; then run=; elif sudo -n true 2>/dev/null; then run='sudo -n'; \
	  else echo "missing packages, to be installed by root: apt-get install $$missing" >&2; exit 1; fi; \
	  echo "installing:" $$missing; $$run apt-get update -qq && \
	  $$run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; }

# One build folder per configuration: $(1) folder, $(2) compiler, $(3) further options of CMake. The installation is
# remade each time, from nothing, so that the tests see what a user would.
define build
@cmake -S . -B $(1) -G Ninja --log-level=WARNING $(COMPILERS_$(2)) $(3)
@cmake --build $(1)
@cmake -E rm -rf $(1)/prefix
@DESTDIR= cmake --install $(1) --prefix $(abspath $(1))/prefix >/dev/null
endef

.PHONY: $(BUILD)/prefix
$(BUILD)/prefix: packages
	$(call build,$(BUILD),gcc,)

install: $(BUILD)/prefix
	@cmake --install $(BUILD) --prefix $(abspath $(PREFIX)) >/dev/null
	@echo "installed in $(abspath $(PREFIX)); next: source $(abspath $(PREFIX))/set_env.sh"

# The demo is built as a user's project, against the installation alone.
demo: $(BUILD)/prefix
	@ASCEND_HOME_PATH=$(abspath $(BUILD))/prefix cmake -S examples/digits -B $(BUILD)/digits --log-level=WARNING -DCMAKE_BUILD_TYPE=Release
	@cmake --build $(BUILD)/digits
	$(BUILD)/prefix/bin/cannon run $(BUILD)/digits/digits

bench: $(BUILD)/prefix
	python3 bench/run.py --build $(BUILD)
	python3 bench/alloc.py --build $(BUILD)
	python3 bench/busy.py --build $(BUILD)
	python3 bench/plan.py --build $(BUILD)

test: $(BUILD)/prefix
	ctest --test-dir $(BUILD) --output-on-failure -LE clients

check-clients: $(BUILD)/prefix
	python3 tests/clients/torch_npu/run.py --prefix $(BUILD)/prefix --venv $(BUILD)/torch_npu --whole --table docs/torch_npu.md

check: check-clang check-style check-asan check-tsan check-release

check-release: $(BUILD)/prefix demo
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error

check-clang: packages
	$(call build,$(BUILD)/clang,clang,)
	ctest --test-dir $(BUILD)/clang --output-on-failure --no-tests=error -LE prefix

check-asan: packages
	$(call build,$(BUILD)/asan,gcc,-DCANNON_SANITIZE=address -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g")
	ctest --test-dir $(BUILD)/asan --output-on-failure --no-tests=error

check-tsan: packages
	$(call build,$(BUILD)/tsan,gcc,-DCANNON_SANITIZE=thread -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g")
	ctest --test-dir $(BUILD)/tsan --output-on-failure --no-tests=error

SOURCES = $(shell git ls-files '*.c' '*.h' '*.cpp')
format: packages
	clang-format -i $(SOURCES)

# clang-tidy sees the sources as clang compiles them.
check-style: check-clang
	scripts/check-style --self-test
	scripts/check-style layers lines names entries format tidy=$(BUILD)/clang

clean:
	rm -rf $(BUILD)
