"""Pure decisions: what is to be stored in a resource's status and done next, given what was observed."""

from streamjob_operator.decisions.deciding import decide, wanted_trials, wanted_triggers
from streamjob_operator.decisions.decision import Decision, Resource
from streamjob_operator.decisions.situation import Limits

__all__ = ["Decision", "Limits", "Resource", "decide", "wanted_trials", "wanted_triggers"]
