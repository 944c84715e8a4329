"""What simulated clusters run on.

loop.py             an asyncio loop with virtual time; node_life.py is the loop of one simulated process
network.py          datagrams and connections between endpoints; links.py is one direction of a pair
rpc.py              calls of clients to simulated brokers; rpc_server.py is the other end
disk.py             a simulated disk with page cache and platter; disk_content.py is its files and directories
faults.py           the kinds of faults; schedule.py says when, targets.py says which node
network_faults.py   faults between nodes; ambush.py waits for the moment at which a fault hurts most
"""
