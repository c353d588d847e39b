# Two commands for a newcomer: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

WEB := web/node_modules/.installed

.PHONY: demo test lint types web fuzz bench clean

demo: $(STAMP)
	@echo "Recording examples/stocks.py: an LSTM on S&P 500 prices, another input size at each step ..."
	@$(BIN)/plait run -f -o demo.plait examples/stocks.py
	@echo
	@echo "Now try:"
	@echo "  $(BIN)/plait show demo.plait            which distinct graphs, where they part, every decision"
	@echo "  $(BIN)/plait show demo.plait --graph    the graph of the last step, loops folded"
	@echo "  $(BIN)/plait run examples/dynamic_rnn.py   a model that decides at every step"
	@echo "  $(BIN)/python examples/stocks.py --batch   windows of any length in one call, beside the plain loop"
	@echo "  $(BIN)/plait run YOUR_SCRIPT.py --its-own-options"

test: $(STAMP) lint types web
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check --quiet src tests examples benchmarks
	$(BIN)/ruff format --check --quiet src tests examples benchmarks

types: $(STAMP)
	$(BIN)/mypy

# The page: its types, its own tests, and whether the committed bundle is what web/ builds.
web:
	@if node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' 2>/dev/null && npm --version >/dev/null 2>&1; \
	then $(MAKE) --no-print-directory $(WEB) && cd web && npm run --silent check && npx --no-install vitest run --reporter=dot; \
	else echo "web/ is not checked here: it needs Node 20 or later with npm (the page itself is built already)."; fi

$(WEB): web/package.json web/package-lock.json
	cd web && npm ci --no-audit --no-fund --loglevel=error
	touch $@

# Random programs, batched against the plain loop; about a quarter of an hour.
fuzz: $(STAMP)
	$(BIN)/python -m tests.batching.fuzz $(or $(PROGRAMS),5000) $(or $(SEED),0)

bench: $(STAMP)
	$(BIN)/python benchmarks/record.py
	$(BIN)/python benchmarks/batch.py

# torch first and alone: the pinned build, without the gigabytes of CUDA that a plain "torch" brings.
$(STAMP): pyproject.toml constraints.txt setup.py $(wildcard src/plait/batching/core/*)
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch numpy
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,examples]'
	touch $@

clean:
	rm -rf $(VENV) web/node_modules build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
