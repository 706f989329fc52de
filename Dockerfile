# The controller's image. Without a registry kueue_flux/devcluster/images/adapter.py assembles the same layout.
FROM python:3.11.13-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml constraints.txt ./
# The dependencies alone: this layer outlives every change of code. Without what only the user's command needs, and
# without the typed clients of all API groups: 100 MB that the controller never imports, since it speaks raw JSON.
RUN python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
      | grep -Ev '^(cryptography|httpx|kr8s|rich|typer)' > requirements.txt \
 && pip install --no-cache-dir --no-compile --only-binary=:all: --target /opt/kueue-flux/lib \
      --constraint constraints.txt --requirement requirements.txt \
 && cd /opt/kueue-flux/lib \
 && find kubernetes -regex '.*/client/\(api\|models\)/.*\.py' ! -name __init__.py -delete \
 && python -m compileall -q --invalidation-mode unchecked-hash .
COPY kueue_flux /opt/kueue-flux/app/kueue_flux
RUN python -m compileall -q --invalidation-mode unchecked-hash /opt/kueue-flux/app \
 && printf '#!/usr/bin/env python3\nfrom kueue_flux.controller.main import main\n\nmain()\n' > kueue-flux-controller \
 && chmod 755 kueue-flux-controller

FROM python:3.11.13-slim-bookworm
LABEL org.opencontainers.image.title="kueue-flux"
ENV PYTHONPATH=/opt/kueue-flux/app:/opt/kueue-flux/lib PYTHONUNBUFFERED=1
COPY --from=build /opt/kueue-flux/lib /opt/kueue-flux/lib
COPY --from=build /src/kueue-flux-controller /usr/local/bin/
COPY --from=build /opt/kueue-flux/app /opt/kueue-flux/app
# by number, so that a kubelet can see that it is not root
USER 65532:65532
ENTRYPOINT ["kueue-flux-controller"]
