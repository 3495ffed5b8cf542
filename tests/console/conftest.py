"""NiceGUI's transport loads kafka-python where it is installed, which is deprecated in its own ways."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import nicegui  # noqa: F401 - for the side effect: the tests then find it loaded
