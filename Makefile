# SPDX-License-Identifier: Apache-2.0
# What a user types. CMake and Ninja do the work; this file knows their command lines and the packages.
#
#   make                      build, and install in build/prefix; installs no packages, but says which are missing
#   make packages             install Debian's packages that are missing (as root, or by sudo)
#   make demo                 install the packages that a build needs, build for this machine's processor, train on the
#                             digits under `cannon run`
#   make check                install missing packages; every test: release, sanitizers, aarch64, coverage, style; what
#                             CI runs. Downloads torch_npu (3 GB) and MindSpore (1 GB) from PyPI into
#                             build/torch_npu and build/mindspore
#   make quick                what to run after a change: build, the tests of modules and of Cannon's promises, style
#   make install PREFIX=...   an installation laid out as CANN's
#   make wheel                the Python wheel, in build/dist; pip installs it, with all that it needs
#   make deb                  the Debian package, in build/dist
#   make test                 the release build's tests only, without those that need PyPI or Debian's servers
#   make check-aarch64        the tests on aarch64, cross-compiled and emulated; part of check
#   make coverage             the tests with AddressSanitizer, and which lines of src they reach, by folder
#   make check-clients        clients' software, whole: PyTorch's operator database on torch_npu; and the wheels that
#                             check leaves out: torch_npu 2.8 and 2.9, MindSpore 2.7.2. Downloads 7 GB more
#   make bench                ours beside the peers
#   make docs                 the HTML reference of include/cannon, in build/docs
#   make format               rewrite the sources in the project's format
#
# demo, check and packages are the only ones that install packages; the others stop where one is missing. All but demo
# build the kernels for all processors, and go on from what demo has built.
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

BUILD ?= build
# ON: warnings are errors, as in CI.
WERROR ?=
PREFIX ?= /usr/local/cannon
PACKAGES_TO_BUILD := build-essential cmake ninja-build pkg-config libcjson-dev libdw-dev libcmocka-dev \
  libucx-dev zlib1g-dev python3 python3-dev
PACKAGES_TO_CHECK := clang clang-format clang-tidy libclang-rt-dev python3-numpy python3-pytest python3-venv \
  mmdebstrap chromium
PACKAGES_TO_CROSS := gcc-aarch64-linux-gnu g++-aarch64-linux-gnu
COMPILERS_gcc := -DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++
COMPILERS_aarch64 := -DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/scripts/aarch64.cmake
COMPILERS_clang := -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++

# The seed of the random numeric tests: another for every state of the tree, the same whenever that is tested again.
export CANNON_SEED ?= $(shell printf %d 0x$$(git rev-parse --short=7 'HEAD^{tree}' 2>/dev/null || date +%s))

.PHONY: all demo check test install bench format packages packages-to-build clean coverage have-packages have-all-packages begin-check \
  configure-clang timed-style check-release check-asan check-tsan check-style check-clients check-aarch64
all: $(BUILD)/prefix

