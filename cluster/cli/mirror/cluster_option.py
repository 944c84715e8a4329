"""The click type of a cluster that a command names beside the usual one: a profile, or addresses."""

from __future__ import annotations

from typing import Any, cast

import click
from click.shell_completion import CompletionItem

from cluster.cli.completion import profile_names
from cluster.cli.options import checked_addresses
from ledger.client.connection.security import SecurityOptions, profile_of
from ledger.errors import InvalidArgumentError
from ledger.mirror.cluster_access import ClusterPlace


class ClusterPlaceType(click.ParamType[ClusterPlace]):
    """Returns the place of a cluster. A text with a colon has addresses, and any other text is the name of a profile.
    The default profile is not used. Variables such as LEDGERMQ_CA apply to both clusters, as far as a profile does not
    say otherwise."""

    name = "cluster"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ClusterPlace:
        if isinstance(value, ClusterPlace):
            return value
        if ":" in value:
            return ClusterPlace(checked_addresses(value), SecurityOptions(profile=""))
        try:
            settings = profile_of(value)
        except InvalidArgumentError as error:
            self.fail(str(error), param, ctx)
        servers = settings.pop("servers", "")
        if not servers:
            self.fail(f"profile {value!r} has no addresses: add them with `ledgermq profile add`", param, ctx)
        return ClusterPlace(servers, cast(SecurityOptions, {**settings, "profile": ""}))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return profile_names(ctx, param, incomplete)
