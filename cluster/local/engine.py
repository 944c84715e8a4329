"""Connects to the Docker engine that runs the containers."""

from __future__ import annotations

import docker
from docker import DockerClient
from docker.errors import DockerException, ImageNotFound

# The image that `make image` builds.
IMAGE = "ledgermq:dev"
_TIMEOUT_S = 60


class EngineError(Exception):
    """No Docker engine answers, or the engine does not have an image. The message of the error says what the user
    can do."""


def connect() -> DockerClient:
    """Connect to the Docker engine that DOCKER_HOST names, or to the engine of this machine if DOCKER_HOST is not
    set. Raises EngineError if no engine answers."""
    try:
        client = docker.from_env(timeout=_TIMEOUT_S)
        client.ping()
    except DockerException as error:
        raise EngineError(
            "no Docker engine answers: start the engine, or name another engine with DOCKER_HOST; in a clone of the "
            "repository `scripts/docker-engine start` installs and starts an engine"
        ) from error
    return client


def need_image(client: DockerClient, image: str) -> None:
    """Raise EngineError if the engine does not have `image`."""
    try:
        client.images.get(image)
    except ImageNotFound as error:
        raise EngineError(
            f"the Docker engine has no image {image}: build it with `make image`, in a clone of the repository"
        ) from error
