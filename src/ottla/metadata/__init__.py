"""The cluster's metadata: topics, partitions, brokers, configs, quotas, producer id blocks, features.

    records      what the metadata log holds, in the formats of Kafka's KRaft
    image        an immutable view for readers; state, the one place that replays records into the next view
    controller   decides about changes: requests in, `Result(records, response)` out; by role in
                 topics, config_changes, client_quotas, producer_ids, brokers
    placement    which brokers hold a new partition's replicas
    config_defs, topic_configs, broker_configs, config_view   what can be configured, and what is in force
    quotas       which quota a client has, and how long it must wait

Nothing here waits, reads a clock or touches a disk: the runtime makes records durable and then shows the new image to
the node. Guarantee: replaying the same records always gives the same image.
"""
