"""What the driver alone can do on the same table: the least that a queue has to do."""

from typing import Any

from django.db import connection

from ._measure import KIND

LANE = "status = 'ready' AND kind = %s AND queue = 'default' AND priority = 0"
CLAIMED = "status = 'running', claims = claims + 1, attempts = attempts + 1, lease_owner = 'raw'"
SETTLED = "status = 'done', lease_until = NULL, lease_owner = NULL"

POSTGRESQL = {
    "claim": (
        "WITH due AS MATERIALIZED (SELECT id FROM django_sqlqueue_job"
        f" WHERE {LANE} AND run_at <= now() ORDER BY run_at, id LIMIT %s FOR UPDATE SKIP LOCKED)"
        f" UPDATE django_sqlqueue_job AS job SET {CLAIMED}, lease_until = now() + interval '30 s'"
        " FROM due WHERE job.id = due.id RETURNING job.id, job.kind, job.payload"
    ),
    "complete": f"UPDATE django_sqlqueue_job SET {SETTLED}, finished_at = now() WHERE id = ANY(%s)",
}
SQLITE = {
    "claim": (
        f"UPDATE django_sqlqueue_job SET {CLAIMED}, lease_until = DATETIME('now', '+30 seconds')"
        f" WHERE id IN (SELECT id FROM django_sqlqueue_job WHERE {LANE} AND run_at <="
        " STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'now') ORDER BY run_at, id LIMIT %s)"
        " RETURNING id, kind, payload"
    ),
    "complete": f"UPDATE django_sqlqueue_job SET {SETTLED}, finished_at = DATETIME('now')",
}
MARIADB = {
    "find": (
        f"SELECT id, kind, payload FROM django_sqlqueue_job WHERE {LANE}"
        " AND run_at <= UTC_TIMESTAMP(6) ORDER BY run_at, id LIMIT %s FOR UPDATE SKIP LOCKED"
    ),
    "claim": (
        f"UPDATE django_sqlqueue_job SET {CLAIMED},"
        " lease_until = UTC_TIMESTAMP(6) + INTERVAL 30 SECOND"
    ),
    "complete": f"UPDATE django_sqlqueue_job SET {SETTLED}, finished_at = UTC_TIMESTAMP(6)",
}
INSERT = "INSERT INTO django_sqlqueue_job (kind, payload) VALUES (%s, %s)"


class RawLoop:
    """A connection of the driver's own, with the parameters that Django gives it."""

    def __init__(self) -> None:
        self.driver: Any = connection.get_new_connection(connection.get_connection_params())
        self.vendor = connection.vendor
        if self.vendor == "postgresql":
            self.driver.autocommit = True
        elif self.vendor == "mysql":
            self.driver.autocommit(False)
        else:
            self.driver.isolation_level = None

    def drain(self, size: int) -> None:
        """Claim so many and complete them, until none is left."""
        cursor = self.driver.cursor()
        turn = {"postgresql": self._postgresql, "sqlite": self._sqlite, "mysql": self._mariadb}
        while turn[self.vendor](cursor, size):
            pass

    def insert_some(self, rows: int) -> None:
        """Insert rows one by one, each with a commit."""
        cursor = self.driver.cursor()
        sql = INSERT.replace("%s", "?") if self.vendor == "sqlite" else INSERT
        for n in range(rows):
            cursor.execute(sql, (KIND, f'{{"n":{n}}}'))
            if self.vendor == "mysql":
                self.driver.commit()

    def _postgresql(self, cursor: Any, size: int) -> bool:
        cursor.execute(POSTGRESQL["claim"], (KIND, size))
        ids = [row[0] for row in cursor.fetchall()]
        cursor.execute(POSTGRESQL["complete"], (ids,))
        return bool(ids)

    def _sqlite(self, cursor: Any, size: int) -> bool:
        claim = SQLITE["claim"].replace("%s", "?").replace("%%", "%")
        ids = [row[0] for row in cursor.execute(claim, (KIND, size)).fetchall()]
        cursor.execute(f"{SQLITE['complete']} WHERE id IN ({_places('?', ids)})", ids)
        return bool(ids)

    def _mariadb(self, cursor: Any, size: int) -> bool:
        cursor.execute(MARIADB["find"], (KIND, size))
        ids = [row[0] for row in cursor.fetchall()]
        if ids:
            where = f" WHERE id IN ({_places('%s', ids)})"
            cursor.execute(MARIADB["claim"] + where, ids)
            self.driver.commit()
            cursor.execute(MARIADB["complete"] + where, ids)
        self.driver.commit()
        return bool(ids)


def _places(place: str, ids: list[int]) -> str:
    return ", ".join([place] * len(ids))
