# Every target sets up what it needs, so each works on a fresh machine with Python >= 3.11, a Rust toolchain and make.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PEERS := .venv-peers
COMPAT := .venv-compat
PIP := -m pip install --quiet --disable-pip-version-check
RUST_SOURCES := $(shell find primitives bridge interop -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock pyproject.toml

export TORCH_DEVICE_BACKEND_AUTOLOAD ?= 1

.PHONY: setup demo test test-rust test-python test-compat bench instructions lint ci wheel clean

setup: $(VENV)/.built

$(VENV)/.requirements: requirements/dev.txt requirements/constraints.txt requirements/plugins.txt
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) $(PIP) -r requirements/dev.txt -c requirements/constraints.txt
	$(PY) $(PIP) --no-deps -r requirements/plugins.txt
	touch $@

# Python sources are used in place; only a change on the Rust side builds again.
$(VENV)/.built: $(VENV)/.requirements $(RUST_SOURCES)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin develop --release --quiet
	touch $@

demo: setup
	$(PY) examples/demo.py

test: test-rust test-python

test-rust: setup
	VIRTUAL_ENV=$(CURDIR)/$(VENV) PATH="$(CURDIR)/$(VENV)/bin:$$PATH" TORCH_PJRT_PYTHON=$(CURDIR)/$(PY) cargo test --workspace --quiet

test-python: setup
	$(PY) -m pytest -q tests

wheel: setup
	rm -rf dist
	$(VENV)/bin/maturin build --release --quiet --out dist

# The very same wheel on the oldest torch that we support.
test-compat: wheel
	test -x $(COMPAT)/bin/python || $(PYTHON) -m venv $(COMPAT)
	$(COMPAT)/bin/python $(PIP) -r requirements/compat.txt
	$(COMPAT)/bin/python $(PIP) --no-deps -r requirements/plugins.txt
	$(COMPAT)/bin/python $(PIP) --no-deps --force-reinstall dist/*.whl
	$(COMPAT)/bin/python -m pytest -q tests/smoke tests/errors/test_raising_backward.py tests/jit/test_shortcuts.py

# TORCH_XLA=/path/to/python of an environment with torch_xla adds that peer: it pins a torch of its own. So does TORCHAX=
# with torchax and optax, which need a torch before 2.13.
bench: setup
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python $(PIP) -r requirements/peers.txt
	$(PY) tests/bench/bench.py --peers $(PEERS)/bin/python $(if $(TORCH_XLA),--torch-xla $(TORCH_XLA)) $(if $(TORCHAX),--torchax $(TORCHAX)) $(BENCH_ARGS)

# Instructions of single eager ops, by callgrind (minutes); says so and ends well where valgrind is missing.
instructions: setup
	$(PY) tests/bench/instructions.py

lint: setup
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

ci:
	bash .ci/run

clean:
	rm -rf target dist $(VENV) $(PEERS) $(COMPAT)
