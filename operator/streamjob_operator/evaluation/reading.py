"""Reads StreamJobs as decisions take them."""

from __future__ import annotations

from streamjob_operator.cluster.kinds import Object
from streamjob_operator.decisions.values.decision import Resource
from streamjob_operator.decisions.values.revision import revision_of
from streamjob_operator.decisions.values.slots import effective
from streamjob_operator.evaluation.cache import Evaluations, NotEvaluated, Question
from streamjob_operator.evaluation.validation import judge
from streamjob_operator.resources.base import Metadata
from streamjob_operator.resources.status import StreamJobStatus


class Resources:
    """Reads StreamJobs."""

    def __init__(self, evaluations: Evaluations) -> None:
        self._evaluations = evaluations

    async def read(self, thing: Object) -> Resource:
        """Return a StreamJob as decisions take it; a wrong spec is no error.

        Raises:
            ValidationError: the status cannot be read.
            StillEvaluating: the spec takes longer than a moment.
            EvaluationUnavailable: no process can be started that evaluates the spec.
        """
        metadata, status = Metadata.model_validate(thing["metadata"]), read_status(thing)
        content = {"metadata": thing["metadata"], "spec": thing.get("spec")}
        question = Question(metadata.namespace, metadata.name, metadata.uid, metadata.generation, judge, (content,))
        try:
            spec, problems, revision = await self._evaluations.answer(question)
        except NotEvaluated as error:
            spec, problems, revision = None, (f"spec: cannot be checked: {error}",), None
        if spec is not None and revision is not None and (scaled := effective(spec, status)) is not spec:
            revision = revision_of(metadata.name, scaled)
        return Resource(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            generation=metadata.generation,
            deleted=metadata.deletion_timestamp is not None,
            spec=spec,
            problems=problems,
            status=status,
            revision=revision,
        )


def read_status(thing: Object) -> StreamJobStatus:
    """Return the stored status."""
    return StreamJobStatus.model_validate(thing.get("status") or {})
