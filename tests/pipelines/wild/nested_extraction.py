"""Text in, nested models out."""

from __future__ import annotations

import datetime as dt
import enum

import dspy
import pydantic


class Currency(enum.Enum):
    EUR = "EUR"
    USD = "USD"


class Address(pydantic.BaseModel):
    street: str
    city: str


class Party(pydantic.BaseModel):
    name: str
    address: Address | None = None


class Line(pydantic.BaseModel):
    what: str
    amount: float
    currency: Currency = Currency.EUR


class Invoice(pydantic.BaseModel):
    number: str
    issued: dt.date
    seller: Party
    lines: list[Line]

    @property
    def total(self) -> float:
        return sum(line.amount for line in self.lines)


class Extract(dspy.Signature):
    """Read the invoice."""

    document: str = dspy.InputField()
    invoice: Invoice = dspy.OutputField()


class Check(dspy.Signature):
    """Say what is doubtful about an invoice; an empty list if nothing is."""

    invoice: Invoice = dspy.InputField()
    doubts: list[str] = dspy.OutputField()


class ReadInvoice(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.extract = dspy.Predict(Extract)
        self.check = dspy.ChainOfThought(Check)

    def forward(self, document: str) -> dspy.Prediction:
        invoice = self.extract(document=document).invoice
        doubts = self.check(invoice=invoice).doubts
        return dspy.Prediction(invoice=invoice, doubts=doubts, total=invoice.total)


def build() -> dspy.Module:
    return ReadInvoice()
