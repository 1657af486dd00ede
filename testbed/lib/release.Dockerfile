# An image of this checkout with the code of a release in it; the build's context is the folder of wheels.
ARG BASE
FROM ${BASE}
ARG WHEEL
USER 0
COPY ${WHEEL} /tmp/
RUN python -m pip install --no-cache-dir --no-index --no-deps --force-reinstall "/tmp/${WHEEL}" && rm "/tmp/${WHEEL}"
USER 1000:1000
