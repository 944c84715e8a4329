//! Drives the official Rust client by commands on standard input. The protocol is in ../../README.md.
//!
//! The client has no push consumer, no recall, no change of an invisible duration, and repeats no send.
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{Message, MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Map, Value};

mod load;

/// The client's own version; Cargo.toml names it too.
const VERSION: &str = "5.0.0";
/// The client's deadline for a receive is its long polling time. This is how much longer the server may take to answer.
const BEYOND_AWAIT: Duration = Duration::from_secs(3);
const CAN: [&str; 4] = ["simple", "transaction", "tls", "credentials"];
/// The names of codes, as the client tells them, and their numbers.
const CODES: [(&str, u32); 12] = [
    ("ILLEGAL_TOPIC", 40002),
    ("ILLEGAL_CONSUMER_GROUP", 40003),
    ("ILLEGAL_FILTER_EXPRESSION", 40010),
    ("ILLEGAL_INVISIBLE_TIME", 40011),
    ("ILLEGAL_DELIVERY_TIME", 40012),
    ("INVALID_RECEIPT_HANDLE", 40013),
    ("MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", 40014),
    ("UNAUTHORIZED", 40100),
    ("FORBIDDEN", 40300),
    ("TOPIC_NOT_FOUND", 40402),
    ("MESSAGE_BODY_TOO_LARGE", 41301),
    ("TOO_MANY_REQUESTS", 42900),
];

/// A simple consumer with its one subscription.
struct Subscribed {
    consumer: Arc<SimpleConsumer>,
    topic: String,
    filter: Arc<FilterExpression>,
}

#[derive(Default)]
struct Program {
    producers: Mutex<HashMap<String, Arc<Producer>>>,
    consumers: Mutex<HashMap<String, Arc<Subscribed>>>,
    messages: Mutex<HashMap<u64, Arc<MessageView>>>,
    numbers: AtomicU64,
}

type Outcome = Result<Value, Failure>;

/// An error of the client, or of this program.
struct Failure {
    error: String,
    code: Option<u32>,
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let named = error.context().iter().find(|(key, _)| *key == "code");
        let code = named.and_then(|(_, name)| CODES.iter().find(|(known, _)| known == name));
        Failure { error: text(&error), code: code.map(|(_, number)| *number) }
    }
}

impl From<String> for Failure {
    fn from(error: String) -> Failure {
        Failure { error, code: None }
    }
}

impl Program {
    async fn perform(self: &Arc<Program>, request: Value) -> Outcome {
        match field(&request, "do") {
            "hello" => Ok(json!({"language": "rust", "version": VERSION, "can": CAN})),
            "producer" => self.producer(&request).await,
            "simple" => self.simple(&request).await,
            "send" => {
                let receipt = self.producer_of(&request)?.send(message(&request)?).await?;
                Ok(json!({"message_id": receipt.message_id(), "recall_handle": null}))
            }
            "transaction" => self.transaction(&request).await,
            "receive" => self.receive(&request).await,
            "ack" => {
                let handle = request["handle"].as_u64().unwrap_or_default();
                let message = self.messages.lock().unwrap().get(&handle).cloned();
                let message = message.ok_or(format!("no message has the handle {handle}"))?;
                self.subscribed(&request)?.consumer.ack(message.as_ref()).await?;
                Ok(json!({}))
            }
            "flood" => Ok(load::flood(self.producer_of(&request)?, request.clone()).await),
            "drain" => self.drain(request).await,
            "close" => self.close(field(&request, "client")).await,
            other => Err(Failure::from(format!("the Rust client cannot do this: {other}"))),
        }
    }

    async fn producer(&self, request: &Value) -> Outcome {
        let mut option = ProducerOption::default();
        option.set_topics(request["topics"].as_array().into_iter().flatten().filter_map(Value::as_str).collect());
        let mut producer = match request["check"].as_str().map(str::to_owned) {
            None => Producer::new(option, connection(request))?,
            Some(answer) => {
                let checker = move |_, found: MessageView| {
                    let body = String::from_utf8_lossy(found.body());
                    say(&json!({"event": "checked", "body": body, "answer": answer}));
                    match answer.as_str() {
                        "commit" => TransactionResolution::COMMIT,
                        "rollback" => TransactionResolution::ROLLBACK,
                        _ => TransactionResolution::UNKNOWN,
                    }
                };
                Producer::new_transaction_producer(option, connection(request), Box::new(checker))?
            }
        };
        producer.start().await?;
        self.producers.lock().unwrap().insert(field(request, "name").into(), Arc::new(producer));
        Ok(json!({}))
    }

