// Puts load on a producer or a simple consumer, and measures it: the commands `flood` and `drain`.
import { setTimeout as sleep } from 'node:timers/promises';

const FIRST_ERRORS = 10;
const AFTER_ERROR_MS = 100;

/** What one command has measured so far, until the last message that was done. */
class Load {
  #latencies = [];
  #errors = [];
  #began = performance.now();
  #last = this.#began;
  #cpu = process.cpuUsage();

  add(beganMs, extraMs = 0) {
    this.#last = performance.now();
    this.#latencies.push(this.#last - beganMs + extraMs);
  }

  fail(error) {
    this.#errors.push(`${error.name}: ${error.message}`);
  }

  get done() {
    return this.#latencies.length;
  }

  told() {
    const found = this.#latencies.length ? this.#latencies.sort((a, b) => a - b) : [0];
    const cpu = process.cpuUsage(this.#cpu);
    return {
      done: this.#latencies.length,
      seconds: (this.#last - this.#began) / 1000,
      latencies_ms: {
        p50: found[Math.floor(found.length / 2)],
        p99: found[Math.min(found.length - 1, Math.floor(found.length * 0.99))],
        max: found.at(-1),
      },
      cpu_s: (cpu.user + cpu.system) / 1e6,
      errors: this.#errors.slice(0, FIRST_ERRORS),
    };
  }
}

/** A function that tells whether to go on after `done` messages. */
function goesOn(request) {
  if (request.count !== undefined) return done => done < request.count;
  const deadline = performance.now() + request.seconds * 1000;
  return () => performance.now() < deadline;
}

/** Sends messages with at most `in_flight` of them unacknowledged. */
export async function flood(producer, request) {
  const load = new Load();
  const failed = [];
  const more = goesOn(request);
  let next = 0;
  async function work() {
    while (more(next)) {
      const number = next++;
      const began = performance.now();
      try {
        await producer.send(flooding(request, number));
        load.add(began);
      } catch (error) {
        failed.push(number);
        load.fail(error);
      }
    }
  }
  await Promise.all(Array.from({ length: request.in_flight ?? 1 }, work));
  return { ...load.told(), failed };
}

function flooding(request, number) {
  const body = Buffer.from(`${request.prefix}-${number}`.padEnd(request.size ?? 0));
  const message = { topic: request.topic, body };
  if (request.groups) message.messageGroup = `${request.prefix}-${number % request.groups}`;
  return message;
}

/**
 * Receives and acknowledges messages, in as many tasks as `consumers` says. A latency is that of one message: its
 * acknowledgement, and its part of the receive.
 */
export async function drain(consumer, request, acknowledged) {
  const load = new Load();
  const more = goesOn(request);
  async function work() {
    while (more(load.done)) {
      try {
        const began = performance.now();
        const messages = await consumer.receive(request.max ?? 32, (request.invisible_s ?? 30) * 1000);
        const part = (performance.now() - began) / Math.max(1, messages.length);
        for (const message of messages) {
          const ackBegan = performance.now();
          await consumer.ack(message);
          load.add(ackBegan, part);
          if (acknowledged) acknowledged(message);
        }
      } catch (error) {
        load.fail(error);
        await sleep(AFTER_ERROR_MS);
      }
    }
  }
  await Promise.all(Array.from({ length: request.consumers ?? 1 }, work));
  return load.told();
}
