"""What holds for all tests: properties are tried on the same examples every time, however slow the machine."""

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None, database=None)
settings.load_profile("steady")
