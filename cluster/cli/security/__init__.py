"""The commands for users, their rights and their certificates.

This package contains:

    user.py        `ledgermq user`
    acl.py         `ledgermq acl`
    certs.py       `ledgermq certs`
    profile.py     `ledgermq profile`
    passwords.py   gets a new password from the user
"""
