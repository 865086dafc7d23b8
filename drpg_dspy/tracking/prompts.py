"""Policies as versions in MLflow's prompt registry.

Used by :class:`~drpg_dspy.tracking.mlflow.MLflowTracker`; needs the package ``mlflow``, which
it imports only inside functions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from drpg_dspy.tracking.base import StepRecord
from drpg_dspy.tracking.metrics import ROLLING_WINDOW
from drpg_dspy.tracking.prompt_names import distinct_name, prompt_names
from drpg_dspy.tracking.version_text import version_text, wording
from drpg_dspy.types import Policy

__all__ = [
    "EXPERIMENTS_TAG",
    "IS_PROMPT_TAG",
    "LINKED_BACK",
    "LINKED_PROMPTS_TAG",
    "MAX_LINKS",
    "MAX_TEXT",
    "RUNS_TAG",
    "RUNS_UI_TAG",
    "PolicyRegistry",
    "milestones",
    "storable",
]

# MLflow's own tag names. They are internal to it: tests/tracking/test_mlflow_internals.py fails
# when a new version of MLflow changes them.
IS_PROMPT_TAG = "mlflow.prompt.is_prompt"
RUNS_TAG = "mlflow.prompt.associatedRunIds"  # MlflowClient.list_logged_prompts() reads this
RUNS_UI_TAG = "mlflow.prompt.run_ids"  # "MLflow runs" on a version's page reads this
EXPERIMENTS_TAG = "_mlflow_experiment_ids"
LINKED_PROMPTS_TAG = "mlflow.linkedPrompts"

MAX_TEXT = 100_000
"""Characters of a prompt text that MLflow takes."""

MAX_LINKS = 100
"""Versions linked to a run, at most. MLflow cuts the tag that holds them at 8,000 characters
(about 166 versions) and cannot read it any more from then on."""

LINKED_BACK = 20
"""Versions that link to their run, at first: the run's page lists each of them, so a long run
links only every so many from then on. All others name their run without a link."""

_MAX_LINK_CHARS = 7_500
_MAX_SOURCES = 20
_LOOKED_AT = 20
"""Newest versions among which one made by hand is looked for."""
_MAX_MESSAGE = 1_000


def storable(text: str, limit: int = MAX_TEXT) -> str:
    """Return ``text`` as MLflow's stores can keep it: almost always unchanged.

    Half a surrogate pair and the null character, which databases refuse, become visible
    escapes. A text over the limit is cut with a mark that says so.
    """
    text = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
    if len(text) <= limit:
        return text
    mark = f"\n[… cut for MLflow: {{}} of {len(text):,} characters; all of it is in history.jsonl]"
    room = max(0, limit - len(mark) - 10)
    return (text[:room] + mark.format(f"{room:,}"))[:limit]


def milestones(numbers: Sequence[int], best: int | None, every: int, cap: int) -> list[int]:
    """Choose the versions to link: first, best, last, every so many, at most ``cap``.

    >>> milestones(range(1, 451), best=77, every=100, cap=50)
    [1, 77, 100, 200, 300, 400, 450]
    >>> len(milestones(range(1, 100_001), best=None, every=1, cap=50))
    50
    """
    if not numbers:
        return []
    must = {numbers[0], numbers[-1]}
    if best is not None and best in numbers:
        must.add(best)
    regular = [n for n in numbers[every - 1 :: every] if n not in must]
    room = max(0, cap - len(must))
    if len(regular) > room:
        regular = [regular[i * len(regular) // room] for i in range(room)] if room else []
    return sorted(must.union(regular))[: max(cap, 1)]


class PolicyRegistry:
    """One registered prompt for each route, one version for each distinct policy text.

    Policies of a category have a prompt of their own, ``NAME.ROUTE-CATEGORY.policy``: where
    methods speak of a route, a route with its category is meant (:attr:`Policy.place`).

    Knows which of the run's versions exist already, also those that an earlier process made,
    so nothing is registered twice. A version that a person made there and a program took up is
    that program's version, too: it gets tags and no copy.

    Args:
        client: An ``mlflow.MlflowClient``.
        name: The run's or learner's name.
        run_id, run_name, experiment_id: The MLflow run.
        routes: The program's routes.
        link_every: Link every so many versions and the run to each other.
    """

    def __init__(
        self,
        client: Any,
        name: str,
        *,
        run_id: str,
        run_name: str,
        experiment_id: str,
        routes: Sequence[str],
        link_every: int,
    ) -> None:
        self.client = client
        self.name = name
        self.run_id = run_id
        self.run_name = run_name
        self.experiment_id = experiment_id
        self.link_every = link_every
        self._names = prompt_names(name, routes)
        self._rules: dict[tuple[str, int], frozenset[str]] = {}
        self.forget()

    def forget(self) -> None:
        """Read the registry anew before the next use: a failed call may have gone through."""
        self._known: dict[str, dict[int, int]] = {}  # by route, our version to MLflow's
        self._linking: set[tuple[str, int]] = set()  # prompts and numbers that link to the run
        self._aliases: dict[tuple[str, str], int] = {}
        self._links = ""

    @property
    def prompts(self) -> dict[str, str]:
        """Names of the prompts that exist, by route."""
        return {route: self._names[route] for route in self._known}

    def number(self, route: str, version: int) -> int | None:
        """Return MLflow's number of a version; ``None`` when it is not registered."""
        return self._versions(route).get(version)

    def find(self, route: str, version: int) -> tuple[str, int] | None:
        """Return a version's prompt and MLflow's number; ``None`` when it is not registered."""
        number = self.number(route, version)
        return None if number is None else (self._names[route], number)

    def register(self, policy: Policy, record: StepRecord) -> None:
        """Register a policy, unless its text is empty or it is registered already."""
        self._rules[policy.place, policy.version] = frozenset(r.text for r in policy.rules)
        if not policy.text:
            return
        versions = self._versions(policy.place)
        if policy.version in versions:
            return
        parent = versions.get(policy.parent)
        if policy.place not in self._known:
            self._create_prompt(policy.place)
            self._known[policy.place] = versions
        name = self._names[policy.place]
        if (by_hand := self._made_by_hand(name, policy)) is not None:
            versions[policy.version] = by_hand
            return
        link = self._link_tag(len(versions))
        made = self.client.create_prompt_version(
            name=name,
            template=storable(policy.text),
            description=storable(self._message(policy), _MAX_MESSAGE),
            tags={**self._tags(policy, parent, record), **link},
        )
        versions[policy.version] = int(made.version)
        if link:
            self._linking.add((name, int(made.version)))

    def set_alias(self, alias: str, route: str, version: int) -> None:
        """Point an alias at a version; does nothing for one that is not registered."""
        number = self.number(route, version)
        if number is None or self._aliases.get((alias, route)) == number:
            return
        self.client.set_prompt_alias(self._names[route], alias, number)
        self._aliases[alias, route] = number

    def link_to_run(self, route: str, version: int) -> None:
        """Make a version's page link to the run, whatever its number."""
        found = self.find(route, version)
        if found is not None and found not in self._linking:
            self.client.set_prompt_version_tag(*found, RUNS_UI_TAG, self.run_id)
            self._linking.add(found)

    def link_from_run(self, best: Mapping[str, int]) -> None:
        """Show the milestones on the run's page (:func:`milestones`).

        The page lists the versions that link to the run by itself; these are left out here.
        """
        cap = MAX_LINKS // max(1, len(self._known))
        text = self._link_text(best, cap)
        while len(text) > _MAX_LINK_CHARS and cap > 1:
            cap //= 2
            text = self._link_text(best, cap)
        if text != self._links and len(text) <= _MAX_LINK_CHARS:
            # MLflow's own link_prompt_version_to_run() can only append, and writes to the
            # process's tracking address instead of the client's.
            self.client.set_tag(self.run_id, LINKED_PROMPTS_TAG, text)
            self._links = text

    def _link_text(self, best: Mapping[str, int], cap: int) -> str:
        links = []
        for route, versions in self._known.items():
            top = versions.get(best.get(route, 0))
            for number in milestones(sorted(versions.values()), top, self.link_every, cap):
                if (self._names[route], number) not in self._linking:
                    links.append({"name": self._names[route], "version": str(number)})
        return json.dumps(links[:MAX_LINKS])

    def _versions(self, route: str) -> dict[int, int]:
        """Return MLflow's numbers of the run's versions; remembered once the prompt exists."""
        if route not in self._known:
            if route not in self._names:
                self._add_route(route)
            if not self._adopt_prompt(route):
                return {}
            self._known[route] = self._registered(self._names[route])
        return self._known[route]

    def _add_route(self, route: str) -> None:
        name = prompt_names(self.name, [route])[route]
        taken = name.lower() in (other.lower() for other in self._names.values())
        self._names[route] = distinct_name(self.name, route) if taken else name

    def _adopt_prompt(self, route: str) -> bool:
        """Settle the prompt's name; return whether it exists, then listed in our experiment."""
        name = self._names[route]
        found = self._find(name)
        if found is not None and any(found.get(k) != v for k, v in self._identity(route).items()):
            # Somebody else's prompt, or another learner whose name slugs alike.
            name = self._names[route] = distinct_name(self.name, route)
            found = self._find(name)
        if found is None:
            return False
        mine, known = f",{self.experiment_id},", found.get(EXPERIMENTS_TAG, ",")
        if mine not in known:
            self.client.set_prompt_tag(name, EXPERIMENTS_TAG, known.rstrip(",") + mine)
        return True

    def _create_prompt(self, route: str) -> None:
        self.client.create_prompt(
            self._names[route],
            description=storable(
                f"Policy of route `{route}` of `{self.name}`, written by the running program "
                "from feedback (drpg-dspy). `current` is the version last in force, `best` the "
                "one under which the rolling score peaked; `champion` is set by people.",
                5_000,
            ),
            tags={**self._identity(route), EXPERIMENTS_TAG: f",{self.experiment_id},"},
        )

    def _identity(self, route: str) -> dict[str, str]:
        return {"drpg.name": storable(self.name, 5_000), "drpg.route": storable(route, 5_000)}

    def _find(self, name: str) -> dict[str, str] | None:
        """Return a prompt's tags. Unlike ``get_prompt``, raises when the server is away."""
        for prompt in self.client.search_prompts(filter_string=f"name = '{name}'"):
            if prompt.name == name:
                return dict(prompt.tags or {})
        return None

    def _made_by_hand(self, name: str, policy: Policy) -> int | None:
        """Return the number of the version that a person made and this policy was taken from."""
        if not policy.author.startswith("person:"):
            return None
        wanted = wording(policy.text)
        found = self.client.search_model_versions(
            f"name = '{name}' AND tags.`{IS_PROMPT_TAG}` = 'true'",
            max_results=_LOOKED_AT,
            order_by=["version_number DESC"],
        )
        for mv in found:
            if "drpg.run_id" not in mv.tags and wording(version_text(mv.tags)) == wanted:
                number = int(mv.version)
                runs = [*filter(None, mv.tags.get(RUNS_TAG, "").split(",")), self.run_id]
                # Not drpg.run_id: by its absence it is known as made by hand.
                self.client.set_prompt_version_tag(name, number, RUNS_TAG, ",".join(runs))
                self.client.set_prompt_version_tag(name, number, self._taken, str(policy.version))
                return number
        return None

    @property
    def _taken(self) -> str:
        """The tag of a version made by hand that says which of the run's it is."""
        return f"drpg.version.{self.run_id}"

    def _registered(self, name: str) -> dict[int, int]:
        numbers: dict[int, int] = {}
        for condition, tag in (
            (f"tags.`drpg.run_id` = '{self.run_id}'", "drpg.version"),
            (f"tags.`{self._taken}` LIKE '%'", self._taken),
        ):
            query = f"name = '{name}' AND {condition} AND tags.`{IS_PROMPT_TAG}` = 'true'"
            page = None
            while True:
                found = self.client.search_model_versions(query, page_token=page)
                numbers |= {int(mv.tags[tag]): int(mv.version) for mv in found}
                linking = (mv for mv in found if mv.tags.get(RUNS_UI_TAG) == self.run_id)
                self._linking |= {(name, int(mv.version)) for mv in linking}
                page = found.token
                if not page:
                    break
        return numbers

    def _link_tag(self, earlier: int) -> dict[str, str]:
        share = LINKED_BACK // max(1, len(self._names))
        regular = (earlier + 1) % self.link_every == 0 and earlier // self.link_every < share
        return {RUNS_UI_TAG: self.run_id} if earlier < share or regular else {}

    def _message(self, policy: Policy) -> str:
        parts = [f"Step {policy.step} of {self.run_name}"]
        before = self._rules.get((policy.place, policy.parent), frozenset())
        now = self._rules[policy.place, policy.version]
        if not policy.parent or (policy.place, policy.parent) in self._rules:
            changed = f"+{len(now - before)} −{len(before - now)} rules"
            parts.append(changed if now != before else "same rules in another order")
        parts.append(policy.author)
        head = " · ".join(parts)
        return f"{head}: {policy.message}" if policy.message else head

    def _tags(self, policy: Policy, parent: int | None, record: StepRecord) -> dict[str, str]:
        sources = policy.sources
        named = ", ".join(sources[:_MAX_SOURCES])
        if len(sources) > _MAX_SOURCES:
            named += f", +{len(sources) - _MAX_SOURCES} more (all in history.jsonl)"
        # MLflow's page of a prompt loads every tag of every version, and takes the longer for each
        # of them: what the prompt or the commit message says is no tag.
        tags = {
            "parent_version": str(parent or "none"),
            "step": str(policy.step),
            "author": policy.author,
            "score_before": _score_before(record),
            "sources": named or "none",
            **({"route": policy.route, "category": policy.category} if policy.category else {}),
            "drpg.run_id": self.run_id,
            "drpg.version": str(policy.version),
            RUNS_TAG: self.run_id,
        }
        return {key: storable(value, 5_000) for key, value in tags.items()}


def _score_before(record: StepRecord) -> str:
    """Return the mean score before a version, and that of the last verdicts."""
    if "prequential_score" not in record.metrics:
        return "not judged yet"
    mean = record.metrics["prequential_score"]
    last = record.metrics.get("rolling_score", mean)
    return f"{mean:.4f}, last {ROLLING_WINDOW}: {last:.4f}"
