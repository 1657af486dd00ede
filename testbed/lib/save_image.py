"""save_image.py IMAGE... LAYOUT: save images of buildah's store into one OCI layout, compressing only what is new.

`buildah push` compresses every layer at every push, half a minute for torch, unless the target holds a blob named by
the layer's uncompressed digest (its diff id). So it pushes into a scratch layout next to LAYOUT, in which a small file
stands for every layer that was compressed before: its descriptor.
"""

import hashlib
import json
import pathlib
import subprocess
import sys
from typing import Any

Descriptor = dict[str, Any]
NAME = "org.opencontainers.image.ref.name"


def blob(layout: pathlib.Path, digest: str) -> pathlib.Path:
    return layout / "blobs" / digest.replace(":", "/")


def read_json(path: pathlib.Path) -> Any:
    return json.loads(path.read_text())


def layer(scratch: pathlib.Path, layout: pathlib.Path, pushed: Descriptor, diff_id: str) -> Descriptor:
    """The compressed layer's descriptor; its blob is in LAYOUT afterwards."""
    known = blob(scratch, diff_id)
    if pushed["digest"] != diff_id:
        blob(scratch, pushed["digest"]).rename(blob(layout, pushed["digest"]))
        known.write_text(json.dumps(pushed))
    return dict(read_json(known))


def save(image: str, layout: pathlib.Path) -> Descriptor:
    """The manifest's descriptor, with the image's name."""
    scratch = layout.with_name(layout.name + ".scratch")
    for known in (scratch / "blobs" / "sha256").glob("*"):
        if not blob(layout, read_json(known)["digest"]).exists():
            known.unlink()
    (scratch / "index.json").unlink(missing_ok=True)
    subprocess.run(
        ["buildah", "--storage-driver", "overlay", "push", "-q", image, f"oci:{scratch}:{image}"], check=True
    )
    (manifest_at,) = read_json(scratch / "index.json")["manifests"]
    manifest = read_json(blob(scratch, manifest_at["digest"]))
    config = blob(scratch, manifest["config"]["digest"])
    diff_ids = read_json(config)["rootfs"]["diff_ids"]
    manifest["layers"] = [layer(scratch, layout, *pair) for pair in zip(manifest["layers"], diff_ids, strict=True)]
    config.rename(blob(layout, manifest["config"]["digest"]))
    blob(scratch, manifest_at["digest"]).unlink()
    return write_blob(layout, manifest) | {"annotations": {NAME: image}}


def write_blob(layout: pathlib.Path, manifest: Descriptor) -> Descriptor:
    data = json.dumps(manifest).encode()
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    blob(layout, digest).write_bytes(data)
    return {"mediaType": manifest["mediaType"], "digest": digest, "size": len(data)}


def referenced(layout: pathlib.Path, manifests: list[Descriptor]) -> set[str]:
    digests = {manifest["digest"] for manifest in manifests}
    for digest in list(digests):
        manifest = read_json(blob(layout, digest))
        digests |= {part["digest"] for part in (manifest["config"], *manifest["layers"])}
    return digests


def main(images: list[str], layout: pathlib.Path) -> None:
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    index = layout / "index.json"
    others = read_json(index)["manifests"] if index.exists() else []
    manifests = [m for m in others if m["annotations"][NAME] not in images] + [save(image, layout) for image in images]
    part = index.with_suffix(".part")
    part.write_text(json.dumps({"schemaVersion": 2, "manifests": manifests}))
    part.rename(index)
    (layout / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    wanted = referenced(layout, manifests)
    for path in blobs.iterdir():
        if f"sha256:{path.name}" not in wanted:
            path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:-1], pathlib.Path(sys.argv[-1]))
