"""The wire: an HTTP/1.1 client and an event-stream parser. Knows nothing of models, people or levels."""
