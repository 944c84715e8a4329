package rocketmqclient;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.function.Consumer;
import java.util.function.IntPredicate;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * Puts load on a producer or a simple consumer, and measures it until the last message that was done: the commands
 * {@code flood} and {@code drain}.
 */
final class Load {
    private static final int FIRST_ERRORS = 10;
    private static final long AFTER_ERROR_MS = 100;
    private static final com.sun.management.OperatingSystemMXBean SYSTEM =
            (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final List<Double> latenciesMs = new ArrayList<>();
    private final List<String> errors = new ArrayList<>();
    private final long began = System.nanoTime();
    private final long cpuBegan = SYSTEM.getProcessCpuTime();
    private long last = began;

    private synchronized void add(long beganNs, double extraMs) {
        last = System.nanoTime();
        latenciesMs.add((last - beganNs) / 1e6 + extraMs);
    }

    private synchronized void fail(Throwable error) {
        errors.add(Program.text(error));
    }

    private synchronized int done() {
        return latenciesMs.size();
    }

    private synchronized JsonObject told() {
        Collections.sort(latenciesMs);
        int size = latenciesMs.size();
        JsonObject latencies = new JsonObject();
        latencies.addProperty("p50", size == 0 ? 0 : latenciesMs.get(size / 2));
        latencies.addProperty("p99", size == 0 ? 0 : latenciesMs.get(Math.min(size - 1, size * 99 / 100)));
        latencies.addProperty("max", size == 0 ? 0 : latenciesMs.get(size - 1));
        JsonArray first = new JsonArray();
        errors.stream().limit(FIRST_ERRORS).forEach(first::add);
        JsonObject told = new JsonObject();
        told.addProperty("done", size);
        told.addProperty("seconds", (last - began) / 1e9);
        told.add("latencies_ms", latencies);
        told.addProperty("cpu_s", (SYSTEM.getProcessCpuTime() - cpuBegan) / 1e9);
        told.add("errors", first);
        return told;
    }

    /** Returns a function that tells whether to go on after a number of messages. */
    private static IntPredicate goesOn(JsonObject request) {
        if (request.has("count")) {
            int count = request.get("count").getAsInt();
            return done -> done < count;
        }
        long deadline = System.nanoTime() + (long) (request.get("seconds").getAsDouble() * 1e9);
        return done -> System.nanoTime() < deadline;
    }

    /** Sends messages with at most {@code in_flight} of them unacknowledged. */
    static JsonObject flood(Producer producer, JsonObject request) throws InterruptedException {
        Load load = new Load();
        List<Integer> failed = Collections.synchronizedList(new ArrayList<>());
        IntPredicate more = goesOn(request);
        int inFlight = Program.number(request, "in_flight", 1);
        Semaphore room = new Semaphore(inFlight);
        for (int number = 0; more.test(number); number++) {
            Message message = flooding(request, number);
            int sent = number;
            room.acquire();
            long began = System.nanoTime();
            if (inFlight == 1) {
                try {
                    producer.send(message);
                    load.add(began, 0);
                } catch (Exception error) {
                    failed.add(sent);
                    load.fail(error);
                }
                room.release();
            } else {
                producer.sendAsync(message).whenComplete((receipt, error) -> {
                    if (error == null) {
                        load.add(began, 0);
                    } else {
                        failed.add(sent);
                        load.fail(error);
                    }
                    room.release();
                });
            }
        }
        room.acquire(inFlight);
        JsonObject told = load.told();
        JsonArray numbers = new JsonArray();
        failed.forEach(numbers::add);
        told.add("failed", numbers);
        return told;
    }

    private static Message flooding(JsonObject request, int number) {
        String prefix = request.get("prefix").getAsString();
        StringBuilder body = new StringBuilder(prefix).append('-').append(number);
        while (body.length() < Program.number(request, "size", 0)) {
            body.append(' ');
        }
        MessageBuilder message = ClientServiceProvider.loadService().newMessageBuilder()
                .setTopic(request.get("topic").getAsString())
                .setBody(body.toString().getBytes(StandardCharsets.UTF_8));
        int groups = Program.number(request, "groups", 0);
        if (groups > 0) {
            message.setMessageGroup(prefix + "-" + number % groups);
        }
        return message.build();
    }

    /**
     * Receives and acknowledges messages, in as many threads as {@code consumers} says. A latency is that of one message:
     * its acknowledgement, and its part of the receive.
     */
    static JsonObject drain(SimpleConsumer consumer, JsonObject request, Consumer<MessageView> acknowledged)
            throws InterruptedException {
        Load load = new Load();
        IntPredicate more = goesOn(request);
        int most = Program.number(request, "max", 32);
        Duration invisible = Duration.ofSeconds(Program.number(request, "invisible_s", 30));
        List<Thread> workers = new ArrayList<>();
        for (int worker = 0; worker < Program.number(request, "consumers", 1); worker++) {
            workers.add(new Thread(() -> {
                while (more.test(load.done())) {
                    try {
                        load.take(consumer, most, invisible, acknowledged);
                    } catch (Exception error) {
                        load.fail(error);
                        pause();
                    }
                }
            }));
        }
        workers.forEach(Thread::start);
        for (Thread worker : workers) {
            worker.join();
        }
        return load.told();
    }

    private void take(SimpleConsumer consumer, int most, Duration invisible, Consumer<MessageView> acknowledged)
            throws Exception {
        long began = System.nanoTime();
        List<MessageView> messages = consumer.receive(most, invisible);
        double partMs = (System.nanoTime() - began) / 1e6 / Math.max(1, messages.size());
        for (MessageView message : messages) {
            long ackBegan = System.nanoTime();
            consumer.ack(message);
            add(ackBegan, partMs);
            acknowledged.accept(message);
        }
    }

    private static void pause() {
        try {
            Thread.sleep(AFTER_ERROR_MS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
