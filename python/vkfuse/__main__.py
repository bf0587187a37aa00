"""python -m vkfuse: the command `vkfuse`, with its options."""

import signal
import sys


def main() -> int:
    from . import _core

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the interpreter would only hear of it after the command
    sys.stdout.flush()
    return _core._command(["vkfuse", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
