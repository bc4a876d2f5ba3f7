"""Statistics as pure functions of numbers, each with its source. Knows nothing of requests, levels and people."""
