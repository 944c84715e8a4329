"""Who may talk to a node, and how the connections are protected.

In reading order:

    certificates.py       reads certificates and keys, and reads them again when the files change
    tls.py                TLS of the ports of a node, and of its channels to other nodes
    certificate_proof.py  proves a node, or a user, by its certificate
    own_certificate.py    refuses the own certificate of a node or name server if it cannot prove it
    node_identity.py      how this node proves itself to other nodes: by a certificate, by the cluster secret, or not
    peer_admission.py     refuses the Raft messages of nodes that were removed
    node_channel.py       the channels by which a node calls the client services of other nodes
    forwarded_callers.py  accepts calls that another node makes for a user
    secret_keys.py        encrypts secrets that the log stores, with a key outside the log
    rights_guard.py       the check at the rim of every gRPC method
    local_server.py       serves administrators of the node's machine on a Unix socket
    connection_limits.py  ends connections beyond the limits of their host, without proof, or with too many unread bytes
    connection_watch.py   looks at all connections as often as they can have changed
    access.py             connects sessions, rights and users with the ports of one node
"""
