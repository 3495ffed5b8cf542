"""Who has which record, and what readers may see.

A partition's leader epoch, its high watermark and the fetch sessions of its readers. No I/O: logs are handed in,
answers are handed out. Keeps the promise that readers see only what can't be taken back.
"""
