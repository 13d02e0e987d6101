// Sends the next batch of a long operation by itself; without scripts its button does.
"use strict";
document.querySelectorAll("form[data-sq-go-on]").forEach((form) => form.submit());
