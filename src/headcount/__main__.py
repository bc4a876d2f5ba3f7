"""``python -m headcount``: the command without its script."""

import sys

from headcount.cli import main

if __name__ == "__main__":
    sys.exit(main())
