# The front door. Each target does all the set-up that it needs; `make help` lists them.

PREFIX ?= $(HOME)/.local
CONFIGURE = cmake --preset release $(if $(FOREBAY_WERROR),-DFOREBAY_WERROR=$(FOREBAY_WERROR)) --log-level=WARNING

.DEFAULT_GOAL := help
.PHONY: help setup build format check test test-long demo examples bench evaluate site suites install uninstall wheel deb clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  HDF5_ROOT=PREFIX names the HDF5 to use (1.14.0 or later); PREFIX=DIR is where install puts things."

setup:  ## packages, HDF5 and the Python environment, each only when missing
	@tools/setup

build:  ## the release build without its tests, in build/release
	@tools/setup packages hdf5
	@$(CONFIGURE) >/dev/null
	@cmake --build --preset release --target src/all tools/slowfs/all

format:  ## lay out all code, with clang-format and ruff
	@tools/setup python
	@tools/env tools/format

check:  ## what to try each commit with, 5 minutes on two cores: style, compiled tests, some of the others (a new clone: 7 more)
	@tools/setup
	@tools/run-tests --check

test:  ## build and run the tests, about 40 minutes on two cores; the last line is the sum
	@tools/setup
	@tools/setup torch
	@tools/run-tests

test-long:  ## all that, packages, and what takes hours: every point of the kill campaigns, long fuzzing, HDF5's long suites
	@tools/setup
	@tools/setup torch
	-@tools/setup torch-tests
	@tools/setup hdf5-threadsafe wheel
	@tools/run-tests --long

demo:  ## two short programs, one that writes and one that reads, natively and with forebay; in build/demo
	@tools/setup packages-demo python-demo
	@tools/fetch-headers build/third_party
	@cmake --preset demo --log-level=WARNING >/dev/null
	@cmake --build --preset demo
	@mkdir -p build/demo
	@FOREBAY_BUILD_DIR=build/for-demo tools/env python -m forebay.demo --output build/demo

examples: build  ## a PyTorch training on a slow file system, natively and with forebay, about 5 minutes; in build/examples
	@tools/setup python examples
	@tools/env examples/training/compare.py --output build/examples

bench: build  ## the measurements, as ratios against native HDF5
	@cmake --build --preset release --target bench/all evaluation/all
	@tools/setup python
	@tools/env bench/run

evaluate: build  ## the kernels of the papers on one page, build/evaluation/index.html, 2 hours; QUICK=1: 15 minutes
	@cmake --build --preset release --target $(if $(QUICK),bench/all evaluation/all,all)
	@tools/setup python $(if $(QUICK),,python-mpi)
	@tools/env evaluation/run $(if $(QUICK),--quick)

suites: build  ## test suites of packages that use HDF5, natively and with forebay, half an hour
	@tools/setup suites
	@tools/env tools/suites

site: build  ## the documentation as a site, with its reference made from the code; in build/site
	@tools/setup site
	@python3 tools/site
	@tools/env mkdocs build --strict --quiet -f docs/mkdocs.yml
	@echo "The documentation is in build/site/index.html"

install: build  ## install into PREFIX (default ~/.local), without debug information; DESTDIR is for packagers
	@packaging/install build/release "$(abspath $(PREFIX))" $(DESTDIR)

uninstall:  ## remove from PREFIX what make install has put there, and nothing else
	@packaging/install --uninstall "$(abspath $(PREFIX))" $(DESTDIR)

wheel:  ## a source distribution, and from it a wheel for glibc 2.28 and later, in build/dist
	@tools/setup wheel manylinux
	@tools/build-wheel

deb: build  ## a Debian package, in build/dist
	@packaging/build-deb

clean:  ## remove build/; the cache with HDF5 and the Python environment stays
	@cmake -E rm -rf build
