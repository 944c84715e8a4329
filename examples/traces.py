"""A web shop sees in its traces how long a message took from the order to the invoice: in the producer, in the cluster,
and in the listener.

The traces are printed here. A real program gives its spans to an exporter, and sets `otel_endpoint` on the nodes, which
then show what the leader and its followers did with each message.
"""

import os
import time
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from ledgermq import Admin, Message, Producer, PushConsumer

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
RUN = int(time.time())
TOPIC, GROUP = f"orders-{RUN}", f"invoices-{RUN}"


class Printer(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            linked = [f"{link.context.span_id:016x}" for link in span.links]
            took = ((span.end_time or 0) - (span.start_time or 0)) / 1e6
            context = span.get_span_context()
            assert context is not None
            print(f"{context.span_id:016x}  {span.name:30} {took:7.1f} ms" + (f"  from {linked[0]}" if linked else ""))
        return SpanExportResult.SUCCESS


def write_invoice(message: Message) -> None:
    time.sleep(0.01)  # the span "process ..." is current here, and so a parent of the program's own spans


def main() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Printer()))
    trace.set_tracer_provider(provider)
    tracer = trace.get_tracer("shop")
    with Admin(BOOTSTRAP) as admin:
        admin.create_topic(TOPIC, queues=1)
    with (
        PushConsumer(TOPIC, group=GROUP, listener=write_invoice, bootstrap_servers=BOOTSTRAP, tracing=True),
        Producer(BOOTSTRAP, tracing=True) as producer,
    ):
        for number in range(3):
            with tracer.start_as_current_span("checkout"):
                producer.send(TOPIC, b"order %d" % number, key=f"customer {number}")
        with Admin(BOOTSTRAP) as admin:
            while any(queue.lag for queue in admin.describe_consumer_group(GROUP).queues):
                time.sleep(0.1)


if __name__ == "__main__":
    main()
