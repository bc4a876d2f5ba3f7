"""The judging half: facts in, conclusions out. Pure; never touches a network, a GPU, a file or a clock."""
