"""One file per API: authorize, call one subsystem, answer.

A handler neither decodes nor looks at versions it need not know. An expected failure is raised as `BrokerError`, and
dispatch puts its code into the answer. A handler that must wait returns a `Deferred`.
"""