# Debian's packages. $(1): those that are needed; $(2): commands for the case that some are missing, in $$missing. On
# other systems CMake says what it lacks.
define missing
@! command -v dpkg-query >/dev/null || { \
  missing=$$(for p in $(1); do \
    dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
  [ -z "$$missing" ] || { $(2); }; }
endef
define install_missing
if [ "$$(id -u)" = 0 ]; then run=; elif sudo -n true 2>/dev/null; then run='sudo -n'; \
else echo "missing packages, to be installed by root: apt-get install" $$missing >&2; exit 1; fi; \
echo "installing:" $$missing; $$run apt-get update -qq && \
$$run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null
endef
tell = echo "missing packages:" $$missing >&2; echo "to install them: make packages" >&2; exit 1

packages:
	$(call missing,$(PACKAGES_TO_BUILD) $(PACKAGES_TO_CHECK) $(PACKAGES_TO_CROSS),$(install_missing))
packages-to-build:
	$(call missing,$(PACKAGES_TO_BUILD),$(install_missing))

have-packages:
	$(call missing,$(PACKAGES_TO_BUILD),$(tell))
have-all-packages:
	$(call missing,$(PACKAGES_TO_BUILD) $(PACKAGES_TO_CHECK) $(PACKAGES_TO_CROSS),$(tell))

# One build folder per configuration: $(1) folder, $(2) compiler, $(3) further options of CMake, $(4) targets. The
# installation is remade each time, from nothing, so that the tests see what a user would.
define build
@cmake -S . -B $(1) -G Ninja --log-level=WARNING $(COMPILERS_$(2)) $(if $(WERROR),-DCANNON_WERROR=$(WERROR)) $(3)
@$(call timed,build $(1)) cmake --build $(1) --target $(4)
@cmake -E rm -rf $(1)/prefix
@DESTDIR= cmake --install $(1) --prefix $(abspath $(1))/prefix >/dev/null
endef

# Under `make check` the parts' times are collected in a file, and a table of them ends the last run of tests.
TIMES := -
check: TIMES := $(BUILD)/times.tsv
timed = scripts/checks.py part $(TIMES) "$(1)"
tests = scripts/checks.py $(or $(2),tests) $(TIMES) "test $(1)" $(1)

# The demo builds the kernels for this machine's processor only, in a new build folder; all else builds what is missing.
LEVELS := -DCANNON_LEVELS=all
TARGETS := all
demo: LEVELS := $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DCANNON_LEVELS=native)
test quick check check-release: TARGETS := all tests/all bench/all

.PHONY: $(BUILD)/prefix
$(BUILD)/prefix: have-packages
	$(call build,$(BUILD),gcc,$(LEVELS),$(TARGETS))

install: $(BUILD)/prefix
	@cmake --install $(BUILD) --prefix $(abspath $(PREFIX)) >/dev/null
	@echo "installed in $(abspath $(PREFIX)); next: source $(abspath $(PREFIX))/set_env.sh"

# Both pack the build folder as it is. The wheel's tools come from PyPI, into a virtual environment.
.PHONY: wheel deb
wheel: $(BUILD)/prefix
	$(call missing,python3-venv,$(tell))
	packaging/wheel/make_wheel $(BUILD) $(BUILD)/wheel-tools $(BUILD)/dist

deb: $(BUILD)/prefix
	packaging/deb/make_deb $(BUILD) $(BUILD)/dist

# The demo is built as a user's project, against the installation alone. Installs missing packages.
demo: packages-to-build run-demo

.PHONY: run-demo
run-demo: $(BUILD)/prefix
	@ASCEND_HOME_PATH=$(abspath $(BUILD))/prefix cmake -S examples/digits -B $(BUILD)/digits --log-level=WARNING \
	  -DCMAKE_BUILD_TYPE=Release
	@cmake --build $(BUILD)/digits
	$(call timed,demo) $(BUILD)/prefix/bin/cannon run $(BUILD)/digits/digits

# The same for a model: exported by Python, converted by atc, run by a program in C.
.PHONY: run-onnx
run-onnx: $(BUILD)/prefix
	@ASCEND_HOME_PATH=$(abspath $(BUILD))/prefix cmake -S examples/onnx -B $(BUILD)/onnx_example --log-level=WARNING
	@cmake --build $(BUILD)/onnx_example
	@cmake --build $(BUILD)/onnx_example --target run

bench: TARGETS := all bench/all
bench: $(BUILD)/prefix
	python3 bench/run.py --build $(BUILD)
	python3 bench/alloc.py --build $(BUILD)
	python3 bench/busy.py --build $(BUILD)
	python3 bench/plan.py --build $(BUILD)
	@cmake --build $(BUILD) --target bench_comm
	python3 bench/comm/run.py --build $(BUILD)

test: $(BUILD)/prefix
	$(call tests,$(BUILD)) -LE "clients|packages"

