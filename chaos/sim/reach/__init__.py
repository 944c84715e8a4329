"""Says which places of the product the runs of a campaign have reached.

A run can be green because it never came to the dangerous places. Therefore the simulator counts how often each *place*
is reached: a named statement of the product, often with a condition. The product contains no code for this; the
simulator adds the counters to the functions while a seed runs.

    place.py         what a place is
    places/          the table of all places, a file for each subject
    probes.py        adds the counters to the functions of the product, and removes them again
    counts.py        the counts of one run and of a campaign, and which places a campaign should have reached
    reach_table.py   the lines that `ledgermq sim` prints
"""
