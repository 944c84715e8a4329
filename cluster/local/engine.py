"""This machine's Docker engine: connected to, or a sentence that says why not."""

from __future__ import annotations

import docker
from docker import DockerClient
from docker.errors import DockerException, ImageNotFound

IMAGE = "ledgermq:dev"
"""What `make image` builds."""
_TIMEOUT_S = 60


class EngineError(Exception):
    """There is no engine, or it lacks what is needed; the message says what to do."""


def connect() -> DockerClient:
    """To the engine that DOCKER_HOST names, or this machine's; raises EngineError where none answers."""
    try:
        client = docker.from_env(timeout=_TIMEOUT_S)
        client.ping()
    except DockerException as error:
        raise EngineError(
            "no Docker engine answers: start it, or name one with DOCKER_HOST; in a clone of the repository "
            "`scripts/docker-engine start` installs and starts one"
        ) from error
    return client


def need_image(client: DockerClient, image: str) -> None:
    """Raises EngineError where the engine does not have it."""
    try:
        client.images.get(image)
    except ImageNotFound as error:
        raise EngineError(
            f"there is no image {image}: build it with `make image`, in a clone of the repository"
        ) from error
