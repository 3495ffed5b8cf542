"""The web console: a cluster as a person at work wants to see it, in front of any cluster that speaks Kafka's protocol.

    browser ── NiceGUI (pages, events) ── pages/ ── Source (what is asked) ── ottla.http.Api ── Kafka requests
                                            │
                                            └── Shared (one poll for all tabs that look, none when nobody does)

Pages are HTML made by `markup` and brought up to date in place by `live.js`, which keeps focus and selection. What is
concluded (rates, why a group lags) is in pure modules: `lag`, `rates`. Nothing is kept on disk; what is kept in memory
is bounded, and goes with the process.
"""
