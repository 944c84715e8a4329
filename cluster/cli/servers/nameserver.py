"""The command `ledgermq nameserver` runs a name server, and shows the routes that a name server knows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import click
import grpc

from cluster.address import check_address
from cluster.cli.command_group import CommandGroup
from cluster.cli.failure import CommandError
from cluster.cli.options import format_option
from cluster.cli.output import print_json, print_table, say
from ledger.client.connection.channels import GrpcChannel, failure
from ledger.v1 import broker_pb2
from ledger.words import counted

# The port that RocketMQ's name servers use.
DEFAULT_LISTEN = "127.0.0.1:9876"
_ANSWER_S = 5.0
_FILE = click.Path(dir_okay=False, path_type=Path)


class Address(click.ParamType[str]):
    """The click type of an address, written HOST:PORT."""

    name = "host:port"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return check_address(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.group(cls=CommandGroup)
def nameserver() -> None:
    """Run a name server, or show the routes that it knows. A name server tells clients the addresses of the nodes."""


@nameserver.command()
@click.option(
    "--listen", type=Address(), default=DEFAULT_LISTEN, show_default=True, help="Address for nodes and clients."
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Format of log lines."
)
@click.option("--cluster-secret-file", type=_FILE, help="File of the cluster secret. Only nodes that know it register.")
@click.option("--cluster", default="", help="Name of the cluster whose nodes register with certificates.")
@click.option("--tls-certificate", type=_FILE, help="Certificate, from `ledgermq certs issue nameserver`.")
@click.option("--tls-key", type=_FILE, help="Key of the certificate.")
@click.option("--tls-ca", type=_FILE, help="Authorities that sign the certificates of nodes.")
def run(
    listen: str,
    log_format: Literal["text", "json"],
    cluster_secret_file: Path | None,
    cluster: str,
    tls_certificate: Path | None,
    tls_key: Path | None,
    tls_ca: Path | None,
) -> int:
    """Run a name server until SIGTERM or Ctrl-C. A name server stores nothing on disk.

    Start this command on two or more machines, so that one name server always runs. Name servers do not communicate
    with each other. List the addresses of all name servers in the setting `nameservers` of the nodes, and in the
    option --bootstrap of clients.
    """
    try:
        from cluster.node.nameserver import NameServerSecurity, run_name_server
        from cluster.node.security.certificates import CertificateFiles
    except ModuleNotFoundError as error:
        raise CommandError(
            f"a name server needs the package {error.name}, which is not installed: pip install 'ledgermq[server]'"
        ) from error
    tls = (tls_certificate, tls_key, tls_ca)
    if any(tls) and not (all(tls) and cluster):
        raise click.UsageError("give --tls-certificate, --tls-key, --tls-ca and --cluster together")
    files = None
    if tls_certificate and tls_key and tls_ca:
        files = CertificateFiles(tls_certificate, tls_key, tls_ca)
    return run_name_server(listen, log_format, NameServerSecurity(cluster, files, cluster_secret_file))


@nameserver.command()
@click.argument("address", type=Address(), default=DEFAULT_LISTEN)
@format_option
def show(address: str, output: str) -> None:
    """Show the routes that the name server or node at ADDRESS knows: the nodes, their addresses and the leaders."""
    routes = asyncio.run(_ask(address))
    if routes.HasField("error"):
        raise CommandError(routes.error.message)
    leaders = {shard.leader for shard in routes.shards}
    if output == "json":
        print_json(
            {
                "cluster": routes.cluster,
                "nodes": {node.node: node.address for node in routes.nodes},
                "outside": {node.node: node.outside_address for node in routes.nodes if node.outside_address},
                "shards": [{"shard": each.shard, "leader": each.leader, "term": each.term} for each in routes.shards],
                "topics": {topic.name: len(topic.shards) for topic in routes.topics},
            }
        )
        return
    print_table(
        ["NODE", "ADDRESS", "OUTSIDE", "LEADS"],
        [
            [
                node.node,
                node.address,
                node.outside_address or None,
                _leads(node.node, routes) if node.node in leaders else None,
            ]
            for node in routes.nodes
        ],
    )
    topics = "topics only from the nodes" if routes.nodes_only else counted(len(routes.topics), "topic")
    say(f"Cluster {routes.cluster}: {counted(len(routes.shards), 'shard')}, {topics}.")


def _leads(node: int, routes: broker_pb2.GetRouteResponse) -> str:
    return ", ".join(str(shard.shard) for shard in routes.shards if shard.leader == node)


async def _ask(address: str) -> broker_pb2.GetRouteResponse:
    channel = GrpcChannel(address)
    try:
        routes: broker_pb2.GetRouteResponse = await channel.stub.GetRoute(
            broker_pb2.GetRouteRequest(), timeout=_ANSWER_S
        )
    except grpc.aio.AioRpcError as error:
        raise failure(address, error) from error
    finally:
        await channel.close()
    return routes
