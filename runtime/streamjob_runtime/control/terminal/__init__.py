"""Shows a running job to a person: a live panel on a terminal, plain lines anywhere else, or nothing."""

from streamjob_runtime.control.terminal.opening import Quiet, StandardErrorHandler, View, open_view

__all__ = ["Quiet", "StandardErrorHandler", "View", "open_view"]
