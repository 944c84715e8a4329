"""Request and reply over ordinary topics.

reply_address.py  the headers of a request and of a reply
requester.py      `AsyncRequester` sends requests and waits for their replies
responder.py      `AsyncResponder` calls a handler with each request and sends what it returns

requester ── request: reply-to, correlation-id ──> topic ──> consumer group of responders
requester <── reply: correlation-id, tag of the requester ── one queue of the reply topic <──┘
"""
