"""What all models of the API share.

The models are the one source of the CRD, so this module holds what pydantic alone cannot say in both worlds:
strings with a pattern that is checked here and by the API server, in words that a user understands, and
Kubernetes quantities. Everything is strict (the text "3" is not a number) because the API server is strict
too: a MiniCluster must not pass here and fail there, or the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.annotated_handlers import GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from kueue_flux.api import quantity
from kueue_flux.api.problems import shown

INT32_MAX = 2**31 - 1
MAX_INDEXED_PODS = 100_000
"""Kubernetes runs at most this many pods of an Indexed Job at once (batch/v1 validation)."""


class ApiModel(BaseModel):
    """A part of a Kubernetes object: camelCase in YAML, snake_case in Python, unknown fields refused."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        strict=True,
        frozen=True,
        defer_build=True,  # the command line starts often and rarely needs all of the models
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_unset(cls, data: Any) -> Any:
        """Go clients write `services: null` for an empty list; that means unset."""
        if isinstance(data, Mapping):
            return {key: value for key, value in data.items() if value is not None}
        return data


@dataclass(frozen=True)
class Pattern:
    """A pattern for a string, told to the API server (JSON schema) and to the user (in words).

    Args:
        regex: what the whole string must match; within RE2's syntax, which the API server uses.
        what: the same in words, completing "is not ...".
        max_length: in characters; None for no limit.
        optional: the empty string is allowed too and means unset.
    """

    regex: str
    what: str
    max_length: int | None = None
    optional: bool = True

    @property
    def schema_regex(self) -> str:
        """The pattern as the CRD has it: anchored, the empty string allowed where it means unset."""
        return f"^({self.regex})?$" if self.optional else f"^{self.regex}$"

    def check(self, value: str) -> str:
        """Return the value, or raise the error that says what it must be."""
        if value == "" and self.optional:
            return value
        too_long = self.max_length is not None and len(value) > self.max_length
        if too_long or not re.fullmatch(self.regex, value):
            raise PydanticCustomError(
                "pattern",
                "{value} is not {what}",
                {"value": shown(value), "what": self.what, "remedy": "change it"},
            )
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        json_schema = {**handler(schema), "pattern": self.schema_regex}
        if self.max_length is not None:
            json_schema["maxLength"] = self.max_length
        return json_schema


LABEL_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
LABEL_1123 = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL_1123}(\.{LABEL_1123})*"

