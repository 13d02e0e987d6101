"""The catalogue: German is complete, compiled from its source, and shown."""

import ast
import gettext
import re
from pathlib import Path

from django.test import SimpleTestCase, override_settings
from django.urls import reverse
from django.utils import translation
from django.utils.translation.template import templatize

from django_sqlqueue.explanation import explain
from django_sqlqueue.models import Job, PausedQueue

from .base import JOBS, OVERVIEW, SCHEDULES, AdminTestCase, failed, job_url
from .test_schedules import ADD

PACKAGE = Path(explain.__code__.co_filename).parent
GERMAN = PACKAGE / "locale" / "de" / "LC_MESSAGES"
LEFT_TO_DJANGO = {"Home", "History", "No, take me back", "Show all", "Clear selection"}


def entries():
    """Return (source, translations) of the catalogue's source."""
    for block in (GERMAN / "django.po").read_text().split("\n\n")[1:]:
        found = dict(re.findall(r'^(msgid|msgid_plural|msgstr(?:\[\d\])?) "(.*)"$', block, re.M))
        yield found["msgid"], [text for key, text in found.items() if key.startswith("msgstr")]


MARKS = ("gettext", "gettext_lazy", "ngettext", "ngettext_lazy", "_")


def texts_of_the_code():
    """Yield every text that the package's modules and templates mark as translatable."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            marked = isinstance(node, ast.Call) and getattr(node.func, "id", "") in MARKS
            if marked and isinstance(text := getattr(node.args[0], "value", None), str):
                yield text
    for path in sorted(PACKAGE.rglob("templates/**/*.html")):
        for _mark, text in re.findall(r"(gettext|_)\(u?'(.*?)'[,)]", templatize(path.read_text())):
            yield text


class Catalogue(SimpleTestCase):
    def test_every_text_of_the_code_is_in_it(self):
        sources = {source.replace('\\"', '"') for source, _texts in entries()}
        found = set(texts_of_the_code())
        self.assertLessEqual({"Why jobs failed", "%(count)d job moved", "job and ref"}, found)
        self.assertEqual(found - sources, set())

    def test_every_text_is_translated(self):
        missing = {source for source, texts in entries() if not all(texts)}
        self.assertEqual(missing, LEFT_TO_DJANGO)

    def test_it_was_compiled_from_its_source(self):
        with (GERMAN / "django.mo").open("rb") as compiled:
            known = gettext.GNUTranslations(compiled)._catalog
        translated = {text for _source, texts in entries() for text in texts if text}
        self.assertEqual(translated - {text.replace('"', '\\"') for text in known.values()}, set())

    def test_placeholders_are_those_of_the_source(self):
        for source, texts in entries():
            wanted = sorted(re.findall(r"%(?:\(\w+\))?[sd]", source))
            for text in texts:
                found = sorted(re.findall(r"%(?:\(\w+\))?[sd]", text))
                if text and not source.startswith("every "):
                    self.assertEqual(found, wanted, source)


@override_settings(LANGUAGE_CODE="de", USE_I18N=True)
class German(AdminTestCase):
    def test_the_pages_are_german(self):
        job = failed()
        expected = {
            JOBS: ("Aufträge", "gescheitert", "1 von 1"),
            OVERVIEW: ("Warum Aufträge scheiterten", "längste Wartezeit"),
            job_url(job): ("Er ist endgültig gescheitert", "Wiederholen", "Was geschah"),
        }
        for url, texts in expected.items():
            page = self.client.get(url)
            for text in texts:
                self.assertContains(page, text)

    def test_forms_and_columns_have_german_titles(self):
        job = Job.objects.schedule("nightly", "testapp.noop", every=60)
        PausedQueue.objects.pause("mail")
        labels = (">Art:<", ">Alle:<", ">Zeitzone:<", ">Warteschlange:<", ">Priorität:<")
        expected = {
            ADD: labels,
            reverse("admin:django_sqlqueue_schedule_change", args=[job.pk]): labels,
            SCHEDULES: (">Art<", ">Letzter Ausgang<"),
            reverse("admin:django_sqlqueue_pausedqueue_changelist"): (">Angehalten seit<",),
        }
        for url, texts in expected.items():
            page = self.client.get(url)
            for text in texts:
                self.assertContains(page, text)

    def test_messages_are_german_and_the_explanation_too(self):
        job = failed()
        response = self.act("retry", [job])
        self.assertEqual(self.messages(response), ["1 Auftrag wiederholt."])
        with translation.override("de"):
            sentence = explain(Job.objects.get(pk=job.pk)).sentence
        self.assertIn("Kein Worker läuft", sentence)
