"""Jobs with one mistake each: the text, the problem that is reported, and the fix."""

from tests.unit.job.mistakes.form import OF_FORM
from tests.unit.job.mistakes.operators import OF_OPERATORS
from tests.unit.job.mistakes.settings import OF_SETTINGS
from tests.unit.job.mistakes.sinks import OF_SINKS
from tests.unit.job.mistakes.sources import OF_SOURCES

ONE_PROBLEM = {**OF_FORM, **OF_SOURCES, **OF_OPERATORS, **OF_SINKS, **OF_SETTINGS}
