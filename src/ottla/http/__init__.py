"""The HTTP API: the cluster for those who have no Kafka client at hand, in front of the same handlers.

    HttpServer ── Connection ── hot routes: produce, consume
                             └─ uvicorn ── Edge (limits, errors) ── FastAPI: everything else, OpenAPI
                  └── Api ── Cluster (who leads, who coordinates) ── Ways: this node's handlers, or the wire to another

Nothing in here keeps records or decides about topics and groups: every route is one or more Kafka requests, so HTTP and
Kafka clients see the same. The same code serves in a node and, as `ottla gateway`, in front of any Kafka cluster.
What is kept is soft: HTTP members of groups, which are lost with the process as the process of a Kafka client would be.
"""
