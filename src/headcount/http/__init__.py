"""The wire: an HTTP/1.1 client and an event-stream parser. Knows nothing of models, people or levels."""

from headcount.http.client import Client, Counts, Response, descriptors_needed
from headcount.http.exchange import Exchange
from headcount.http.sse import EventParser
from headcount.http.target import Target

__all__ = ["Client", "Counts", "EventParser", "Exchange", "Response", "Target", "descriptors_needed"]
