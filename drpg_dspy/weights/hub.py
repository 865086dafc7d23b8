"""Whether the Hugging Face hub can give a model, found out soon.

Its client tries again for minutes where nothing answers, so it is asked only when this says so.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

__all__ = ["hub_refusal"]

SECONDS = 5.0
"""How long an answer is waited for, name look-up included."""

_HOME = "sentence-transformers"  # whose models are called by their bare names


def hub_refusal(model: str, *, revision: str | None = None, seconds: float = SECONDS) -> str:
    """Return why the hub cannot give a model; ``""`` where it can.

    Args:
        model: Its name, with or without its owner.
        revision: Commit, tag or branch; ``None`` = the newest.
        seconds: No more are waited.

    Returns:
        Half a sentence, e.g. ``"the hub does not answer"``.
    """
    try:
        from huggingface_hub import constants, hf_hub_url
        from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError
    except ImportError:
        return "the package huggingface_hub is not installed"
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE forbids to ask the hub"
    name = model if "/" in model else f"{_HOME}/{model}"
    try:
        url = hf_hub_url(name, "config.json", revision=revision)
        _answer(url, seconds).result(seconds)
    except EntryNotFoundError:
        return ""  # the model is there, without this file
    except HFValidationError:
        return "no model can have that name"
    except HfHubHTTPError as error:
        if error.response.status_code >= 500:
            return f"the hub is out of order (status {error.response.status_code})"
        return "the hub has no such model, or not for you (HF_TOKEN)"
    except TimeoutError:
        return f"the hub does not answer within {seconds:g} s"
    except OSError as error:
        return f"the hub cannot be reached ({next(iter(str(error).splitlines()), '')[:120]})"
    return ""


def _answer(url: str, seconds: float) -> Future[Any]:
    """Ask in a thread of its own: looking up a name has no time limit, and cannot be given up."""
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.file_download import get_hf_file_metadata

    future: Future[Any] = Future()
    # Its bases are the HTTP client's own root (whichever client this version uses) and OSError.
    failures: tuple[Any, ...] = (*HfHubHTTPError.__bases__, ValueError)

    def ask() -> None:
        try:
            future.set_result(get_hf_file_metadata(url, timeout=seconds))
        except HfHubHTTPError as error:
            future.set_exception(error)
        except failures as error:
            future.set_exception(ConnectionError(str(error) or type(error).__name__))

    threading.Thread(target=ask, name="drpg-hub", daemon=True).start()
    return future
