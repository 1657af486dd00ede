"""From pydantic models to a structural OpenAPI schema, as a CustomResourceDefinition wants it.

No $ref, no null types, no titles; a description on every field. Unknown fields need no word: Kubernetes drops them.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_KEPT = (
    "type", "format", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems",
    "maxProperties", "required", "default", "x-kubernetes-int-or-string",
)  # fmt: skip
"""In the order in which they are written."""


def structural_schema(model: type[BaseModel], *, defaults: bool) -> Schema:
    """The schema of `model`; without `defaults` an absent field stays absent."""
    return _Builder(model.model_json_schema(by_alias=True), defaults).whole


class _Builder:
    def __init__(self, document: Mapping[str, Any], defaults: bool) -> None:
        self._definitions = document.get("$defs", {})
        self._defaults = defaults
        self.whole = self._node(document)

    def _node(self, given: Mapping[str, Any]) -> Schema:
        node = self._resolved(given)
        result: Schema = {}
        if "description" in node:
            result["description"] = " ".join(node["description"].split())
        result |= {key: node[key] for key in _KEPT if key in node}
        if node.get("x-kubernetes-int-or-string"):
            result["anyOf"] = node["anyOf"]
        if "exclusiveMinimum" in node:
            result |= {"minimum": node["exclusiveMinimum"], "exclusiveMinimum": True}
        if "exclusiveMaximum" in node:
            result |= {"maximum": node["exclusiveMaximum"], "exclusiveMaximum": True}
        if "items" in node:
            result["items"] = self._node(node["items"])
        if "properties" in node:
            result["properties"] = {name: self._node(field) for name, field in node["properties"].items()}
        elif node.get("additionalProperties") is True:
            result["x-kubernetes-preserve-unknown-fields"] = True
        elif node.get("type") == "object":
            result["additionalProperties"] = self._node(node["additionalProperties"])
        self._set_default(result)
        return result

    def _resolved(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """`node` with its reference and its `or null` replaced by what they stand for; its own words win."""
        merged = dict(node)
        options = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
        if len(options) == 1:
            merged = self._resolved(options[0]) | {key: value for key, value in merged.items() if key != "anyOf"}
        if "$ref" in merged:
            target = self._definitions[merged.pop("$ref").rpartition("/")[2]]
            merged = self._resolved(target) | merged
        return merged

    def _set_default(self, schema: Schema) -> None:
        """Scalars keep their default. An object's is {}, which its fields' own defaults fill; never an empty one."""
        default = schema.pop("default", None)
        if not self._defaults or default is None or default in ([], {}, ""):
            return
        if schema.get("type") != "object":
            schema["default"] = default
        elif any("default" in field for field in schema["properties"].values()):
            schema["default"] = {}
