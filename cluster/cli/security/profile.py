"""The command `ledgermq profile` keeps the addresses and the security settings of clusters under names."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from cluster.cli.command_group import CommandGroup
from cluster.cli.completion import profile_names
from cluster.cli.failure import CommandError
from cluster.cli.options import REQUEST_TIMEOUT_MS, checked_addresses, format_option
from cluster.cli.output import print_json, print_table, say
from cluster.cli.security.passwords import new_password
from cluster.local.toml_text import toml_text
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.connection.security import profile_file, profile_of, read_profiles
from ledger.errors import InvalidArgumentError
from ledger.private_file import write_private

_SECRETS = ("password", "token")
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(cls=CommandGroup)
def profile() -> None:
    """Keep the addresses and the security settings of clusters under names, for commands and Python clients.

    The file is ~/.config/ledgermq/profiles.toml, or $LEDGERMQ_PROFILE_FILE. Only its owner can read it.
    """


@profile.command()
@click.argument("name")
@click.option(
    "--bootstrap",
    "--servers",
    "servers",
    required=True,
    metavar="HOST:PORT,...",
    help="Addresses of one or more nodes.",
)
@click.option("--ca", type=_FILE, help="Authorities that sign the certificates of the nodes (PEM); turns on TLS.")
@click.option("--tls", is_flag=True, default=None, help="Use TLS with the authorities of the system.")
@click.option("--user", help="User; the password is asked for, or comes from --password-file.")
@click.option("--password-file", type=_FILE, help="File with the password. The profile keeps the path only.")
@click.option("--client-certificate", type=_FILE, help="Certificate of the client, in place of a password.")
@click.option("--client-key", type=_FILE, help="Key of --client-certificate.")
def add(name: str, servers: str, **settings: Any) -> None:
    """Add the profile NAME, or replace it. The first profile becomes the default."""
    found = {
        "servers": checked_addresses(servers),
        **{key: value for key, value in settings.items() if value is not None},
    }
    if settings["user"] and settings["password_file"] is None:
        found["password"] = new_password(None, settings["user"])
    content = _content()
    content.setdefault("profiles", {})[name] = {
        key: str(value.absolute()) if isinstance(value, Path) else value for key, value in found.items()
    }
    content.setdefault("default", name)
    _write(content)
    say(f"Added profile {name} to {profile_file()}. Try it with `ledgermq profile test {name}`.")


@profile.command("list")
@format_option
def list_profiles(output: str) -> None:
    """List the profiles. The default is marked with *."""
    content = _content()
    profiles = {name: _shown(each) for name, each in sorted(content.get("profiles", {}).items())}
    if output == "json":
        print_json({"default": content.get("default"), "profiles": profiles})
        return
    rows = [
        ["*" if name == content.get("default") else "", name, each.get("servers"), _tls(each), each.get("user")]
        for name, each in profiles.items()
    ]
    if rows:
        print_table(["", "NAME", "SERVERS", "TLS", "USER"], rows)
    else:
        say("There are no profiles: add one with `ledgermq profile add NAME --servers HOST:PORT`.")


@profile.command()
@click.argument("name", shell_complete=profile_names)
def show(name: str) -> None:
    """Show the profile NAME. Secrets are not shown."""
    print_json(_shown(_known(name)))


@profile.command()
@click.argument("name", shell_complete=profile_names)
def use(name: str) -> None:
    """Make NAME the default profile."""
    _known(name)
    _write({**_content(), "default": name})
    say(f"The default profile is {name}.")


@profile.command()
@click.argument("name", shell_complete=profile_names)
def remove(name: str) -> None:
    """Remove the profile NAME."""
    _known(name)
    content = _content()
    del content["profiles"][name]
    if content.get("default") == name:
        del content["default"]
    _write(content)
    say(f"Removed profile {name}.")


@profile.command()
@click.argument("name", required=False, shell_complete=profile_names)
def test(name: str | None) -> None:
    """Connect to the cluster of the profile NAME, or of the default profile."""
    settings = _known(name) if name else profile_of("")
    if not settings.get("servers"):
        raise CommandError("the profile has no servers: add it again with --bootstrap HOST:PORT")

    async def work() -> int:
        options: Any = {"profile": name}
        async with AsyncAdmin(settings["servers"], request_timeout_ms=REQUEST_TIMEOUT_MS, **options) as admin:
            return len(await admin.list_topics())

    topics = asyncio.run(work())
    say(f"Connected to {settings['servers']} as {settings.get('user', 'anybody')}: {topics} topics are visible.")


def _content() -> dict[str, Any]:
    try:
        return read_profiles(profile_file())
    except InvalidArgumentError as error:
        raise CommandError(str(error)) from error


def _known(name: str) -> dict[str, Any]:
    try:
        return profile_of(name)
    except InvalidArgumentError as error:
        raise CommandError(str(error)) from error


def _tls(settings: dict[str, Any]) -> str:
    if settings.get("client_certificate"):
        return "client certificate"
    return "yes" if settings.get("ca") or settings.get("tls") else "no"


def _shown(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: "(not shown)" if key in _SECRETS else value for key, value in settings.items()}


def _write(content: dict[str, Any]) -> None:
    lines = [f"default = {toml_text(content['default'])}"] if "default" in content else []
    for name, settings in sorted(content.get("profiles", {}).items()):
        lines.append(f"\n[profiles.{toml_text(name)}]")
        lines += [f"{key} = {toml_text(value)}" for key, value in sorted(settings.items())]
    path = profile_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(path, "\n".join(lines) + "\n")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from error
