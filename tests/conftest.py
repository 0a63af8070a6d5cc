from hypothesis import settings

# How long an example takes is the machine's affair: others may be at work on it.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")
