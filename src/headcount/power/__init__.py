"""Power limits of GPUs: read, set for a while, and put back however the program ends. Knows nothing of levels."""
