"""kafka-python reads its schemas in a way that Python 3.11 deprecates, and warnings are errors here: so quietly."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.protocol.admin
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.protocol.producer
    import kafka.protocol.sasl  # noqa: F401 - imported for what it warns of
