"""`python -m sardonyx` is the command `sardonyx`."""

import sys

from sardonyx.cli import main

if __name__ == "__main__":
    sys.exit(main())
