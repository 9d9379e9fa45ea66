"""What stands between the network and the threads: who may send, how slowly, and who is served by
which threads.

In:   HTTP, through uvicorn. Out:  whole requests, handed to the door (ingest) and to Django in
threads of their own each. Rule: a peer that is waited for (its head, its body, its taking of the
answer) holds a connection and never a thread.
"""
