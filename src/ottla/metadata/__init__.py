"""The cluster's metadata: topics, partitions, brokers, configs, quotas, producer id blocks, features.

    records      what the metadata log holds, in the formats of Kafka's KRaft
    image        an immutable view for readers; state, the one place that replays records into the next view
    snapshot     an image as records
    controller   decides about changes: requests in, `Result(records, response)` out; by role in
                 topic_creation, topic_changes, config_changes, client_quotas, producer_ids, feature_updates and
                   brokers, heartbeats, sessions        who is in service, by whose word and for how long
                   partition_change                     one partition: who is in sync, who may lead, who leads
                   leadership, leadership_configs       all partitions that a broker or a config matters to
                   alter_partition, elect_leaders       what leaders and people ask for
                   holdings                             which partitions a broker matters to
                   reassignments, balancer*             who holds a partition
    placement    which brokers hold a new partition's replicas
    config_defs, topic_configs, broker_configs, config_view   what can be configured, and what is in force
    quotas       which quota a client has, and how long it must wait

Nothing here waits, reads a clock or touches a disk: the runtime makes records durable and then shows the new image to
the node. Guarantee: replaying the same records always gives the same image.
"""
