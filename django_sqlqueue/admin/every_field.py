"""The form field for "every so often": a number and a unit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..rhythm_words import UNITS, split

UNIT_WORDS = {
    "s": gettext_lazy("seconds"),
    "m": gettext_lazy("minutes"),
    "h": gettext_lazy("hours"),
    "d": gettext_lazy("days"),
    "w": gettext_lazy("weeks"),
}


class EveryWidget(forms.MultiWidget):
    """A number and a unit."""

    def __init__(self, **kwargs: Any):
        number = forms.NumberInput(attrs={"min": "0", "step": "any", "aria-label": _("Number")})
        unit = forms.Select(choices=list(UNIT_WORDS.items()), attrs={"aria-label": _("Unit")})
        super().__init__([number, unit], **kwargs)

    def render(self, *args: Any, **kwargs: Any) -> SafeString:
        """Return both in one line, also where the admin puts a form's parts below each other."""
        return format_html('<span class="sq-every">{}</span>', super().render(*args, **kwargs))

    def decompress(self, value: Any) -> list[Any]:
        if value is None:
            return [None, "m"]
        number, unit = split(value)
        return [f"{number:g}", unit]


class EveryField(forms.MultiValueField):
    """An interval, as a number and a unit; empty is None."""

    widget = EveryWidget

    def __init__(self, **kwargs: Any):
        fields = (
            forms.FloatField(required=False, min_value=0),
            forms.ChoiceField(choices=list(UNIT_WORDS.items()), required=False),
        )
        super().__init__(fields=fields, require_all_fields=False, **kwargs)

    def compress(self, values: list[Any]) -> timedelta | None:
        if not values or values[0] is None:
            return None
        try:
            return timedelta(seconds=values[0] * dict(UNITS)[values[1] or "m"])
        except OverflowError:
            raise forms.ValidationError(_("This is too long.")) from None
