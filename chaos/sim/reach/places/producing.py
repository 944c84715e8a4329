"""Places of producers: batches that several producers share, and messages that share a batch without a choice."""

from __future__ import annotations

from chaos.sim.reach.place import RARE, Place

MESSAGES = "ledger.client.producer.common_batches:CommonMessages"
PLAIN = "ledger.client.producer.plain_messages:PlainMessages"
SEQUENCER = "ledger.client.producer.queue_sequencer:QueueSequencer"

# fmt: off
PLACES = (
    Place("common batch: a message joins those of other producers", f"{MESSAGES}.add", "self._owed[receipt] = None",
          "self._common.users > 1 and not sequencer.idle", stack=100),
    Place("common batch: a producer changes to batches of its own", f"{MESSAGES}.goes_there", "self._changes += 1",
          stack=50),
    Place("common batch: a producer returns to common batches", f"{MESSAGES}.goes_there", "self._goes_common = True",
          stack=50),
    Place("common batch: own batches wait for a common one", f"{SEQUENCER}.follow", "other._followers[self]",
          stack=50),
    Place("plain message: it joins the batch of the message before it", f"{PLAIN}.join", "batch.join(value", stack=50),
    Place("common batch: a producer stops with messages under way", f"{MESSAGES}._give_up", stack=RARE),
)
# fmt: on
