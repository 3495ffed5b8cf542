"""Real processes in bad weather: nodes are killed and stopped, links are cut, disks fill and fail, clocks jump.

`make chaos MINUTES=30` is the long form; a short one is part of `make test`.
"""
