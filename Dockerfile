# The image of one node. `make image` brings in what it is built from: wheels of requirements/image.txt, whose hashes are
# checked, and our own. The build itself needs no network where the base has tini (scripts/base-image makes such a base).
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS build
COPY build/image/wheels /wheels
COPY requirements/image.txt /image.txt
RUN python3 -m venv /opt/ledgermq \
    && /opt/ledgermq/bin/pip install --no-cache-dir --no-index --find-links /wheels --require-hashes -r /image.txt
COPY build/image/own /own
RUN /opt/ledgermq/bin/pip install --no-cache-dir --no-index --no-deps /own/*.whl \
    && /opt/ledgermq/bin/pip uninstall --quiet --yes pip setuptools
COPY deploy/alive.py /opt/ledgermq/alive.py
# `make image` finds this stage by its label, and removes it when the image is built.
LABEL ledgermq.stage=build

FROM ${BASE_IMAGE}
RUN command -v tini >/dev/null || { apt-get update && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/*; }
COPY --from=build /opt/ledgermq /opt/ledgermq
# No settings stand here: the environment wins over a node's file, which may be mounted.
# The user is numeric, so that an orchestrator sees that it is not root. A volume that is mounted there begins as its own.
# For docker-compose.yml: /etc/ledgermq is for certificates and secrets, /authority for the key that signs them, and
# /monitoring for the password of Prometheus.
RUN mkdir -m 0750 /var/lib/ledgermq && mkdir -m 0700 /etc/ledgermq /authority /monitoring \
    && chown 10001:10001 /var/lib/ledgermq /etc/ledgermq /authority /monitoring
ENV PATH=/opt/ledgermq/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
EXPOSE 9871 9872
# A leader hands over before it ends.
STOPSIGNAL SIGTERM
# Whether this process lives, whatever becomes of the others: a node without a majority must not be restarted for it.
# Whether it is ready to serve, its /readyz says.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python3", "-I", "-S", "/opt/ledgermq/alive.py"]
ENTRYPOINT ["tini", "--", "ledgermq"]
CMD ["server", "run"]
ARG VERSION=0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="ledgermq" \
    org.opencontainers.image.description="A message queue whose log is a Raft log: one node" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
