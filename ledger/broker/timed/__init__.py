"""Messages with delivery times, in the broker: every replica keeps an index of the messages that wait, and the leader
delivers them. Reading order:

    applied_timed.py     what committed entries do to the index of a replica
    turn.py              which messages the leader delivers next
    waiting_batches.py   reads the waiting messages from the log
    delivery.py          delivers, turn by turn
    targets.py           reads the target topics of waiting messages
    cancelling.py        cancels waiting messages
    listing.py           lists waiting messages
    copying.py           copies waiting messages, so that the log start can move
"""
