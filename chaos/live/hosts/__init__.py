"""Where the nodes of a chaos run live: processes in network namespaces, or containers, behind one interface."""
