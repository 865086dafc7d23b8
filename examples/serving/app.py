"""A web service that answers, takes feedback later by id, and learns from it.

    pip install 'drpg-dspy[serving]'
    SHOP_LM=openai/gpt-4.1-mini uvicorn --factory examples.serving.app:create_app

    curl localhost:8000/answers -H 'content-type: application/json' \
        -d '{"question": "Can I return a gift card?"}'
    curl localhost:8000/answers/ID/feedback -X PUT -H 'content-type: application/json' \
        -d '{"score": 0, "text": "Name the page of the terms."}'

What was answered and what was said about it stands in one SQLite file, ``.drpg/shop.sqlite``
below the working directory: it survives ``kill -9``, and several workers share it
(``--workers 4``).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import dspy
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from drpg_dspy import DRPG, OnlinePolicyOptimizer
from drpg_dspy.exceptions import StorageError, UnknownRollout

TERMS = (
    "1. Returns are free for 30 days after delivery.",
    "2. Gift cards cannot be returned or paid out.",
    "3. Parcels inside Europe take two to four working days.",
)


class AnswerCustomer(dspy.Signature):
    """Answer a customer of the shop from its terms."""

    terms: list[str] = dspy.InputField()
    question: str = dspy.InputField()
    answer: str = dspy.OutputField()


class Assistant(dspy.Module):
    """The program, which knows nothing of learning or of the web."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = dspy.ChainOfThought(AnswerCustomer)

    def forward(self, question: str) -> dspy.Prediction:
        return self.answer(terms=list(TERMS), question=question)

    async def aforward(self, question: str) -> dspy.Prediction:
        return await self.answer.acall(terms=list(TERMS), question=question)


class Question(BaseModel):
    question: str = Field(min_length=1, max_length=4_000)


class Answer(BaseModel):
    id: str | None = Field(description="names the answer in feedback; null = it takes none")
    answer: str


class Verdict(BaseModel):
    score: Annotated[float, Field(ge=0, le=1, description="0 = wrong, 1 = right")]
    text: str = Field("", max_length=4_000, description="what was wrong or right, in words")
    author: str = Field("", max_length=100)


def make_learner() -> OnlinePolicyOptimizer:
    """Return the learner of this process; all processes of one folder share its memory."""
    dspy.configure(lm=dspy.LM(os.environ.get("SHOP_LM", "openai/gpt-4.1-mini")))
    return OnlinePolicyOptimizer(Assistant(), DRPG(k=8, feedback_text=True), name="shop")


def create_app(online: OnlinePolicyOptimizer | None = None) -> FastAPI:
    """Return the service around a learner.

    Args:
        online: The learner; ``None`` = :func:`make_learner`. Closed with the service.
    """
    learner = online if online is not None else make_learner()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with learner:
            yield

    app = FastAPI(title="A shop assistant that learns", lifespan=lifespan)

    @app.post("/answers")
    async def answer(asked: Question) -> Answer:
        prediction = await learner.acall(question=asked.question)
        return Answer(id=prediction.rollout_id, answer=prediction.answer)

    # Plain functions: FastAPI runs them in threads, and learning may take an LM call's time.
    @app.put("/answers/{id}/feedback", status_code=204)
    def give_feedback(id: str, verdict: Verdict) -> None:
        author = f"person:{verdict.author}" if verdict.author else "person"
        with_errors(learner.feedback, id, score=verdict.score, text=verdict.text, author=author)

    @app.delete("/answers/{id}/feedback", status_code=204)
    def take_feedback_back(id: str) -> None:
        with_errors(learner.retract, id)

    @app.get("/answers/{id}")
    def look_up(id: str) -> dict[str, Any]:
        rollout = with_errors(learner.memory.rollout, id)
        feedback = learner.memory.feedback(id)
        return {
            "question": rollout.inputs["question"],
            "answer": (rollout.outputs or {}).get("answer"),
            "policies": {name: p.text for name, p in rollout.guidance.policies.items()},
            "score": None if feedback is None else feedback.score,
            "text": "" if feedback is None else feedback.text,
        }

    @app.exception_handler(RequestValidationError)
    def refuse(_: Request, error: RequestValidationError) -> JSONResponse:
        # Without what was sent: FastAPI cannot write a NaN back.
        said = [{"loc": item["loc"], "msg": item["msg"]} for item in error.errors()]
        return JSONResponse({"detail": said}, 422)

    @app.get("/health")
    def health(response: Response) -> dict[str, int]:
        if learner.unrecorded:  # answers go out, but nothing can be learned from them
            response.status_code = 500
        return {
            "answers": learner.memory.count_rollouts(),
            "learned_from": learner.memory.count(),
            "unrecorded": learner.unrecorded,
        }

    return app


def with_errors(do: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the learner; what is the client's mistake or passes over becomes a status."""
    try:
        return do(*args, **kwargs)
    except UnknownRollout as error:
        raise HTTPException(404, "There is no answer of this id.") from error
    except StorageError as error:  # sent again it counts once
        raise HTTPException(503, "Not kept; send it again.", {"Retry-After": "1"}) from error
