"""A task in a process of its own: one that may be killed, or live with less than we have."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable

SOON = 60
"""Seconds. Every child ends long before; whoever hangs is killed, and the test fails."""


def in_child(task: Callable[[], None]) -> int:
    """Run a task in a fork of this process; what `waitpid` says about its end.

    A test that forks many does the task once itself, so that they inherit tables that each would compute anew.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            gc.freeze()  # collecting the parent's objects would copy the memory that is shared with it
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # not the handler of the test's own time limit
            signal.alarm(SOON)
            task()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]
