"""The rules of the API server for one object: selectors, patches and errors."""

from __future__ import annotations

import re
from typing import Any

Object = dict[str, Any]

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class ApiError(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason or REASONS[code]

    def status(self) -> Object:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        }


def check_name(name: Any) -> None:
    if not isinstance(name, str) or len(name) > 253 or not NAME.fullmatch(name):
        raise ApiError(422, f"metadata.name: Invalid value: {name!r}")


REQUIREMENT = re.compile(
    r"\s*(?:(?P<absent>!)\s*)?(?P<key>[\w./-]+)\s*"
    r"(?:(?P<compare>==?|!=)\s*(?P<value>[\w.-]*)|\s(?P<set>in|notin)\s*\((?P<values>[^)]*)\))?\s*"
)


def matches_labels(item: Object, selector: str) -> bool:
    labels = item["metadata"].get("labels") or {}
    parts = re.split(r",(?![^(]*\))", selector) if selector else []
    return all(meets(labels, part) for part in parts)


def meets(labels: dict[str, str], part: str) -> bool:
    found = REQUIREMENT.fullmatch(part)
    if not found:
        raise ApiError(400, f"unable to parse requirement: {part}")
    value = labels.get(found["key"])
    if found["compare"]:
        return (value == found["value"]) is (found["compare"] != "!=")
    if found["set"]:
        values = [each.strip() for each in found["values"].split(",")]
        return (value in values) is (found["set"] == "in")
    return (value is None) is bool(found["absent"])


FIELDS = ("metadata.name", "metadata.namespace", "spec.nodeName", "status.phase")
FIELDS_OF_EVENTS = ("reason", "type")


def matches_fields(item: Object, selector: str) -> bool:
    return all(has_field(item, part) for part in (selector.split(",") if selector else []))


def has_field(item: Object, part: str) -> bool:
    key, operator, value = re.split(r"(!=|==?)", part, maxsplit=1)
    known = (*FIELDS, *(FIELDS_OF_EVENTS if "involvedObject" in item else ()))
    if key not in known and not key.startswith("involvedObject."):
        raise ApiError(400, f"field label not supported: {key}")
    found: Any = item
    for name in key.split("."):
        found = found.get(name, "") if isinstance(found, dict) else ""
    return bool(found == value) is (operator != "!=")


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386: a null removes, an object is merged, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def put_status(old: Object, changed: Object, subresource: str) -> Object:
    """A request to /status changes only the status, and any other request all but that."""
    if subresource == "status":
        return {**old, "status": changed.get("status", {})}
    result = {**changed}
    result.pop("status", None)
    if "status" in old:
        result["status"] = old["status"]
    return result