    async fn simple(&self, request: &Value) -> Outcome {
        let (topic, told) = request["subscriptions"]
            .as_object()
            .and_then(|subscriptions| subscriptions.iter().next())
            .ok_or("a consumer needs a subscription".to_owned())?;
        let filter = match told["sql"].as_str() {
            Some(sql) => FilterExpression::new(FilterType::Sql, sql),
            None => FilterExpression::new(FilterType::Tag, told["tag"].as_str().unwrap_or("*")),
        };
        let mut option = SimpleConsumerOption::default();
        option.set_consumer_group(field(request, "group"));
        option.set_topics(vec![topic]);
        let mut client_option = connection(request);
        let await_s = request["await_s"].as_u64().unwrap_or(5);
        client_option.set_long_polling_timeout(Duration::from_secs(await_s) + BEYOND_AWAIT);
        let mut consumer = SimpleConsumer::new(option, client_option)?;
        consumer.start().await?;
        let subscribed =
            Subscribed { consumer: Arc::new(consumer), topic: topic.clone(), filter: Arc::new(filter) };
        self.consumers.lock().unwrap().insert(field(request, "name").into(), Arc::new(subscribed));
        Ok(json!({}))
    }

    async fn transaction(&self, request: &Value) -> Outcome {
        let transaction = self.producer_of(request)?.send_transaction_message(message(request)?).await?;
        let message_id = transaction.message_id().to_owned();
        match field(request, "end") {
            "commit" => transaction.commit().await?,
            "rollback" => transaction.rollback().await?,
            _ => {}
        }
        Ok(json!({"message_id": message_id}))
    }

    async fn receive(&self, request: &Value) -> Outcome {
        let subscribed = self.subscribed(request)?;
        let most = request["max"].as_i64().unwrap_or(1) as i32;
        let invisible = Duration::from_secs(request["invisible_s"].as_u64().unwrap_or(30));
        let received = subscribed.consumer.receive_with(&subscribed.topic, &subscribed.filter, most, invisible).await;
        let messages = received.or_else(|error| if is_late(&error) { Ok(Vec::new()) } else { Err(error) })?;
        Ok(json!({"messages": messages.into_iter().map(|found| self.seen(found)).collect::<Vec<_>>()}))
    }

    async fn drain(self: &Arc<Program>, request: Value) -> Outcome {
        let subscribed = self.subscribed(&request)?;
        let (program, client) = (self.clone(), field(&request, "client").to_owned());
        let events = request["events"].as_bool().unwrap_or(false);
        let handled = move |found: MessageView| {
            if events {
                let message = program.seen(found);
                say(&json!({"event": "consumed", "client": client, "message": message, "success": true}));
            }
        };
        let (consumer, filter) = (subscribed.consumer.clone(), subscribed.filter.clone());
        Ok(load::drain(consumer, subscribed.topic.clone(), filter, request, handled).await)
    }

    async fn close(&self, name: &str) -> Outcome {
        let in_use = || Failure::from(format!("{name} still runs a command"));
        let producer = self.producers.lock().unwrap().remove(name);
        if let Some(producer) = producer {
            Arc::try_unwrap(producer).map_err(|_| in_use())?.shutdown().await?;
        }
        let subscribed = self.consumers.lock().unwrap().remove(name);
        if let Some(subscribed) = subscribed {
            let consumer = Arc::try_unwrap(subscribed).map_err(|_| in_use())?.consumer;
            Arc::try_unwrap(consumer).map_err(|_| in_use())?.shutdown().await?;
        }
        Ok(json!({}))
    }

    /// The message as JSON; it is remembered by its number.
    fn seen(&self, found: MessageView) -> Value {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let mut keys = found.keys().to_vec();
        keys.sort();
        let told = json!({
            "handle": number,
            "topic": found.topic(),
            "body": String::from_utf8_lossy(found.body()),
            "message_id": found.message_id(),
            "tag": found.tag(),
            "keys": keys,
            "properties": found.properties(),
            "message_group": found.message_group(),
            "attempt": found.delivery_attempt(),
        });
        self.messages.lock().unwrap().insert(number, Arc::new(found));
        told
    }

