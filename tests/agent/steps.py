"""The steps of a sample through the agent, found by observing one run of the process; none is listed by hand.

What a killed process leaves behind depends only on what it has written and sent. So the steps are the moments before
and after every system call of the agent or its connection that writes, sends or receives, and the moments at which a
sample enters a stage of the pipeline. A process can be ended by SIGKILL at any step.
"""

from __future__ import annotations

from pathlib import Path

WATCH = """
import os, signal, sys, threading
signal.alarm(60)
ROOT, RECORD, TARGET = {root!r}, {record!r}, {target!r}
OURS = tuple(os.path.join(ROOT, name) for name in ("agent", "broker/mqtt/connection.py", "broker/mqtt/link.py"))
EFFECTS = set("execute executemany open write flush fsync replace close __exit__ send recv".split())
STAGES = set({stages!r}.split())
import hushmq.agent.storage.outbox
hushmq.agent.storage.outbox.Outbox.__init__.__kwdefaults__["reserve_ms"] = 100  # so that a reservation is moved soon
places, steps, armed, forgotten = {{}}, {{}}, False, 0

def place(code):
    if code not in places:
        file, name = os.path.realpath(code.co_filename), code.co_qualname
        ours = file.startswith(OURS) and not code.co_name.startswith("<")
        if name in ("Path.write_bytes", "Path.replace", "Client._sock_send", "Client._sock_recv"):
            places[code] = "for us, " + name
        else:
            places[code] = os.path.relpath(file, ROOT) + " " + name if ours else None
    return places[code]

def watch(frame, event, arg):
    global armed, forgotten
    where = place(frame.f_code)
    if where is None:
        return
    if event.startswith("c_"):
        called = getattr(arg, "__name__", "")
        step = where + (" before " if event == "c_call" else " after ") + called if called in EFFECTS else None
    else:
        step = where if event == "call" and where.split(" ")[-1] in STAGES else None
    if armed and step is not None:
        if step == TARGET:
            os.kill(os.getpid(), signal.SIGKILL)
        steps.setdefault(step)
    if armed and where.endswith(" Publisher.forgotten") and event == "return":
        forgotten += 1
        if RECORD and forgotten >= 4:
            with open(RECORD, "w") as file:
                file.write("\\n".join(list(steps)))
            os.kill(os.getpid(), signal.SIGKILL)
    if where.endswith(" Outbox.commit") and event == "return" and frame.f_locals["made"]:
        armed = True  # a batch of this run is stored: every step from here on is recorded

threading.setprofile(watch)
sys.setprofile(watch)
"""

STAGES = """
Ticker.elapsed SimulatedSource.take BinsDiscretiser.states Mechanism.batches Outbox.commit Mark.write Publisher.pump
Connection.publish Link.publish Link._acknowledge Publisher._on_acknowledged AgentDaemon._on_seen Publisher.forgotten
"""

_ROOT = str(Path(__file__).parents[2])


def recording(to: Path) -> str:
    """Return code for a process that records its steps and ends when some of its batches have been deleted."""
    return WATCH.format(root=_ROOT, stages=STAGES, record=str(to), target="")


def ending(step: str) -> str:
    """Return code for a process that is killed at a step."""
    return WATCH.format(root=_ROOT, stages=STAGES, record="", target=step)
