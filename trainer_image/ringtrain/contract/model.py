"""The base of everything that crosses a process boundary as JSON or YAML."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ContractModel(BaseModel):
    """A frozen record: camelCase outside (JSON, YAML), snake_case inside, unknown fields refused."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        # A loss that is no number must arrive as one that is none, not as absent.
        ser_json_inf_nan="strings",
    )

    def to_json(self) -> str:
        return self.model_dump_json(by_alias=True, exclude_none=True)

    def to_short_json(self) -> str:
        """Without what is as by default: readers of an earlier release then meet no field that they do not know, unless
        it was asked for."""
        return self.model_dump_json(by_alias=True, exclude_none=True, exclude_defaults=True)
