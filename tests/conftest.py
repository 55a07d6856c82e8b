"""Settings of all tests."""

from hypothesis import HealthCheck, settings

# How long an example takes says nothing on a busy machine. With CI=true, Hypothesis begins from a profile of its own.
settings.register_profile(
    "untimed",
    settings(),
    deadline=None,
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.too_slow],
)
settings.load_profile("untimed")
