"""The RESTful API server that a MiniCluster without a command runs beside its lead broker.

The image has to have Flux, not this: these files are delivered with the MiniCluster and run on the Python that Flux
itself was built with (3.8 or later), with nothing but its standard library and Flux's Python bindings. So nothing
in here may import anything of kueue_flux or of PyPI, and nobody imports it but `manifests`, which reads the files as
text (`files()`) and names the settings (`settings`).

How it is run:

- As the broker's initial program: `flux python DIR [-o NAME=VALUE ...]`, where DIR holds these files (a flat
  directory, any name, may be read-only). `flux python` finds the interpreter and the bindings; `FLUX_URI` is set by
  the broker. `-o` gives a job shell option to every job that does not set it itself, as spec.flux.optionFlags does.
- What else it is told comes from the environment: see `settings`. By default it listens on port 5000, and refuses to
  start without a token file.
- It writes to stderr only. It answers `GET /healthz` with 200 as soon as it serves, which is never before the token
  was read and Flux answered.
- Exit code 0: it was told to end (SIGTERM, SIGINT, or POST /v1/service/stop). Jobs are left to the broker, which
  cancels what still runs when its initial program has ended. Exit code 1: it could not start, or its broker has
  gone; the last line on stderr says why.

Clients are those of flux-restful-api v1 (https://github.com/flux-framework/flux-restful-api), and curl. The clients'
FLUX_USER is `settings.ENV_USER` (fluxuser), FLUX_TOKEN is the token, and FLUX_SECRET_KEY is the token as well.
"""

from __future__ import annotations

from pathlib import Path

VERSION = "0.1.0"
"""Of this server; the API's is v1."""


def files() -> dict[str, str]:
    """The text of each of the server's files by its name, as it has to be delivered."""
    here = Path(__file__).parent
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(here.glob("*.py"))}
