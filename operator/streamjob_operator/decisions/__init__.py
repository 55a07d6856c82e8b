"""Pure decisions: from an observation to the next status of a resource and the next actions."""

from streamjob_operator.decisions.deciding import decide, wanted_trials, wanted_triggers
from streamjob_operator.decisions.decision import Decision, Resource
from streamjob_operator.decisions.situation import Limits
from streamjob_operator.decisions.successors import wanted_successor

__all__ = ["Decision", "Limits", "Resource", "decide", "wanted_successor", "wanted_trials", "wanted_triggers"]
