"""What lies on disk: the home, the spool, the records, the raw harvests, and how records leave again.

Reading order: home, spool, store, raw, members, exports. This room imports formats, config, errors and urls, and none
of its neighbours.
"""
