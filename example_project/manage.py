#!/usr/bin/env python
"""The command line of the example project."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Run a management command with this project's settings."""
    # In a clone the package lies beside this folder and need not be installed.
    sys.path.insert(1, str(Path(__file__).resolve().parent.parent))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
