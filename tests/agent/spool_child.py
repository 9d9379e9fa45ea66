"""A process to be killed: puts numbered batches into a spool and pumps them to a hub; says each one
that is in.

Arguments: folder, hub's address, batches to put in. Afterwards it sends until nothing waits, then
ends.
"""

import sys
import threading
import time
import uuid
from pathlib import Path

from agent import wire
from agent.batch import entry
from agent.sending.sender import Pump, Sender, Verdict
from agent.sending.spool import Identity, Spool
from tests.agent.factories import START, mapping


def made(sequence, boot_id):
    marker = uuid.uuid4().hex  # two batches under one name would differ here
    batch = wire.parse(mapping(sequence=sequence, boot_id=boot_id, node_labels={"marker": marker}))
    return entry(batch, sequence)


def main(folder, server, count):
    spool = Spool(Path(folder), identity=lambda spool_id: Identity(spool_id, START))
    pump = Pump(spool, impatient(Sender(server, "token").send), flush_s=1)
    stop = threading.Event()
    thread = threading.Thread(target=pump.run, args=(stop,), daemon=True)
    thread.start()
    for _ in range(count):
        sequence = spool.append(lambda sequence: made(sequence, spool.identity.boot_id))
        print(sequence, flush=True)
        pump.wake()
    while spool.waiting:
        pump.wake()
        time.sleep(0.005)


def impatient(send):
    """The sender, with an outage that is asked about at once: the test has no minutes to wait."""

    def once(payload):
        outcome = send(payload)
        while outcome.verdict is Verdict.RETRY:
            time.sleep(0.01)
            outcome = send(payload)
        return outcome

    return once


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
