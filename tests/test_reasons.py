"""What is said of a failure: classes and places in the code, bounded, and never content."""

import os
from datetime import timedelta

from django.test import SimpleTestCase

from django_sqlqueue import reasons

HERE = os.path.basename(__file__)


def raised(
    error: BaseException, depth: int = 0, cause: BaseException | None = None
) -> BaseException:
    """Return the error as it is caught after having been raised so many calls deep."""

    def fall(left: int) -> None:
        if left:
            fall(left - 1)
        raise error from cause

    try:
        fall(depth)
    except BaseException as caught:
        return caught
    raise AssertionError


class OneLineTests(SimpleTestCase):
    def test_a_reason_is_one_line_of_at_most_200_characters(self):
        for given, expected in (
            ("plain", "plain"),
            ("  trimmed \n", "trimmed"),
            ("a\r\n\tb", "a b"),
            ("a\u2028b\u2029c\x85d\x1be", "a b c d e"),
            ("nul\x00", "nul\\x00"),
            ("\ud800", "\\ud800"),
            ("🐘" * 300, "🐘" * 200),
            ("", ""),
            (None, "None"),
            (timedelta(1), "1 day, 0:00:00"),
        ):
            with self.subTest(repr(given)[:30]):
                self.assertEqual(reasons.one_line(given), expected)


class ClassifyTests(SimpleTestCase):
    def test_a_class_goes_by_its_dotted_name_and_a_builtin_by_its_bare_one(self):
        class Inner(Exception):
            pass

        for error, name in (
            (KeyError("k"), "KeyError"),
            (OSError(2, "no such file"), "FileNotFoundError"),
            (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), "UnicodeDecodeError"),
            (Inner(), f"{__name__}.ClassifyTests"),
        ):
            with self.subTest(name):
                self.assertTrue(reasons.classify(error).startswith(name))

    def test_the_first_classifier_that_knows_it_names_it(self):
        handlers = {KeyError: "ours"}

        def projects(error):
            return "theirs"

        self.assertEqual(reasons.classify(KeyError(), handlers, projects), "ours")
        self.assertEqual(reasons.classify(ValueError(), handlers, projects), "theirs")
        self.assertEqual(reasons.classify(ValueError(), None, None), "ValueError")

    def test_the_nearest_base_class_names_it(self):
        classify = {Exception: "any", LookupError: "lookup", OSError: "os"}
        self.assertEqual(reasons.classify(KeyError(), classify), "lookup")
        self.assertEqual(reasons.classify(FileNotFoundError(), classify), "os")
        self.assertEqual(reasons.classify(ValueError(), classify), "any")

    def test_an_answer_that_is_no_name_is_none(self):
        for answer in (None, "", 5, ["x"], b"x", object()):
            with self.subTest(repr(answer)[:20]):
                named = reasons.classify(ValueError(), lambda error, answer=answer: answer)
                self.assertEqual(named, "ValueError")

    def test_a_classifier_that_fails_is_passed_over(self):
        def broken(error):
            raise SystemExit(str(error))

        self.assertEqual(reasons.classify(ValueError(), broken, {ValueError: "known"}), "known")


class TraceTests(SimpleTestCase):
    def test_it_names_files_lines_functions_and_classes(self):
        lines = reasons.trace(raised(ValueError("secret"), depth=2)).splitlines()
        self.assertEqual(lines[-1], "ValueError")
        self.assertEqual(len(lines), 5)
        for line, function in zip(lines, ["raised", *["raised.<locals>.fall"] * 3], strict=False):
            self.assertRegex(line, rf"^  .*{HERE}:\d+ in {function}$")

    def test_it_holds_no_message_no_argument_and_no_source_line(self):
        for error in (ValueError("secret"), KeyError("secret"), OSError(5, "secret", "secret")):
            error.add_note("secret")
            self.assertNotIn("secret", reasons.trace(raised(error)))
            self.assertNotIn("raise error", reasons.trace(raised(error)))

    def test_messages_are_there_where_they_are_asked_for(self):
        text = reasons.trace(raised(ValueError("wrong\x00 \ud800 number")), messages=True)
        self.assertTrue(text.endswith("ValueError: wrong\\x00 \\ud800 number\n"))

    def test_a_message_that_cannot_be_read_is_said_to_be_so(self):
        class Unspeakable(Exception):
            def __str__(self):
                raise KeyError

        text = reasons.trace(raised(Unspeakable()), messages=True)
        self.assertIn("could not be read", text)

    def test_causes_stand_before_what_they_caused(self):
        text = reasons.trace(raised(ValueError("b"), cause=raised(KeyError("a"))))
        self.assertLess(text.index("KeyError"), text.index("direct cause"))
        self.assertLess(text.index("direct cause"), text.index("ValueError"))

    def test_an_exception_during_the_handling_of_another_shows_both(self):
        try:
            try:
                raise KeyError
            except KeyError:
                raise ValueError  # noqa: B904
        except ValueError as error:
            text = reasons.trace(error)
        self.assertLess(text.index("KeyError"), text.index("during whose handling"))
        self.assertTrue(text.endswith("ValueError\n"))

    def test_a_suppressed_context_is_left_out(self):
        try:
            try:
                raise KeyError
            except KeyError:
                raise ValueError from None
        except ValueError as error:
            self.assertNotIn("KeyError", reasons.trace(error))

    def test_a_group_names_the_classes_that_it_holds(self):
        group = ExceptionGroup("secret", [ValueError("secret"), KeyError("secret")])
        text = reasons.trace(raised(group))
        self.assertIn("ExceptionGroup\n  holding ValueError, KeyError\n", text)
        self.assertNotIn("secret", text)

    def test_a_cycle_of_causes_ends(self):
        one, other = raised(ValueError()), raised(KeyError())
        one.__cause__, other.__cause__ = other, one
        self.assertEqual(reasons.trace(one).count("ValueError"), 1)

    def test_it_is_bounded_and_keeps_the_end(self):
        chain: BaseException | None = None
        for _ in range(300):
            chain = raised(RuntimeError("x" * 5_000), depth=20, cause=chain)
        last = raised(ValueError("ß" * 30_000_000), depth=950, cause=chain)
        for messages in (False, True):
            with self.subTest(messages=messages):
                text = reasons.trace(last, messages=messages)
                self.assertLess(len(text.encode()), 20_000)
                self.assertIn("\nValueError", text)
                self.assertIn("RuntimeError", text)
                self.assertEqual(text, text.encode().decode())

    def test_an_exception_that_was_never_raised_has_no_frames(self):
        self.assertEqual(reasons.trace(ValueError("secret")), "ValueError\n")
