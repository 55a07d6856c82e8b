"""Answers reviews over HTTPS within the API server's deadline, however slow a spec or a client is."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from aiohttp import web

from streamjob.durations import parse_duration
from streamjob_operator.cluster.kinds import Object
from streamjob_operator.evaluation.cache import NotEvaluated
from streamjob_operator.evaluation.evaluator import EvaluationUnavailable, Evaluator
from streamjob_operator.evaluation.validation import read_problems
from streamjob_operator.serving import BoundedSite
from streamjob_operator.webhook.certificate import Certificate
from streamjob_operator.webhook.review import NotAReview, Review, allow, deny, read_review

PATH = "/streamjobs"
LARGEST_BODY = 4 * 2**20
"""Maximum size of a request in bytes: the old and the new object, at most 1.5 MiB each, and their envelope."""

_log = logging.getLogger(__name__)
_UNCHECKED = "the spec was not checked in time; the StreamJob's conditions will show what is wrong with it"
_DEFAULT_TIMEOUT, _LONGEST_TIMEOUT = 5.0, 30.0
_SHARE = 0.8
"""How much of the API server's deadline is used; the rest is for the way."""
_MOST_READ = 16
_MOST_CHECKED = 8
_MOST_CONNECTIONS = 256
_IDLE = 90.0
_CLOSING = 1.0
_SMALL: Object = {"metadata": {"name": "small"}, "spec": {}}


class Reviewer:
    """Answers reviews.

    Args:
        evaluator: evaluates specs; closed with the reviewer.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._reading = 0
        self._checks: set[asyncio.Task[tuple[str, ...]]] = set()

    async def answer(self, request: web.Request) -> web.Response:
        """Return the answer to a request of the API server."""
        loop = asyncio.get_running_loop()
        end = loop.time() + _SHARE * _timeout(request)
        if self._reading >= _MOST_READ:
            return web.Response(status=503, text="too many reviews at once")
        self._reading += 1
        try:
            async with asyncio.timeout_at(end):
                body = await request.read()
        except TimeoutError:
            return web.Response(status=408, text="the review did not arrive in time")
        finally:
            self._reading -= 1
        try:
            review = read_review(body)
        except NotAReview as error:
            return web.Response(status=400, text=str(error))
        return web.json_response(await self._judge(review, end - loop.time()))

    async def lifetime(self, _app: web.Application) -> AsyncIterator[None]:
        """Start the process that evaluates specs, and end it with the server."""
        self._check(_SMALL)
        yield
        for check in self._checks:
            check.cancel()
        await asyncio.gather(*self._checks, return_exceptions=True)
        await self._evaluator.aclose()

    async def _judge(self, review: Review, within: float) -> Object:
        if review.subject is None:
            return allow(review)
        if len(self._checks) >= _MOST_CHECKED:
            _log.warning("%d specs are being checked: one is allowed unchecked", len(self._checks))
            return allow(review, _UNCHECKED)
        check = self._check(review.subject)
        # It continues after the deadline: ending it here could end the process before it has started.
        done, _ = await asyncio.wait({check}, timeout=max(within, 0.0))
        if not done:
            _log.warning("a spec was not checked within its deadline, and is allowed")
            return allow(review, _UNCHECKED)
        try:
            problems = check.result()
        except EvaluationUnavailable as error:
            _log.warning("a spec is allowed unchecked: %s", error)
            return allow(review, _UNCHECKED)
        return deny(review, problems) if problems else allow(review)

    def _check(self, thing: Object) -> asyncio.Task[tuple[str, ...]]:
        check = asyncio.create_task(self._problems(thing), name="check a spec under review")
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)
        check.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return check

    async def _problems(self, thing: Object) -> tuple[str, ...]:
        try:
            _, problems = await self._evaluator(read_problems, thing)
        except NotEvaluated as error:
            # The controller calls such a spec invalid, too.
            return (f"spec: cannot be checked: {error}",)
        return problems


def admission_server(evaluator: Evaluator) -> web.Application:
    """Return the server of reviews, which closes the evaluator when it ends."""
    reviewer = Reviewer(evaluator)
    app = web.Application(client_max_size=LARGEST_BODY)
    app.add_routes([web.post(PATH, reviewer.answer)])
    app.cleanup_ctx.append(reviewer.lifetime)
    return app


async def serve_reviews(app: web.Application, certificate: Certificate, host: str, port: int) -> web.AppRunner:
    """Start the server, and return a handle whose `cleanup()` closes it."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSING, keepalive_timeout=_IDLE)
    await runner.setup()
    try:
        context = certificate.listening()
        await BoundedSite(runner, host, port, most=_MOST_CONNECTIONS, context=context).start()
    except BaseException:
        await runner.cleanup()
        raise
    return runner


def _timeout(request: web.Request) -> float:
    """Return the API server's deadline in seconds, which it names in each request."""
    with contextlib.suppress(ValueError):
        return min(parse_duration(request.query.get("timeout", "")), _LONGEST_TIMEOUT)
    return _DEFAULT_TIMEOUT
