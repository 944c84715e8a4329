"""Consumer groups in the full-stack world.

consumption_plan.py      what a seed draws: who consumes what, and which messages cannot be consumed
consumption.py           the members, which come, leave, crash and pause; consumer_member.py is one of them
member_ear.py            what a member asks and hears
consumption_truth.py     how far groups have come, by the log; consumption_shares.py: who owns which queue
consumption_history.py   what members were handed, compared with the log; consumption_end.py: the checks at the end
"""
