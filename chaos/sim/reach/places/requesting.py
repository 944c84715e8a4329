"""Places of requests and replies."""

from __future__ import annotations

from chaos.sim.reach.place import RARE, Place

REQUESTER = "ledger.client.requests.requester:AsyncRequester"
RESPONDER = "ledger.client.requests.responder:AsyncResponder"

# fmt: off
PLACES = (
    Place("request: a reply arrives", f"{REQUESTER}._read", "waiting.set_result", stack=150),
    Place("request: a reply to a call that has ended", f"{REQUESTER}._read", "if waiting is not None",
          "waiting is None", stack=RARE),
    Place("request: a requester cannot read its replies", f"{REQUESTER}._read", "self._trouble, failures = error",
          stack=RARE),
    Place("request: no reply arrives in time", f"{REQUESTER}.request", "raise RequestTimeoutError", stack=150),
    Place("request: a requester ends with open calls", f"{REQUESTER}._fail_waiting", "waiting.set_exception",
          stack=RARE),
    Place("request: a handler fails", f"{RESPONDER}._handled", "log.exception", stack=RARE),
    Place("request: a handler takes too long", f"{RESPONDER}._handled", "log.warning", stack=RARE),
    Place("request: a reply cannot be sent as it is", f"{RESPONDER}._reply", "if error or refusal.retriable",
          "not error and not refusal.retriable", stack=RARE),
)
# fmt: on
