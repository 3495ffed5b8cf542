"""What a node keeps on disk: one log per partition, and the journal that makes all of them durable together.

    log ── segment ── offset_index, time_index, txn_index   one partition's records, in Kafka's own file formats
        ── producer_state, leader_epochs                    what must be known of the records without reading them
        ── log_append, append, pending                      the way in: what a batch must be, and who writes it
        ── search, retention                                finding by time, and forgetting
        ── compaction, compaction_*                         the newest record of each key, and how it gets into place
        ── loading, replay, scan                            how a log comes back after a stop, and after a crash
    log_manager ── group_commit ── journal, journal_format  all logs of a node, and one sync for all of them
                ── checkpoint, checkpoints, clean_offsets   syncing the segments behind that, so that it may forget
                ── recovery, journal_reader                 what a crash has left, made what it was
                ── directories, removals                    whose a directory is, and how it goes
    verify                                                  the checks behind `ottla log verify`

Nothing in here knows of clients, sockets or tasks, and files are touched only through `ports.Disk`. The guarantee kept
here: what a commit has covered is found again after a crash at any byte, and nothing that was cut off is ever served.
"""
