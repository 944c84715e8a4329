// Drives the official Node.js client by commands on standard input. The protocol is in ../README.md.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { drain, flood } from './load.mjs';

const require = createRequire(import.meta.url);
const rocketmq = require('rocketmq-client-nodejs');
const { version } = require('rocketmq-client-nodejs/package.json');
const { FilterType, TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');
const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = rocketmq;

const CAN = ['push', 'simple', 'transaction', 'recall', 'invisible', 'tls', 'credentials', 'retries'];
const RESOLUTIONS = {
  commit: TransactionResolution.COMMIT,
  rollback: TransactionResolution.ROLLBACK,
  unknown: TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED,
};
// The client's own logger writes files; this one keeps what went wrong on standard error.
const LOGGER = { info() {}, debug() {}, warn: console.error, error: console.error };

const clients = new Map();
const messages = new Map();

function say(told) {
  process.stdout.write(`${JSON.stringify(told)}\n`);
}

function connection(request) {
  const credentials = request.access_key
    ? { accessKey: request.access_key, accessSecret: request.secret_key }
    : undefined;
  return {
    endpoints: request.endpoints,
    namespace: '',
    sslEnabled: Boolean(request.tls),
    sessionCredentials: credentials,
    requestTimeout: (request.timeout_s ?? 3) * 1000,
    logger: LOGGER,
  };
}

function subscriptions(request) {
  return new Map(Object.entries(request.subscriptions).map(([topic, told]) => [
    topic,
    told.sql ? new FilterExpression(told.sql, FilterType.SQL) : new FilterExpression(told.tag ?? '*'),
  ]));
}

function message(request) {
  return {
    topic: request.topic,
    body: Buffer.from(request.body),
    tag: request.tag ?? undefined,
    keys: request.keys ?? [],
    properties: request.properties ? new Map(Object.entries(request.properties)) : undefined,
    messageGroup: request.message_group ?? undefined,
    deliveryTimestamp: request.deliver_at_ms ? new Date(request.deliver_at_ms) : undefined,
  };
}

/** The message as JSON; it is remembered by its number. */
function seen(found) {
  const number = messages.size + 1;
  messages.set(number, found);
  return {
    handle: number,
    topic: found.topic,
    body: found.body.toString(),
    message_id: found.messageId,
    tag: found.tag || null,
    keys: [...found.keys].sort(),
    properties: Object.fromEntries(found.properties),
    message_group: found.messageGroup || null,
    attempt: found.deliveryAttempt,
  };
}

async function start(request, client) {
  await client.startup();
  clients.set(request.name, client);
}

const DO = {
  hello: () => ({ language: 'node', version, can: CAN }),

  producer(request) {
    const checker = request.check && {
      async check(found) {
        say({ event: 'checked', body: found.body.toString(), answer: request.check });
        return RESOLUTIONS[request.check];
      },
    };
    return start(request, new Producer({ ...connection(request), topics: request.topics, checker }));
  },

  simple(request) {
    return start(request, new SimpleConsumer({
      ...connection(request),
      consumerGroup: request.group,
      subscriptions: subscriptions(request),
      awaitDuration: (request.await_s ?? 5) * 1000,
    }));
  },

  push(request) {
    const messageListener = {
      async consume(found) {
        const success = found.deliveryAttempt > (request.fail_times ?? 0);
        say({ event: 'consumed', client: request.name, message: seen(found), success });
        return success ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
      },
    };
    return start(request, new PushConsumer({
      ...connection(request),
      consumerGroup: request.group,
      subscriptions: subscriptions(request),
      messageListener,
    }));
  },

  async send(request) {
    const receipt = await clients.get(request.client).send(message(request));
    return { message_id: receipt.messageId, recall_handle: receipt.recallHandle || null };
  },

  async transaction(request) {
    const producer = clients.get(request.client);
    const transaction = producer.beginTransaction();
    const receipt = await producer.send(message(request), transaction);
    if (request.end === 'commit') await transaction.commit();
    if (request.end === 'rollback') await transaction.rollback();
    return { message_id: receipt.messageId };
  },

  async recall(request) {
    const receipt = await clients.get(request.client).recallMessage(request.topic, request.recall_handle);
    return { message_id: receipt.messageId };
  },

  async receive(request) {
    const found = await clients.get(request.client).receive(request.max, request.invisible_s * 1000);
    return { messages: found.map(seen) };
  },

  ack: request => clients.get(request.client).ack(messages.get(request.handle)),

  invisible: request => clients.get(request.client)
    .changeInvisibleDuration(messages.get(request.handle), request.seconds * 1000),

  flood: request => flood(clients.get(request.client), request),

  drain(request) {
    const acknowledged = request.events
      && (found => say({ event: 'consumed', client: request.client, message: seen(found), success: true }));
    return drain(clients.get(request.client), request, acknowledged);
  },

  async close(request) {
    const client = clients.get(request.client);
    clients.delete(request.client);
    await client.shutdown();
  },
};

async function answer(request) {
  try {
    say({ ...(await DO[request.do](request)), id: request.id, ok: true });
  } catch (error) {
    const code = typeof error.code === 'number' && error.code > 1000 ? error.code : null;
    say({ id: request.id, ok: false, error: `${error.name}: ${error.message}`, code });
  }
}

// An error that nobody awaits, such as one of a background task of the client, must not end the program.
process.on('unhandledRejection', console.error);
createInterface({ input: process.stdin })
  .on('line', line => answer(JSON.parse(line)))
  .on('close', () => process.exit(0));
