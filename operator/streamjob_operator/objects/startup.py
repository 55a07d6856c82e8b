"""Probes that wait for a process instead of asking it again and again: Kubernetes warns of each probe that fails.

They need only what images of any release have: a newer controller starts jobs on older ones.
"""

from __future__ import annotations

from streamjob_operator.objects.names import METRICS_PORT, Object

_SECONDS = 300
"""What Java and Python may need before they answer, where processors are scarce."""
_DRIVER = """\
import http.client, sys, time
port, seconds = map(int, sys.argv[1:])
def answers(path):
    connection = http.client.HTTPConnection("localhost", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
end = time.monotonic() + seconds
while not answers("/readyz"):
    if time.monotonic() > end:
        sys.exit(0 if answers("/healthz") else f"the process is not healthy after {seconds} s")
    time.sleep(0.5)
"""
_EXECUTOR = 'for _ in $(seq "$2"); do test -f "$1" && exit; sleep 1; done'


def driver_startup() -> Object:
    """Return a probe that succeeds once the job is ready, and fails if the process is not healthy for minutes."""
    return _waiting("python", "-ISc", _DRIVER, str(METRICS_PORT))


def executor_startup(registered: str) -> Object:
    """Return a probe that succeeds once the executor has made a file, and after minutes without it as well."""
    return _waiting("sh", "-c", _EXECUTOR, "sh", registered)


def _waiting(*command: str) -> Object:
    # The command ends by itself, before the time limit.
    waits = [*command, str(_SECONDS - 10)]
    return {"exec": {"command": waits}, "timeoutSeconds": _SECONDS, "periodSeconds": 10, "failureThreshold": 1}
