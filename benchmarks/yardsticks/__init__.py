"""What headcount's load is measured with: a server that knows the truth, and clients to stand beside."""
