"""A form field for a payload: JSON as people type it."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.utils.translation import gettext as _


class PayloadField(forms.Field):
    """Takes any JSON; an empty text is an empty object. What a payload may hold, enqueue checks."""

    def __init__(self, *, rows: int = 16, **kwargs: Any):
        attributes = {"rows": rows, "cols": 80, "class": "sq-json", "spellcheck": "false"}
        kwargs.setdefault("widget", forms.Textarea(attrs=attributes))
        kwargs.setdefault("required", False)
        super().__init__(**kwargs)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare the values, as a browser changes the ends of the lines."""
        try:
            return bool(self.to_python(initial) != self.to_python(data))
        except forms.ValidationError:
            return initial != data

    def to_python(self, value: Any) -> Any:
        if not (value or "").strip():
            return {}
        try:
            return json.loads(value)
        except (ValueError, RecursionError) as error:
            where = f" ({error})" if isinstance(error, json.JSONDecodeError) else ""
            raise forms.ValidationError(_("This is not JSON.") + where) from None
