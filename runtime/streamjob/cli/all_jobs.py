"""Opens the controller's page of all jobs with a token that is good for nothing else."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from streamjob.errors import InvalidInput, StreamJobError
from streamjob.page.audiences import READ_AUDIENCE, WRITE_AUDIENCE

_SESSION = "8h"
_ANSWER_SECONDS = 60.0
_FORWARDS = re.compile(r"Forwarding from (127\.0\.0\.1:\d+) ->")


class KubectlFailed(StreamJobError):
    """`kubectl` is missing, or did not do what it was asked to."""


@dataclass(frozen=True, slots=True)
class PlaceOfPage:
    """Where the controller's page is.

    Args:
        namespace: namespace of the controller.
        service: name of the page's Service.
        url: address of the page's Ingress; None to forward a port.
    """

    namespace: str
    service: str
    url: str | None = None


def open_page(account: str, namespace: str, place: PlaceOfPage, *, write: bool, show: Callable[[str], None]) -> None:
    """Show the address of the page; with a forwarded port, return when the forwarding is interrupted.

    Args:
        account: service account whose rights the page has.
        place: where the page is.
        write: whether the page may be used for changes, as far as the service account may make them.
        show: called with an address that works once, within a minute.

    Raises:
        KubectlFailed: there is no `kubectl`, no such service account or Service, or no right to use them.
        StreamJobError: the controller does not accept the token, or does not answer.
    """
    token = token_for(account, namespace, write=write)
    if place.url is not None:
        show(address_with_code(place.url, token, write=write))
        return
    with forwarded(place) as (url, wait):
        show(address_with_code(url, token, write=write))
        wait()


def token_for(account: str, namespace: str, *, write: bool) -> str:
    """Return a token of a service account for the page alone, which expires after eight hours. Raises KubectlFailed."""
    audience = WRITE_AUDIENCE if write else READ_AUDIENCE
    command = ["kubectl", "create", "token", account, "--namespace", namespace]
    command += ["--audience", audience, "--duration", _SESSION]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ANSWER_SECONDS)
    except FileNotFoundError:
        raise _no_kubectl() from None
    except subprocess.TimeoutExpired:
        raise KubectlFailed("kubectl create token gave no answer", "See whether `kubectl version` answers.") from None
    if done.returncode:
        raise KubectlFailed(
            f"there is no token for service account {namespace}/{account}: {done.stderr.strip()}",
            "Create the service account, or name another one with --service-account.",
        )
    return done.stdout.strip()


def address_with_code(url: str, token: str, *, write: bool) -> str:
    """Return an address of the page that works once, within a minute. Raises StreamJobError.

    The token itself is in no address: those are in the browser's history, and in the arguments of its process.
    """
    from streamjob.client.client import ControlClient

    with ControlClient(url.rstrip("/"), token) as client:
        code = client.new_code(write=write).code
    return f"{url.rstrip('/')}/ui/#code={code}"


@contextmanager
def forwarded(place: PlaceOfPage) -> Iterator[tuple[str, Callable[[], None]]]:
    """Forward a port to the page; give its address, and what waits until the forwarding ends.

    Raises:
        KubectlFailed: the port cannot be forwarded.
    """
    command = ["kubectl", "port-forward", "--namespace", place.namespace, f"service/{place.service}", ":80"]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise _no_kubectl() from None
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        found = _FORWARDS.match(process.stdout.readline())
        if found is None:
            process.terminate()
            said = process.stderr.read().strip()
            raise KubectlFailed(
                f"no port can be forwarded to the page of the controller in namespace {place.namespace}: {said}",
                "Set `page.enabled` of the chart; name the release's namespace with --controller-namespace and its "
                "Service with --service, or the page's Ingress with --url.",
            )

        def wait() -> None:
            said = process.communicate()[1].strip()
            raise KubectlFailed(f"the port is no longer forwarded: {said}", "Run `streamjob ui` again.")

        yield f"http://{found[1]}", wait
    finally:
        process.terminate()
        process.wait()


def _no_kubectl() -> InvalidInput:
    return InvalidInput("there is no command kubectl", "Install it, and let KUBECONFIG name your cluster.")
