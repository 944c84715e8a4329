//! Puts load on a producer or a simple consumer, and measures it: the commands `flood` and `drain`.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rocketmq::error::ClientError;
use rocketmq::model::common::FilterExpression;
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Value};

use crate::{is_late, text};

const FIRST_ERRORS: usize = 10;
const AFTER_ERROR: Duration = Duration::from_millis(100);
/// Linux counts the CPU time of a process in these units.
const TICKS_PER_S: f64 = 100.0;

/// What one command has measured so far, until the last message that was done.
struct Load {
    latencies_ms: Mutex<Vec<f64>>,
    errors: Mutex<Vec<String>>,
    failed: Mutex<Vec<usize>>,
    began: Instant,
    last: Mutex<Instant>,
    cpu_began: f64,
}

impl Load {
    fn new() -> Arc<Load> {
        let now = Instant::now();
        Arc::new(Load {
            latencies_ms: Mutex::default(),
            errors: Mutex::default(),
            failed: Mutex::default(),
            began: now,
            last: Mutex::new(now),
            cpu_began: cpu_s(),
        })
    }

    fn add(&self, began: Instant, extra_ms: f64) {
        let now = Instant::now();
        *self.last.lock().unwrap() = now;
        let latency_ms = (now - began).as_secs_f64() * 1e3 + extra_ms;
        self.latencies_ms.lock().unwrap().push(latency_ms);
    }

    fn fail(&self, error: String) {
        self.errors.lock().unwrap().push(error);
    }

    fn done(&self) -> usize {
        self.latencies_ms.lock().unwrap().len()
    }

    fn told(&self) -> Value {
        let mut found = self.latencies_ms.lock().unwrap().clone();
        found.sort_by(f64::total_cmp);
        let at = |place: usize| found.get(place.min(found.len().saturating_sub(1))).copied().unwrap_or(0.0);
        json!({
            "done": found.len(),
            "seconds": (*self.last.lock().unwrap() - self.began).as_secs_f64(),
            "latencies_ms": {"p50": at(found.len() / 2), "p99": at(found.len() * 99 / 100), "max": at(found.len())},
            "cpu_s": cpu_s() - self.cpu_began,
            "errors": self.errors.lock().unwrap().iter().take(FIRST_ERRORS).collect::<Vec<_>>(),
            "failed": *self.failed.lock().unwrap(),
        })
    }
}

/// When a load ends: after a number of messages, or at an instant.
#[derive(Clone, Copy)]
enum Until {
    Count(usize),
    Deadline(Instant),
}

impl Until {
    fn of(request: &Value) -> Until {
        match request["count"].as_u64() {
            Some(count) => Until::Count(count as usize),
            None => Until::Deadline(Instant::now() + Duration::from_secs_f64(request["seconds"].as_f64().unwrap())),
        }
    }

    fn goes_on(self, done: usize) -> bool {
        match self {
            Until::Count(count) => done < count,
            Until::Deadline(deadline) => Instant::now() < deadline,
        }
    }
}

/// Sends messages with at most `in_flight` of them unacknowledged.
pub async fn flood(producer: Arc<Producer>, request: Value) -> Value {
    let (load, until, next) = (Load::new(), Until::of(&request), Arc::new(AtomicUsize::new(0)));
    let workers = (0..request["in_flight"].as_u64().unwrap_or(1)).map(|_| {
        let (load, next, producer, request) = (load.clone(), next.clone(), producer.clone(), request.clone());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if !until.goes_on(number) {
                    break;
                }
                let began = Instant::now();
                match send(&producer, &request, number).await {
                    Ok(()) => load.add(began, 0.0),
                    Err(error) => {
                        load.failed.lock().unwrap().push(number);
                        load.fail(text(&error));
                    }
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        if let Err(error) = worker.await {
            load.fail(format!("panic: {error}"));
        }
    }
    load.told()
}

async fn send(producer: &Producer, request: &Value, number: usize) -> Result<(), ClientError> {
    let prefix = request["prefix"].as_str().unwrap();
    let width = request["size"].as_u64().unwrap_or(0) as usize;
    let body = format!("{:<width$}", format!("{prefix}-{number}")).into_bytes();
    let mut message = MessageBuilder::builder().set_topic(request["topic"].as_str().unwrap()).set_body(body);
    if let Some(groups) = request["groups"].as_u64().filter(|groups| *groups > 0) {
        message = message.set_message_group(format!("{prefix}-{}", number as u64 % groups));
    }
    producer.send(message.build()?).await.map(|_| ())
}

/// Receives and acknowledges messages, in as many tasks as `consumers` says. A latency is that of one message: its
/// acknowledgement, and its part of the receive.
pub async fn drain(
    consumer: Arc<SimpleConsumer>,
    topic: String,
    filter: Arc<FilterExpression>,
    request: Value,
    handled: impl Fn(MessageView) + Send + Sync + 'static,
) -> Value {
    let (load, until, handled) = (Load::new(), Until::of(&request), Arc::new(handled));
    let most = request["max"].as_i64().unwrap_or(32) as i32;
    let invisible = Duration::from_secs(request["invisible_s"].as_u64().unwrap_or(30));
    let workers = (0..request["consumers"].as_u64().unwrap_or(1)).map(|_| {
        let (load, consumer, topic) = (load.clone(), consumer.clone(), topic.clone());
        let (filter, handled) = (filter.clone(), handled.clone());
        tokio::spawn(async move {
            while until.goes_on(load.done()) {
                let began = Instant::now();
                let received = consumer.receive_with(&topic, &filter, most, invisible).await;
                let messages = received.unwrap_or_else(|error| {
                    if !is_late(&error) {
                        load.fail(text(&error));
                    }
                    Vec::new()
                });
                if messages.is_empty() {
                    tokio::time::sleep(AFTER_ERROR).await;
                }
                let part_ms = began.elapsed().as_secs_f64() * 1e3 / messages.len().max(1) as f64;
                for message in messages {
                    let began = Instant::now();
                    match consumer.ack(&message).await {
                        Ok(()) => load.add(began, part_ms),
                        Err(error) => load.fail(text(&error)),
                    }
                    // After an error, too: the server may have taken the acknowledgement, and this client does not ask again.
                    handled(message);
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        if let Err(error) = worker.await {
            load.fail(format!("panic: {error}"));
        }
    }
    load.told()
}

/// The CPU time of this process in seconds.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let times = after_name.split_whitespace().skip(11).take(2);
    times.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_S
}
