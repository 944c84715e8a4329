"""Parts of load generators, which the commands, the demo, the benchmarks and the chaos runs share.

line_splitter.py    cuts a stream of bytes into lines
line_sender.py      sends lines through a producer, and counts what was acknowledged
tally.py            a record of acknowledged lines, compared with what a replica gives
pace.py             when each message of an open loop is due
seeded_payloads.py  payloads of mixed sizes that follow from a seed
"""
