package rocketmqclient;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Drives the official Java client by commands on standard input. The protocol is in ../../README.md. */
public final class Program {
    private static final List<String> CAN = List.of(
            "push", "simple", "transaction", "recall", "invisible", "tls", "credentials", "retries");
    private static final Gson JSON = new GsonBuilder().serializeNulls().create();
    /** The client appends the status of the server's answer to its message in this form. */
    private static final Pattern CODE = Pattern.compile("response-code=(\\d+)");

    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final Map<String, Closeable> clients = new ConcurrentHashMap<>();
    private final Map<Integer, MessageView> messages = new ConcurrentHashMap<>();
    private final AtomicInteger numbers = new AtomicInteger();
    private final PrintStream out;

    private Program(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // whatever a library prints is no answer
        Program program = new Program(out);
        ExecutorService pool = Executors.newCachedThreadPool();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonObject request = JsonParser.parseString(line).getAsJsonObject();
            pool.submit(() -> program.answer(request));
        }
        Runtime.getRuntime().halt(0); // a client that still runs must not keep the process
    }

    private void answer(JsonObject request) {
        JsonObject answer;
        try {
            answer = perform(request);
            answer.addProperty("ok", true);
        } catch (Throwable error) {
            answer = new JsonObject();
            answer.addProperty("ok", false);
            answer.addProperty("error", text(error));
            Matcher code = CODE.matcher(text(error));
            answer.addProperty("code", code.find() ? Integer.valueOf(code.group(1)) : null);
        }
        answer.add("id", request.get("id"));
        say(answer);
    }

    private JsonObject perform(JsonObject request) throws Exception {
        JsonObject answer = new JsonObject();
        switch (request.get("do").getAsString()) {
            case "hello":
                answer.addProperty("language", "java");
                answer.addProperty("version", clientVersion());
                answer.add("can", JSON.toJsonTree(CAN));
                return answer;
            case "producer":
                clients.put(request.get("name").getAsString(), producer(request));
                return answer;
            case "simple":
                clients.put(request.get("name").getAsString(), simple(request));
                return answer;
            case "push":
                clients.put(request.get("name").getAsString(), push(request));
                return answer;
            case "send":
                SendReceipt receipt = producerOf(request).send(message(request));
                answer.addProperty("message_id", receipt.getMessageId().toString());
                String handle = receipt.getRecallHandle();
                answer.addProperty("recall_handle", handle == null || handle.isEmpty() ? null : handle);
                return answer;
            case "transaction":
                answer.addProperty("message_id", transaction(request));
                return answer;
            case "recall":
                answer.addProperty("message_id", producerOf(request).recallMessage(
                        request.get("topic").getAsString(), request.get("recall_handle").getAsString())
                        .getMessageId().toString());
                return answer;
            case "receive":
                JsonArray found = new JsonArray();
                Duration invisible = Duration.ofSeconds(request.get("invisible_s").getAsInt());
                for (MessageView message : simpleOf(request).receive(request.get("max").getAsInt(), invisible)) {
                    found.add(seen(message));
                }
                answer.add("messages", found);
                return answer;
            case "ack":
                simpleOf(request).ack(received(request));
                return answer;
            case "invisible":
                Duration duration = Duration.ofSeconds(request.get("seconds").getAsInt());
                simpleOf(request).changeInvisibleDuration(received(request), duration);
                return answer;
            case "flood":
                return Load.flood(producerOf(request), request);
            case "drain":
                boolean events = request.has("events") && request.get("events").getAsBoolean();
                return Load.drain(simpleOf(request), request, message -> {
                    if (events) {
                        say(consumed(request.get("client").getAsString(), message, true));
                    }
                });
            case "close":
                clients.remove(request.get("client").getAsString()).close();
                return answer;
            default:
                throw new IllegalArgumentException("no such command: " + request);
        }
    }

    private Producer producer(JsonObject request) throws Exception {
        ProducerBuilder builder = provider.newProducerBuilder()
                .setClientConfiguration(configuration(request))
                .setTopics(JSON.fromJson(request.get("topics"), String[].class));
        if (has(request, "check")) {
            String answer = request.get("check").getAsString();
            builder.setTransactionChecker(message -> {
                JsonObject event = new JsonObject();
                event.addProperty("event", "checked");
                event.addProperty("body", body(message));
                event.addProperty("answer", answer);
                say(event);
                return TransactionResolution.valueOf(answer.toUpperCase());
            });
        }
        return builder.build();
    }

    private SimpleConsumer simple(JsonObject request) throws Exception {
        return provider.newSimpleConsumerBuilder()
                .setClientConfiguration(configuration(request))
                .setConsumerGroup(request.get("group").getAsString())
                .setAwaitDuration(Duration.ofSeconds(number(request, "await_s", 5)))
                .setSubscriptionExpressions(subscriptions(request))
                .build();
    }

    private Closeable push(JsonObject request) throws Exception {
        String name = request.get("name").getAsString();
        int failTimes = number(request, "fail_times", 0);
        return provider.newPushConsumerBuilder()
                .setClientConfiguration(configuration(request))
                .setConsumerGroup(request.get("group").getAsString())
                .setSubscriptionExpressions(subscriptions(request))
                .setConsumptionThreadCount(number(request, "threads", 20))
                .setMessageListener(message -> {
                    boolean success = message.getDeliveryAttempt() > failTimes;
                    say(consumed(name, message, success));
                    return success ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
                })
                .build();
    }

    private String transaction(JsonObject request) throws Exception {
        Producer producer = producerOf(request);
        Transaction transaction = producer.beginTransaction();
        SendReceipt receipt = producer.send(message(request), transaction);
        String end = request.get("end").getAsString();
        if (end.equals("commit")) {
            transaction.commit();
        } else if (end.equals("rollback")) {
            transaction.rollback();
        }
        return receipt.getMessageId().toString();
    }

    private static ClientConfiguration configuration(JsonObject request) {
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder()
                .setEndpoints(request.get("endpoints").getAsString())
                .enableSsl(has(request, "tls") && request.get("tls").getAsBoolean())
                .setRequestTimeout(Duration.ofSeconds(number(request, "timeout_s", 3)));
        if (has(request, "access_key")) {
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(
                    request.get("access_key").getAsString(), request.get("secret_key").getAsString()));
        }
        return builder.build();
    }

    private static Map<String, FilterExpression> subscriptions(JsonObject request) {
        Map<String, FilterExpression> found = new HashMap<>();
        for (Map.Entry<String, JsonElement> entry : request.getAsJsonObject("subscriptions").entrySet()) {
            JsonObject told = entry.getValue().getAsJsonObject();
            found.put(entry.getKey(), has(told, "sql")
                    ? new FilterExpression(told.get("sql").getAsString(), FilterExpressionType.SQL92)
                    : new FilterExpression(has(told, "tag") ? told.get("tag").getAsString() : "*"));
        }
        return found;
    }

    private Message message(JsonObject request) {
        MessageBuilder builder = provider.newMessageBuilder()
                .setTopic(request.get("topic").getAsString())
                .setBody(request.get("body").getAsString().getBytes(StandardCharsets.UTF_8));
        if (has(request, "tag")) {
            builder.setTag(request.get("tag").getAsString());
        }
        if (has(request, "keys")) {
            builder.setKeys(JSON.fromJson(request.get("keys"), String[].class));
        }
        if (has(request, "properties")) {
            request.getAsJsonObject("properties").entrySet()
                    .forEach(entry -> builder.addProperty(entry.getKey(), entry.getValue().getAsString()));
        }
        if (has(request, "message_group")) {
            builder.setMessageGroup(request.get("message_group").getAsString());
        }
        if (has(request, "deliver_at_ms")) {
            builder.setDeliveryTimestamp(request.get("deliver_at_ms").getAsLong());
        }
        return builder.build();
    }

    private JsonObject consumed(String client, MessageView message, boolean success) {
        JsonObject event = new JsonObject();
        event.addProperty("event", "consumed");
        event.addProperty("client", client);
        event.add("message", seen(message));
        event.addProperty("success", success);
        return event;
    }

    /** Returns the message as JSON, and remembers it by its number. */
    private JsonObject seen(MessageView message) {
        int number = numbers.incrementAndGet();
        messages.put(number, message);
        JsonObject told = new JsonObject();
        told.addProperty("handle", number);
        told.addProperty("topic", message.getTopic());
        told.addProperty("body", body(message));
        told.addProperty("message_id", message.getMessageId().toString());
        told.addProperty("tag", message.getTag().orElse(null));
        told.add("keys", JSON.toJsonTree(message.getKeys().stream().sorted().toArray()));
        told.add("properties", JSON.toJsonTree(message.getProperties()));
        told.addProperty("message_group", message.getMessageGroup().orElse(null));
        told.addProperty("attempt", message.getDeliveryAttempt());
        return told;
    }

    private MessageView received(JsonObject request) {
        return messages.get(request.get("handle").getAsInt());
    }

    private Producer producerOf(JsonObject request) {
        return (Producer) clients.get(request.get("client").getAsString());
    }

    private SimpleConsumer simpleOf(JsonObject request) {
        return (SimpleConsumer) clients.get(request.get("client").getAsString());
    }

    private synchronized void say(JsonObject told) {
        byte[] line = (JSON.toJson(told) + "\n").getBytes(StandardCharsets.UTF_8);
        out.write(line, 0, line.length);
        out.flush();
    }

    static int number(JsonObject request, String name, int otherwise) {
        return has(request, name) ? request.get(name).getAsInt() : otherwise;
    }

    static String text(Throwable error) {
        return error.getClass().getSimpleName() + ": " + error.getMessage();
    }

    private static boolean has(JsonObject request, String name) {
        return request.has(name) && !request.get(name).isJsonNull();
    }

    private static String body(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody()).toString();
    }

    /** Returns the client's version: the last part of the name of its jar. */
    private static String clientVersion() {
        String jar = ClientServiceProvider.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        return jar.replaceAll(".*rocketmq-client-java-|\\.jar$", "");
    }
}