# After a change: what it touches is built, the tests of modules and of what Cannon promises run, and the sources that
# differ from the branch's upstream, or from the last commit, are looked at. Installs nothing.
.PHONY: quick
quick: $(BUILD)/prefix configure-clang
	$(call tests,$(BUILD)) -L "unit|own" -E hosts
	scripts/check-style layers lines names bodies purpose counts rooms entries licence format
	scripts/tidy $(BUILD)/clang --changed

TORCH_NPU = python3 tests/clients/torch_npu/run.py --prefix $(BUILD)/prefix --venv $(BUILD)/torch_npu
MINDSPORE = python3 tests/clients/mindspore/run.py --prefix $(BUILD)/prefix --venv $(BUILD)/mindspore
check-clients: $(BUILD)/prefix
	$(TORCH_NPU) --whole --table docs/reports/torch_npu.md
	$(TORCH_NPU)-2.8 --release 2.8
	$(TORCH_NPU)-2.9 --release 2.9
	$(MINDSPORE)
	$(MINDSPORE)-2.7.2 --version 2.7.2

# Every configuration, the release build last. Installs missing packages.
check: packages begin-check timed-style check-asan check-tsan check-aarch64 check-release

# The wheels are downloaded while all else is built and tested. The tests NAME.environment wait for that, and download
# again where it has failed.
begin-check: have-all-packages
	@mkdir -p $(BUILD) && rm -f $(TIMES)
	@(nice $(TORCH_NPU) --only environment; nice $(MINDSPORE) --only environment) >$(BUILD)/clients.log 2>&1 &

check-release: have-all-packages run-demo
	$(call tests,$(BUILD),$(if $(filter-out -,$(TIMES)),last))

# The same build counts which lines of src are executed: by the tests of modules, of the public libraries and of the
# tools, and by the numeric tests with few cases.
coverage check-asan: have-all-packages
	$(call build,$(BUILD)/asan,gcc,-DCANNON_SANITIZE=address -DCANNON_COVERAGE=ON -DCMAKE_BUILD_TYPE=Debug \
	  -DCMAKE_C_FLAGS_DEBUG="-O1 -g1" -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1",all tests/all)
	@find $(BUILD)/asan -name '*.gcda' -delete
	$(call tests,$(BUILD)/asan)
	@$(call timed,coverage table) scripts/coverage_table.py $(BUILD)/asan

# By clang, so that all but the kernels' higher levels is compiled by both compilers.
check-tsan: have-all-packages
	$(call build,$(BUILD)/tsan,clang,-DCANNON_SANITIZE=thread -DCMAKE_BUILD_TYPE=Debug \
	  -DCMAKE_C_FLAGS_DEBUG="-O1 -g1" -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1",all tests/all)
	$(call tests,$(BUILD)/tsan)

# aarch64, cross-compiled and run by QEMU's user mode. scripts/aarch64_sysroot unpacks the packages that this needs.
check-aarch64: have-all-packages
	@$(call timed,sysroot of aarch64) scripts/aarch64_sysroot $(BUILD)/aarch64-sysroot
	$(call build,$(BUILD)/aarch64,aarch64,-DAARCH64_SYSROOT=$(abspath $(BUILD))/aarch64-sysroot \
	  -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O1 -DCMAKE_CXX_FLAGS_RELEASE=-O1,all tests/all)
	$(call tests,$(BUILD)/aarch64)

timed-style:
	@$(call timed,style) $(MAKE) check-style

SOURCES = $(shell git ls-files '*.c' '*.h' '*.inc' '*.cpp')
format: have-packages
	clang-format -i $(SOURCES)

# clang-tidy sees the sources as clang compiles them, in a folder where nothing is built but the generated headers.
configure-clang: have-all-packages
	@cmake -S . -B $(BUILD)/clang -G Ninja --log-level=WARNING $(COMPILERS_clang)
	@cmake --build $(BUILD)/clang --target cannon_op_headers >/dev/null

check-style: configure-clang
	scripts/check-style --self-test
	scripts/check-style layers lines names bodies purpose counts rooms entries licence format tidy=$(BUILD)/clang

include scripts/docs.mk

clean:
	rm -rf $(BUILD)
