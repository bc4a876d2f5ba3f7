"""nginx and HAProxy limits for a plan, for those who have no model gateway. Both stream; HAProxy also queues.

nginx cannot look into a request, so each model has a path of its own; HAProxy goes by the model that a request names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from headcount.deployment.litellm import STREAM_TIMEOUT_S, WHOLE_TIMEOUT_S
from headcount.deployment.places import Place, by_model, word

__all__ = ["haproxy_config", "nginx_config"]

QUEUE_TIMEOUT_S = 30
"""How long a request waits for a place before it is refused with 503."""
BODY_BYTES = 1 << 20
"""Of the longest request that is looked into for its model: histories are re-sent whole."""


def nginx_config(places: Sequence[Place]) -> str:
    """Limits on requests in flight, one path for each model; beyond them 429 at once. Clients' keys pass through."""
    models = by_model(places)
    zones = [f"limit_conn_zone $server_port zone={word(name)}:64k;" for name in models]
    lines = [
        "# to be included in the http block of nginx.conf; a client's base URL is http://HOST:4000/NAME",
        *zones,
        "limit_conn_status 429;",
        "",
    ]
    for name, them in models.items():
        lines += [
            f"upstream {word(name)} {{",
            *(["    least_conn;"] if len(them) > 1 else []),
            *(f"    server {place.host};" for place in them),
            "    keepalive 64;",
            "}",
            "",
        ]
    lines += ["server {", "    listen 4000;", "    client_max_body_size 16m;"]
    for name, them in models.items():
        lines += ["", *_location(name, them)]
    return "\n".join([*lines, "}"]) + "\n"


def _location(name: str, them: Sequence[Place]) -> list[str]:
    first = them[0]
    scheme = "https" if first.tls else "http"
    return [
        f"    location /{word(name)}/ {{",
        f"        limit_conn {word(name)} {sum(place.cap_requests for place in them)};   # requests in flight",
        f"        proxy_pass {scheme}://{word(name)}{first.base}/;",
        "        proxy_http_version 1.1;",
        '        proxy_set_header Connection "";',
        "        proxy_buffering off;              # tokens pass as they come",
        "        proxy_next_upstream off;          # no question is asked twice",
        f"        proxy_read_timeout {WHOLE_TIMEOUT_S}s;",
        "    }",
    ]


def haproxy_config(places: Sequence[Place]) -> str:
    """At most the cap at each server, the others wait in a queue for ``QUEUE_TIMEOUT_S``. Keys come from the
    environment: the gateway's own, and one for each model."""
    models = by_model(places)
    simple = next(iter(models))
    lines = [
        "# start:  haproxy -f haproxy.cfg     (keys: see keys.env)",
        "global",
        f"    tune.bufsize {BODY_BYTES}        # a request is read this far for the model it names",
        "",
        "defaults",
        "    mode http",
        "    timeout connect 5s",
        f"    timeout client {WHOLE_TIMEOUT_S}s",
        f"    timeout server {WHOLE_TIMEOUT_S}s",
        f"    timeout http-request {STREAM_TIMEOUT_S}s",
        f"    timeout queue {QUEUE_TIMEOUT_S}s",
        "    retries 0",
        "",
        "frontend people",
        "    bind :4000",
        "    option http-buffer-request",
        '    http-request deny deny_status 401 unless { req.hdr(authorization) -m str "Bearer ${GATEWAY_API_KEY}" }',
        f"    http-request return status 200 content-type application/json string {_models(models)} "
        "if { path /v1/models }",
        "    http-request set-var(txn.model) req.body,json_query('$.model')",
    ]
    lines += [f"    use_backend {word(name)} if {{ var(txn.model) -m str {json.dumps(name)} }}" for name in models]
    lines.append(f"    default_backend {word(simple)}")
    for name, them in models.items():
        lines += ["", f"backend {word(name)}", "    balance leastconn"]
        lines.append(f'    http-request set-header Authorization "Bearer ${{{them[0].key_variable}}}"')
        if them[0].base:
            lines.append(f"    http-request set-path {them[0].base}%[path]")
        tls = " ssl verify required ca-file /etc/ssl/certs/ca-certificates.crt" if them[0].tls else ""
        lines += [f"    server {place.label} {place.host} maxconn {place.cap_requests}{tls}" for place in them]
    return "\n".join(lines) + "\n"


def _models(names: Iterable[str]) -> str:
    """What ``/v1/models`` says, as one quoted word of HAProxy's language."""
    listed = {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "plan"} for name in names]}
    return "'" + json.dumps(listed).replace("'", "") + "'"