    fn producer_of(&self, request: &Value) -> Result<Arc<Producer>, Failure> {
        let name = field(request, "client");
        let found = self.producers.lock().unwrap().get(name).cloned();
        found.ok_or_else(|| Failure::from(format!("no producer has the name {name}")))
    }

    fn subscribed(&self, request: &Value) -> Result<Arc<Subscribed>, Failure> {
        let name = field(request, "client");
        let found = self.consumers.lock().unwrap().get(name).cloned();
        found.ok_or_else(|| Failure::from(format!("no consumer has the name {name}")))
    }
}

fn connection(request: &Value) -> ClientOption {
    let mut option = ClientOption::default();
    option.set_access_url(field(request, "endpoints"));
    option.set_enable_tls(request["tls"].as_bool().unwrap_or(false));
    option.set_timeout(Duration::from_secs(request["timeout_s"].as_u64().unwrap_or(3)));
    if let (Some(access), Some(secret)) = (request["access_key"].as_str(), request["secret_key"].as_str()) {
        option.set_access_key(access);
        option.set_secret_key(secret);
    }
    option
}

fn message(request: &Value) -> Result<impl Message, ClientError> {
    let body = field(request, "body").as_bytes().to_vec();
    let mut message = MessageBuilder::builder().set_topic(field(request, "topic")).set_body(body);
    if let Some(tag) = request["tag"].as_str() {
        message = message.set_tag(tag);
    }
    if let Some(keys) = request["keys"].as_array() {
        message = message.set_keys(keys.iter().filter_map(Value::as_str).collect());
    }
    if let Some(properties) = request["properties"].as_object() {
        let texts = properties.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
        message = message.set_properties(texts.collect());
    }
    if let Some(group) = request["message_group"].as_str() {
        message = message.set_message_group(group);
    }
    if let Some(at_ms) = request["deliver_at_ms"].as_i64() {
        message = message.set_delivery_timestamp(at_ms / 1000); // the client takes seconds
    }
    if request["do"] == "transaction" {
        message = message.enable_transaction();
    }
    message.build()
}

fn field<'a>(request: &'a Value, name: &str) -> &'a str {
    request[name].as_str().unwrap_or_default()
}

/// What the client raised, with its context and its source.
fn text(error: &ClientError) -> String {
    let source = error.source().map(|source| format!(": {source:#}")).unwrap_or_default();
    format!("{:?}: {}: {:?}{source}", error.kind(), error.message(), error.context())
}

/// Whether a receive ended with the client's deadline. Apache's servers tell only then that there is no message.
pub fn is_late(error: &ClientError) -> bool {
    text(error).contains("Timeout expired")
}

fn say(told: &Value) {
    let mut out = std::io::stdout().lock();
    // Nobody is left to tell if the standard output is closed.
    let _ = writeln!(out, "{told}").and_then(|()| out.flush());
}

async fn answer(program: Arc<Program>, request: Value) {
    let id = request["id"].clone();
    // A task of its own, because the client panics on some answers.
    let outcome = tokio::spawn(async move { program.perform(request).await }).await;
    let mut told = match outcome {
        Ok(Ok(Value::Object(fields))) => fields,
        Ok(Ok(_)) => Map::new(),
        Ok(Err(failure)) => failed(failure),
        Err(panic) => failed(Failure::from(format!("panic: {panic}"))),
    };
    told.entry("ok").or_insert(json!(true));
    told.insert("id".into(), id);
    say(&Value::Object(told));
}

fn failed(failure: Failure) -> Map<String, Value> {
    let mut told = Map::new();
    told.insert("ok".into(), json!(false));
    told.insert("error".into(), json!(failure.error));
    told.insert("code".into(), json!(failure.code));
    told
}

#[tokio::main]
async fn main() {
    let program = Arc::new(Program::default());
    let (requests, mut received) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if requests.send(line).is_err() {
                break;
            }
        }
    });
    while let Some(line) = received.recv().await {
        if let Ok(request) = serde_json::from_str::<Value>(&line) {
            tokio::spawn(answer(program.clone(), request));
        }
    }
    std::process::exit(0); // a client that still runs must not keep the process
}
