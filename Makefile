# Every target sets up .venv by itself. Needs Python 3.11 or newer: make PYTHON=/path/to/python3.12 serve
PYTHON ?= python3
CODEX ?= codex
CLAUDE ?= claude
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ninfer-ready
PROJECTS := -e '.[dev]' -e plugins/protocols -e plugins/models -e plugins/kvformats -e plugins/speculative -e plugins/media

# Two processes, each with whole files, so that what a file sets up is set up once. make test PARALLEL= runs in one.
PARALLEL ?= -n 2 --dist loadfile

# In the order that tests/gpu/conftest.py gives: the long files first.
GPU_PARALLEL ?= -n 6 --dist loadfile --no-loadscope-reorder

# Small tensors run slower on several threads than on one.
export OMP_NUM_THREADS ?= 1

# Every server that a test starts would compile all its modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: serve test test-long test-clients test-gpu test-gpu-long test-codex test-claude-code lint contract bench campaign clean

serve: $(READY) ## Serve the embedded model on http://127.0.0.1:8080; make serve OPTIONS='--port 9000'
	$(BIN)/ninfer serve $(OPTIONS)

test: $(READY) ## All tests but the long ones
	$(BIN)/python -m pytest -m 'not long and not gpu' $(PARALLEL) $(OPTIONS)

test-long: $(READY) ## The long tests
	$(BIN)/python -m pytest -m 'long and not gpu' $(PARALLEL) $(OPTIONS)

# The suites are asynchronous in part, and their clients outlive one test.
test-clients: $(READY) ## LangChain's standard suites over its clients; installs them first
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[clients]'
	$(BIN)/python -m pytest tests/clients/test_langchain.py tests/clients/test_client_programs.py -o asyncio_mode=auto \
	-o asyncio_default_fixture_loop_scope=session -o asyncio_default_test_loop_scope=session $(OPTIONS)

test-gpu: $(READY) ## Tests that need a CUDA device, six at a time; make test-gpu GPU_PARALLEL= runs in one
	$(BIN)/python -m pytest -m 'gpu and not long' $(GPU_PARALLEL) $(OPTIONS)

# One at a time: whole models do not fit beside each other.
test-gpu-long: $(READY) ## The long ones of them, with models of all layers
	$(BIN)/python -m pytest -m 'gpu and long' $(OPTIONS)

test-codex: $(READY) ## The Codex CLI against a server of scripted answers; make test-codex CODEX=/path/to/codex
	CODEX_COMMAND=$(CODEX) $(BIN)/python -m pytest tests/clients/test_codex.py $(OPTIONS)

test-claude-code: $(READY) ## Claude Code against such a server; make test-claude-code CLAUDE=/path/to/claude
	CLAUDE_COMMAND=$(CLAUDE) $(BIN)/python -m pytest tests/clients/test_claude_code.py $(OPTIONS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

contract: $(READY) ## Write docs/contract.md from the marks of the tests
	$(BIN)/python tools/contract_page.py

bench: $(READY) ## Speed of the embedded model here, checked; make bench OPTIONS='dummy:qwen3.8-27b --roof'
	$(BIN)/ninfer bench engine --max-concurrency 8 --kv-capacity 16384 --contexts 128,1k --prompts 1k --chunks 1k $(OPTIONS)

campaign: $(READY) ## Every speed that the design asks of one GPU: make campaign OPTIONS='27b-fp8 --plot'
	$(BIN)/ninfer bench campaign bench/campaign.toml $(OPTIONS)

clean: ## Remove caches and build outputs; .venv stays
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find ninfer_core plugins tests tools bench examples -name __pycache__ -prune -exec rm -rf {} +

# torch goes first and alone, by its exact version: an index of local builds then serves it before anything pulls another.
$(READY): constraints.txt pyproject.toml $(wildcard plugins/*/pyproject.toml)
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("ninfer needs Python 3.11 or newer; \
	$(PYTHON) is %d.%d. Name another one: make PYTHON=python3.12" % v[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet -c constraints.txt $(PROJECTS)
	touch $(READY)
