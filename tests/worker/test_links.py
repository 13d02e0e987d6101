"""A link that is cut without a word: connections end in time, and options of the project stay."""

import socket
from contextlib import closing
from types import SimpleNamespace

from django.db import connection, connections
from django.test import SimpleTestCase

from django_sqlqueue.engines import engine_for
from django_sqlqueue.engines.link import SILENCE, Link
from django_sqlqueue.models import Job
from django_sqlqueue.worker.links import that_end_in_silence
from tests.worker.base import RunnerTestCase

USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", None)


def option(link, number):
    return link.getsockopt(socket.IPPROTO_TCP, number)


class SocketTests(SimpleTestCase):
    def setUp(self):
        super().setUp()
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            self.link = socket.create_connection(server.getsockname())
        self.addCleanup(self.link.close)

    def end_in_silence(self, link):
        Link(SimpleNamespace(connection=link)).end_in_silence()

    def test_the_kernel_asks_whether_the_server_is_there_and_ends_a_silent_link(self):
        self.end_in_silence(self.link)
        self.assertEqual(self.link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), 1)
        asked = option(self.link, socket.TCP_KEEPIDLE)
        again = option(self.link, socket.TCP_KEEPINTVL) * option(self.link, socket.TCP_KEEPCNT)
        self.assertLessEqual(asked + again, SILENCE)
        if USER_TIMEOUT:
            self.assertEqual(option(self.link, USER_TIMEOUT), SILENCE * 1000)

    def test_what_the_project_has_set_stays(self):
        self.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 2)
        if USER_TIMEOUT:
            self.link.setsockopt(socket.IPPROTO_TCP, USER_TIMEOUT, 60_000)
        self.end_in_silence(self.link)
        self.assertEqual(option(self.link, socket.TCP_KEEPIDLE), 2)
        if USER_TIMEOUT:
            self.assertEqual(option(self.link, USER_TIMEOUT), 60_000)

    def test_a_link_that_is_no_tcp_is_let_alone(self):
        ours, theirs = socket.socketpair()
        with closing(ours), closing(theirs):
            self.end_in_silence(ours)
            self.assertEqual(ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), 0)
        self.end_in_silence(object())


class WorkersLinksTests(RunnerTestCase):
    def test_connections_of_a_worker_and_its_handlers_end_in_silence(self):
        seen = {}

        def look(job):
            connection.ensure_connection()
            fileno = getattr(connection.connection, "fileno", None)
            if fileno is not None:
                with socket.socket(fileno=fileno()) as link:
                    seen["tcp"] = link.family in (socket.AF_INET, socket.AF_INET6)
                    seen["idle"] = option(link, socket.TCP_KEEPIDLE) if seen["tcp"] else None
                    link.detach()
            seen["options"] = dict(connection.settings_dict["OPTIONS"])

        self.handle("test.look", look)
        Job.objects.enqueue("test.look")
        self.drain(threads=1)
        if seen.get("tcp"):
            self.assertLess(seen["idle"], SILENCE)
        for name, value in engine_for(connection).unless_set.items():
            self.assertEqual(seen["options"][name], value)
        self.assertNotIn("connect_timeout", connection.settings_dict["OPTIONS"])

    def test_options_of_the_project_stay_and_those_of_a_worker_go_with_it(self):
        options = connections.settings["default"]["OPTIONS"]
        before = dict(options)
        with that_end_in_silence():
            for name, value in engine_for(connection).unless_set.items():
                self.assertEqual(options[name], value)
        self.assertEqual(options, before)
        own = dict.fromkeys(engine_for(connection).unless_set, 3)
        options.update(own)
        try:
            with that_end_in_silence():
                self.assertEqual(options, {**before, **own})
            self.assertEqual(options, {**before, **own})
        finally:
            for name in own:
                del options[name]
