"""Replaces this process with a program that gets SIGTERM when the parent of this process ends, as a notebook's kernel
does when it restarts. Usage: _start.py PARENT PROGRAM ARGUMENT..."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
if os.getppid() != int(sys.argv[1]):  # the parent has already ended
    sys.exit(128 + signal.SIGTERM)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and programs inherit that
os.execv(sys.argv[2], sys.argv[2:])
