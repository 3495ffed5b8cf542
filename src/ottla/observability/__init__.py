"""What a running node says about itself: structured logs, and what its figures are counted with (`metrics`).

Every line of the log goes through the standard library's `logging`, and this package only decides how a record looks:
any module may log without knowing it. It keeps one promise: a secret that reaches a log call does not reach the log.
"""
