"""This package contains the code that puts load on a cluster. The commands, the demo, the measurements, the chaos runs
and the tests all use this package.

    calls.py             calls of a producer at a rate or as fast as possible; a recorder gets the result of each call
    pace.py              the time at which each message of an open loop is due
    in_flight.py         a bounded number of tasks that share a list of work
    reading.py           messages of a consumer, as objects or as arrays; reading up to given ends
    line_splitter.py     cuts a stream of bytes into lines
    line_sender.py       sends lines in order with bounded memory, and counts what was acknowledged
    tally.py             a digest of acknowledged lines, to compare with what a replica returns
    stamped_payloads.py  payloads that a reader can check
    seeded_payloads.py   random payloads that follow from a seed
    topics.py            creates the topic of a load, and fills it
    processes.py         the same load in several processes that begin together
    failure.py           the error of a load
"""
