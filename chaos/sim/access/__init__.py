"""Users and rights in the stack world: who asks, what the log says about rights, and what nodes serve.

Read the modules of this package in this order:

    credentials.py      how a simulated client proves who it is
    password_rounds.py  the rounds of a password, computed once in a process
    access_truth.py     users, rules and tokens, computed from the log
    access_watch.py     judges what nodes serve, by the log
    guests.py           clients whose rights come and go
    administrator.py    repeats acts of an administrator until the cluster has confirmed them
    access_faults.py    faults that bring guests to the places where mistakes about rights show
    sim_access.py       the administrator's acts, and the checks at the end
"""
