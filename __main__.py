"""`python -m tilewright` is the command `tilewright`."""

from .cli import main

raise SystemExit(main())
