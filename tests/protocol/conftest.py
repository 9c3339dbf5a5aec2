"""How thoroughly properties are tried here: enough to find a fault within a few runs, in seconds on one core."""

from hypothesis import settings

# No deadline: how long one example takes says how busy the machine is.
settings.register_profile("protocol", max_examples=50, deadline=None)
settings.load_profile("protocol")
