# Two images from one wheel:
#   docker build --target operator -t ringtrain-operator .
#   docker build --target trainer  -t ringtrain-trainer  .
# BASE needs Python 3.11 or newer with venv. TORCH is any pip requirement: the default is what the package index serves
# (on Linux the CUDA build); "torch==2.13.0+cpu" is the CPU build, where the index or PIP_FIND_LINKS offers it.
# The PIP_* arguments are pip's settings for the build; they do not stay in the images.
ARG BASE=docker.io/library/python:3.11-slim

FROM ${BASE} AS base
RUN groupadd --gid 1000 ringtrain && useradd --uid 1000 --gid 1000 --no-create-home --home-dir /tmp ringtrain
RUN python3 -m venv /opt/ringtrain
ENV PATH=/opt/ringtrain/bin:${PATH} PYTHONUNBUFFERED=1
WORKDIR /

# The requirements by themselves, so that a change of code or of tool settings leaves the dependencies' layers alone.
FROM base AS requirements
COPY pyproject.toml /src/
RUN python3 -c "import pathlib, tomllib; \
project = tomllib.loads(pathlib.Path('/src/pyproject.toml').read_text())['project']; \
[pathlib.Path(f'/{extra}.txt').write_text('\n'.join(project['dependencies'] + project['optional-dependencies'][extra])) \
 for extra in ('operator', 'trainer')]"

FROM base AS wheel
ARG PIP_CERT
ARG PIP_FIND_LINKS
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
COPY requirements.lock /src/
RUN pip install --no-cache-dir --constraint /src/requirements.lock hatchling
COPY pyproject.toml README.md LICENSE /src/
COPY operator /src/operator
COPY trainer_image /src/trainer_image
RUN pip wheel --no-build-isolation --no-deps --wheel-dir /wheel /src && \
    pip install --no-deps --no-index --ignore-installed --root /installed /wheel/*.whl

FROM base AS operator-dependencies
ARG PIP_CERT
ARG PIP_FIND_LINKS
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
COPY requirements.lock /opt/ringtrain/
COPY --from=requirements /operator.txt /opt/ringtrain/requirements.txt
RUN pip install --no-cache-dir --constraint /opt/ringtrain/requirements.lock --requirement /opt/ringtrain/requirements.txt

FROM base AS trainer-dependencies
ARG PIP_CERT
ARG PIP_FIND_LINKS
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG TORCH=torch
COPY requirements.lock /opt/ringtrain/
COPY --from=requirements /trainer.txt /opt/ringtrain/requirements.txt
RUN pip install --no-cache-dir --constraint /opt/ringtrain/requirements.lock "${TORCH}" \
    --requirement /opt/ringtrain/requirements.txt

FROM operator-dependencies AS operator
COPY --from=wheel /installed/opt/ringtrain /opt/ringtrain
USER 1000:1000
ENTRYPOINT ["python", "-m", "ringtrain_operator"]

FROM trainer-dependencies AS trainer
COPY --from=wheel /installed/opt/ringtrain /opt/ringtrain
# Kernels are compiled here for a processor like this one; on another, and for another user, ranks compile them anew.
ENV NUMBA_CACHE_DIR=/opt/ringtrain/kernels
RUN mkdir -m 1777 ${NUMBA_CACHE_DIR} && python -c "from ringtrain.comm.codec.build import compile_ahead; compile_ahead()" && \
    chmod -R a+rwX ${NUMBA_CACHE_DIR}
USER 1000:1000
CMD ["python", "-m", "ringtrain.agent"]
