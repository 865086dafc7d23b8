"""An agent with five tools."""

from __future__ import annotations

import dspy

STOCK = {"lamp": 4, "desk": 0}
PRICES = {"lamp": 39.0, "desk": 210.0}


def search_catalogue(words: str) -> list[str]:
    """Find products by words."""
    return [name for name in STOCK if name in words.lower()]


def stock(product: str) -> int:
    """Say how many of a product are there."""
    return STOCK.get(product, 0)


def price(product: str) -> float:
    """Say what a product costs, in euros."""
    return PRICES[product]


def delivery_days(country: str) -> int:
    """Say how long a parcel takes."""
    return 2 if country == "DE" else 5


def open_ticket(subject: str) -> str:
    """Hand over to a person."""
    return f"ticket for {subject}"


def build() -> dspy.Module:
    signature = dspy.Signature("question -> answer", "You are the assistant of a furniture shop.")
    tools = [search_catalogue, stock, price, delivery_days, open_ticket]
    return dspy.ReAct(signature, tools=tools, max_iters=6)