ServiceName = Annotated[
    str,
    Pattern(
        LABEL_1035,
        "a DNS label: lower-case letters, digits and dashes, a letter first, at most 63 characters",
        63,
    ),
]
"""The name of a Service (RFC 1035 label), or empty."""
ContainerName = Annotated[
    str, Pattern(LABEL_1123, "a DNS label: lower-case letters, digits and dashes, at most 63 characters", 63)
]
"""The name of a container (RFC 1123 label), or empty."""
CONTROL = r"\x00-\x1f\x7f-\x9f"
"""Control characters, within square brackets: a terminal would obey them."""
Line = Annotated[str, Pattern(rf"[^{CONTROL}]*", "one line without control characters", 4096)]
"""Text that is shown as it is."""
Words = Annotated[str, Field(max_length=65536)]
"""Words of a command, quoted as for a shell."""
_NAME = SUBDOMAIN, "the name of an object: lower-case letters, digits, dashes and dots", 253
ObjectName = Annotated[str, Pattern(*_NAME)]
"""The name of most objects (RFC 1123 subdomain), or empty."""
RequiredName = Annotated[str, Pattern(*_NAME, optional=False)]
"""The name of an object that must be named."""
DataKey = Annotated[
    str, Pattern(r"[-._a-zA-Z0-9]+", "a key: letters, digits, dashes, underscores and dots", 253, optional=False)
]
"""The key of an entry of a Secret or ConfigMap."""
DriverName = Annotated[
    str, Pattern(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?", "a driver's name: letters, digits, dashes and dots", 63)
]
"""The name of a CSI driver, or empty."""
AbsolutePath = Annotated[str, Pattern(rf"/[^{CONTROL}]*", "an absolute path", 4096)]
"""A path inside a container, or empty."""
MountPath = Annotated[str, Pattern(rf"/[^:{CONTROL}]+", "an absolute path without a colon, and not the root", 4096)]
"""Where something is mounted in a container, or empty."""
_IMAGE = r"[!-~]+", "an image reference of printable ASCII, without blanks", 1024
Image = Annotated[str, Pattern(*_IMAGE, optional=False)]
"""A container image reference."""
RelativePath = Annotated[
    str,
    Pattern(
        rf"\.?[^/.{CONTROL}][^/{CONTROL}]*(/\.?[^/.{CONTROL}][^/{CONTROL}]*)*",
        "a relative path without . and ..",
        4096,
        optional=False,
    ),
]
"""A path below somewhere."""
OptionalImage = Annotated[str, Pattern(*_IMAGE)]
"""A container image reference, or empty."""
Duration = Annotated[
    str,
    Pattern(
        r"[0-9]+(\.[0-9]+)?(ms|s|m|h|d)?",
        "a Flux Standard Duration (RFC 23) such as 5s, 500ms or 1.5m",
        32,
    ),
]
"""A finite Flux Standard Duration (Flux RFC 23), or empty."""
Topology = Annotated[
    str,
    Pattern(
        r"kary:[0-9]{1,9}|mincrit(:[1-9][0-9]{0,8})?|binomial",
        "a topology that Flux knows: kary:K (kary:0 is flat), mincrit, mincrit:K or binomial",
        32,
    ),
]
"""What Flux's broker attribute tbon.topo takes, apart from `custom`, which needs a configuration by hand."""

Labels = Annotated[dict[str, str], Field(max_length=64)]
"""Labels or annotations by key."""
Environment = Annotated[dict[str, str], Field(max_length=256)]
"""Environment variables by name."""
Int32 = Annotated[int, Field(ge=0, le=INT32_MAX)]
"""A number of Kubernetes' own, from 0."""
Size = Annotated[int, Field(ge=1, le=MAX_INDEXED_PODS)]
"""A number of pods."""
OptionalSize = Annotated[int | None, Field(ge=0, le=MAX_INDEXED_PODS), AfterValidator(lambda n: n or None)]
"""A number of pods; 0 means unset, as Go clients write it."""
Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""A moment as Kubernetes writes it (RFC 3339)."""


def _check_quantity(value: Any) -> int | str:
    if isinstance(value, (int, str)) and not isinstance(value, bool):
        try:
            quantity.parse(value)
        except ValueError as error:
            raise PydanticCustomError(
                "quantity", "{text}", {"text": str(error), "remedy": "write it as 2, 500m or 4Gi"}
            ) from None
        return value
    raise PydanticCustomError(
        "quantity",
        "{value} is not a quantity",
        {"value": shown(value), "remedy": 'put it in quotes, as in "0.5"'},
    )


def _check_optional_quantity(value: Any) -> int | str:
    return "" if value == "" else _check_quantity(value)


_INT_OR_STRING = {"x-kubernetes-int-or-string": True, "maxLength": quantity.MAX_LENGTH}
Quantity = Annotated[
    int | str,
    PlainValidator(_check_quantity),
    WithJsonSchema({**_INT_OR_STRING, "pattern": quantity.PATTERN}),
]
"""A Kubernetes resource quantity: a whole number or text such as 500m or 4Gi."""
OptionalQuantity = Annotated[
    int | str,
    PlainValidator(_check_optional_quantity),
    WithJsonSchema({**_INT_OR_STRING, "pattern": f"^$|{quantity.PATTERN}"}),
]
"""A Kubernetes resource quantity, or empty."""
