from ledger.state import ConsumerGroup, TopicQueueId


def assign(group: ConsumerGroup) -> dict[TopicQueueId, str]:
    names = sorted(group.members)
    queues = [TopicQueueId(t, q) for t, n in sorted(group.queues.items()) for q in range(n)]
    return {q: names[i % len(names)] for i, q in enumerate(queues)}
