VENV ?= .venv
# A CPU build is enough, and on Linux the default index gives a CUDA build of several gigabytes
# to any newer or unpinned torch.
TORCH ?= torch==2.13.0
PY := $(VENV)/bin/python
# A file of tests stays in one process; the small model runs in several at once.
TEST_PROCESSES ?= 2
READY := $(VENV)/.drpg-ready
# DS-1000's references want the library versions of 2024, which Python 3.10 and 3.11 can have.
DS1000_VENV ?= .venv-ds1000
DS1000_PYTHON ?= python3.11

.PHONY: demo test check format docs benchmark notebooks ds1000 clean

demo: $(READY)  ## the embedded stream with the real small model: about ten minutes on two cores
	$(PY) -m drpg_dspy demo

test: $(READY)  ## the whole default test run
	$(PY) -m pytest -q -n $(TEST_PROCESSES) --dist loadfile --durations=20

check: $(READY)  ## lint, format, types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(READY)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

benchmark: $(READY)  ## speed against peers, as ratios in one run
	$(PY) benchmarks/step_overhead.py
	$(PY) benchmarks/memory_size.py
	$(PY) benchmarks/tracking_cost.py
	$(PY) benchmarks/judges.py
	$(PY) benchmarks/constraints.py
	$(PY) benchmarks/constraint_registry.py

docs: $(READY)  ## the documentation as a site, in site/: broken links are errors
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict
	@echo "open site/index.html, or with search: $(PY) -m http.server -d site 8000"

notebooks: $(READY)  ## run docs/notebooks with the small real model, keep the outputs: half an hour
	$(PY) -m drpg_dspy lm pull qwen2.5-coder-1.5b
	$(PY) docs/notebooks/execute.py

ds1000:  ## the interpreter that judges DS-1000: set DRPG_DS1000_PYTHON to what this prints
	test -x $(DS1000_VENV)/bin/python || $(DS1000_PYTHON) -m venv $(DS1000_VENV)
	$(DS1000_VENV)/bin/python -m pip install -q -r evaluators/code/requirements-ds1000.txt
	@echo $(abspath $(DS1000_VENV))/bin/python

$(READY): pyproject.toml
	test -x $(PY) || python3 -m venv $(VENV)
	$(PY) -c "import torch" 2>/dev/null || $(PY) -m pip install -q "$(TORCH)"
	$(PY) -m pip install -q -e ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) $(DS1000_VENV) .pytest_cache .mypy_cache .ruff_cache build site *.egg-info
