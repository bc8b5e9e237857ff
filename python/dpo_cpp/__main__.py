"""The command dpo: replaces this process with the program."""

import os
import signal
import sys

from dpo_cpp._program import environment, program


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and programs inherit that
    try:
        os.execve(program(), ["dpo", *sys.argv[1:]], environment())
    except OSError as error:
        sys.exit(f"error: cannot start {program()}: {error.strerror}; install dpo again")


if __name__ == "__main__":
    main()
