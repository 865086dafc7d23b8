VENV ?= .venv
# A CPU build is enough, and on Linux the default index gives a CUDA build of several gigabytes
# to any newer or unpinned torch.
TORCH ?= torch==2.13.0
PY := $(VENV)/bin/python
READY := $(VENV)/.drpg-ready

.PHONY: demo test check format benchmark clean

demo: $(READY)  ## the embedded stream with the real small model: about ten minutes on two cores
	$(PY) -m drpg_dspy demo

test: $(READY)  ## the whole default test run
	$(PY) -m pytest -q

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

$(READY): pyproject.toml
	test -x $(PY) || python3 -m venv $(VENV)
	$(PY) -c "import torch" 2>/dev/null || $(PY) -m pip install -q "$(TORCH)"
	$(PY) -m pip install -q -e ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build *.egg-info
