"""What people changed by hand in MLflow's prompt registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drpg_dspy.tracking.prompt_names import distinct_name, prompt_names
from drpg_dspy.tracking.prompts import IS_PROMPT_TAG
from drpg_dspy.tracking.reach import answers
from drpg_dspy.tracking.version_text import template_text, version_text

__all__ = ["HandMade", "RegistryReader"]

CHAMPION = "champion"
_NO_SUCH = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
_LOOKED_AT = 20


@dataclass(frozen=True, slots=True)
class HandMade:
    """What stands in a registry for one route.

    Attributes:
        route: The route.
        prompt: Its name in the registry.
        champion: Number of the version that the alias ``champion`` points to; 0 = none.
        champion_text: Its text.
        newest: Number of the newest version that no run of this library made; 0 = none among
            the last 20.
        newest_text: Its text.
        newest_is_last: No version came after it.
        author: Who made it, as far as the registry says.
        message: Its commit message.
    """

    route: str
    prompt: str
    champion: int = 0
    champion_text: str = ""
    newest: int = 0
    newest_text: str = ""
    newest_is_last: bool = False
    author: str = ""
    message: str = ""


class RegistryReader:
    """Reads what people may have changed; never writes.

    Args:
        uri: The store.
        name: The run's or learner's name.
        routes: The program's routes.
        ready: Tells whether there is something to read yet. A store whose tables are only being
            made must not be opened a second time.
    """

    def __init__(
        self,
        uri: str,
        name: str,
        routes: Sequence[str],
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self.uri = uri
        self.name = name
        self.routes = tuple(routes)
        self.ready = ready
        self._client: Any = None

    def read(self) -> list[HandMade]:
        """Return what stands now for each route that has a prompt.

        Whatever the store raises is passed on.

        Raises:
            ConnectionError: The server does not answer. MLflow itself would try for minutes.
        """
        if self.uri.startswith(("http://", "https://")) and not answers(self.uri):
            raise ConnectionError("the server does not answer")
        if not self.ready():
            return []
        if self._client is None:
            from mlflow import MlflowClient

            self._client = MlflowClient(tracking_uri=self.uri)
        names = prompt_names(self.name, self.routes)
        found = []
        for route in self.routes:
            prompt = self._prompt(route, names[route])
            if prompt:
                found.append(self._look(route, prompt))
        return found

    def _prompt(self, route: str, name: str) -> str:
        for candidate in (name, distinct_name(self.name, route)):
            tags = self._tags(candidate)
            if tags.get("drpg.name") == self.name and tags.get("drpg.route") == route:
                return candidate
        return ""

    def _tags(self, name: str) -> Mapping[str, str]:
        for prompt in self._client.search_prompts(filter_string=f"name = '{name}'"):
            if prompt.name == name:
                return dict(prompt.tags or {})
        return {}

    def _look(self, route: str, prompt: str) -> HandMade:
        number, text = self._champion(prompt)
        query = f"name = '{prompt}' AND tags.`{IS_PROMPT_TAG}` = 'true'"
        versions = self._client.search_model_versions(
            query, max_results=_LOOKED_AT, order_by=["version_number DESC"]
        )
        by_hand = next((v for v in versions if "drpg.run_id" not in (v.tags or {})), None)
        if by_hand is None:
            return HandMade(route, prompt, number, text)
        return HandMade(
            route,
            prompt,
            number,
            text,
            newest=int(by_hand.version),
            newest_text=version_text(by_hand.tags),
            newest_is_last=by_hand.version == versions[0].version,
            author=str(by_hand.tags.get("author") or by_hand.user_id or ""),
            message=str(by_hand.description or ""),
        )

    def _champion(self, prompt: str) -> tuple[int, str]:
        from mlflow.exceptions import MlflowException

        try:
            found = self._client.get_prompt_version_by_alias(prompt, CHAMPION)
        except MlflowException as error:
            if error.error_code not in _NO_SUCH:
                raise
            return 0, ""
        return int(found.version), template_text(found.template)
