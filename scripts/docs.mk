# SPDX-License-Identifier: Apache-2.0
# Included by the Makefile: `make docs` makes the HTML reference of include/cannon in $(BUILD)/docs. It needs doxygen, a
# package of Debian.
.PHONY: docs
docs:
	@command -v doxygen >/dev/null || { echo "missing package: doxygen" >&2; exit 1; }
	@cmake -E rm -rf $(BUILD)/docs
	@mkdir -p $(BUILD)/docs
	@{ cat docs/Doxyfile; echo "OUTPUT_DIRECTORY = $(BUILD)/docs"; \
	   sed -n 's/^project(cannon VERSION \([0-9.]*\).*/PROJECT_NUMBER = \1/p' CMakeLists.txt; } | doxygen -
	@echo "written: $(BUILD)/docs/index.html"
