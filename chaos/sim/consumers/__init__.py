"""Simulates and checks consumer groups in the stack world.

Read the modules of this package in this order:

    consumption_plan.py      what a seed draws: who consumes which topics, and which messages fail
    consumption.py           the members, which join, leave, crash and pause; consumer_member.py is one member
    member_ear.py            records a member's requests and responses
    consumption_truth.py     the progress of groups, from the log; consumption_shares.py: who owns which queue;
                             coordinator_truth.py: epochs rise from one coordinator to the next
    consumption_history.py   compares the messages that members received with the log; consumption_end.py: checks at
                             the end
"""
