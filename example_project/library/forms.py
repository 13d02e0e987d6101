"""What a visitor may type."""

from django import forms


class SearchForm(forms.Form):
    """The words to look for."""

    q = forms.CharField(
        label="Search the library",
        max_length=200,
        required=False,
        widget=forms.TextInput(
            attrs={
                "type": "search",
                "placeholder": "parse json, compress a file, …",
                "autofocus": True,
                "aria-label": "Words to look for",
            }
        ),
    )
