"""Simulates and checks requests and replies in the stack world.

Read the modules of this package in this order:

    sim_requests.py    the topics and programs of a run; a responder can die
    requesting.py      a program that sends requests and waits for their replies
    responding.py      a program that answers requests
    request_truth.py   compares what requesters get with what responders did
"""
