"""Pure decisions: from an observation to the next status of a resource and the next actions."""

from streamjob_operator.decisions.deciding import decide, wanted_trials, wanted_triggers
from streamjob_operator.decisions.states.successors import wanted_successor
from streamjob_operator.decisions.values.decision import Decision, Resource
from streamjob_operator.decisions.values.situation import Limits

__all__ = ["Decision", "Limits", "Resource", "decide", "wanted_successor", "wanted_trials", "wanted_triggers"]
