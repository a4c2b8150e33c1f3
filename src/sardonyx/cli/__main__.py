"""python -m sardonyx.cli"""

import sys

from sardonyx.cli import main

sys.exit(main())
