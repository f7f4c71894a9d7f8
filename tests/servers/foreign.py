# SPDX-License-Identifier: MIT
"""Foreign clients: connections to MariaDB and PostgreSQL that know nothing of sessfs.

They are the servers' own client libraries, by ctypes, so that a test needs no package of Python.
connect(...).query(sql, parameters...) returns rows as tuples of bytes or None; a parameter is
bytes, str, a number or None, and stands for ? (MariaDB) or $1, $2 (PostgreSQL).  Each query commits
by itself unless there was a BEGIN.  A connection is for one thread; a query lets other threads run.
"""

import ctypes
import ctypes.util


class ServerError(Exception):
    """What the server, or the way to it, answers; code is MariaDB's number or an SQLSTATE."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


def load(name, file):
    """The library, or None."""
    try:
        return ctypes.CDLL(file)
    except OSError:
        found = ctypes.util.find_library(name)
        return ctypes.CDLL(found) if found else None


def declare(library, calls):
    for name, result, *arguments in calls:
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments


TEXT, POINTER, INT, LONG = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_ulong
TEXTS = ctypes.POINTER(TEXT)
NUMBER = ctypes.c_ulonglong


def encode(value):
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode()


class MariaDB:
    """A connection; named: host, port, socket, user, password, database, as far as needed."""

    library = None
    SET_CHARSET_NAME = 7

    @classmethod
    def load(cls):
        if not cls.library:
            cls.library = load("mariadb", "libmariadb.so.3")
            if cls.library:
                declare(cls.library, cls.calls)
        return cls.library

    calls = [
        ("mysql_init", POINTER, POINTER),
        ("mysql_options", INT, POINTER, INT, TEXT),
        ("mysql_real_connect", POINTER, POINTER)
        + (TEXT, TEXT, TEXT, TEXT, ctypes.c_uint, TEXT, LONG),
        ("mysql_real_escape_string", LONG, POINTER, POINTER, TEXT, LONG),
        ("mysql_real_query", INT, POINTER, TEXT, LONG),
        ("mysql_store_result", POINTER, POINTER),
        ("mysql_num_fields", ctypes.c_uint, POINTER),
        ("mysql_fetch_row", ctypes.POINTER(POINTER), POINTER),
        ("mysql_fetch_lengths", ctypes.POINTER(LONG), POINTER),
        ("mysql_free_result", None, POINTER),
        ("mysql_affected_rows", NUMBER, POINTER),
        ("mysql_errno", ctypes.c_uint, POINTER),
        ("mysql_error", TEXT, POINTER),
        ("mysql_close", None, POINTER),
    ]

    def __init__(self, **named):
        at = {name: encode(value) for name, value in named.items()}
        self.changed = 0
        self.handle = self.load().mysql_init(None)
        self.library.mysql_options(self.handle, self.SET_CHARSET_NAME, b"utf8mb4")
        if not self.library.mysql_real_connect(
            self.handle,
            at.get("host"),
            at.get("user"),
            at.get("password"),
            at.get("database"),
            named.get("port") or 0,
            at.get("socket"),
            0,
        ):
            error = self.error()
            self.close()
            raise error

    def error(self):
        text = self.library.mysql_error(self.handle).decode("utf-8", "replace")
        return ServerError(self.library.mysql_errno(self.handle), text)

    def quote(self, value):
        if value is None:
            return b"NULL"
        if isinstance(value, (int, float)):
            return encode(value)
        data = encode(value)
        room = ctypes.create_string_buffer(2 * len(data) + 1)
        size = self.library.mysql_real_escape_string(self.handle, room, data, len(data))
        return b"'" + room.raw[:size] + b"'"

    def query(self, sql, *parameters):
        parts = encode(sql).split(b"?")
        assert len(parts) == len(parameters) + 1, "a ? for each parameter"
        text = parts[0]
        for value, part in zip(parameters, parts[1:]):
            text += self.quote(value) + part
        if self.library.mysql_real_query(self.handle, text, len(text)):
            raise self.error()
        result = self.library.mysql_store_result(self.handle)
        if not result:
            if self.library.mysql_errno(self.handle):
                raise self.error()
            self.changed = self.library.mysql_affected_rows(self.handle)
            return []
        rows = []
        while row := self.library.mysql_fetch_row(result):
            sizes = self.library.mysql_fetch_lengths(result)
            width = range(self.library.mysql_num_fields(result))
            rows.append(tuple(self.cell(row[i], sizes[i]) for i in width))
        self.library.mysql_free_result(result)
        return rows

    @staticmethod
    def cell(place, size):
        return None if place is None else ctypes.string_at(place, size)

    def close(self):
        if self.handle:
            self.library.mysql_close(self.handle)
        self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class PostgreSQL:
    """A connection; named as above, with socket as the folder that holds it."""

    library = None
    COMMAND_OK, TUPLES_OK = 1, 2

    @classmethod
    def load(cls):
        if not cls.library:
            cls.library = load("pq", "libpq.so.5")
            if cls.library:
                declare(cls.library, cls.calls)
        return cls.library

    calls = [
        ("PQconnectdbParams", POINTER, TEXTS, TEXTS, INT),
        ("PQstatus", INT, POINTER),
        ("PQerrorMessage", TEXT, POINTER),
        ("PQexec", POINTER, POINTER, TEXT),
        ("PQexecParams", POINTER, POINTER, TEXT, INT, POINTER, TEXTS, POINTER, POINTER, INT),
        ("PQresultStatus", INT, POINTER),
        ("PQresultErrorField", TEXT, POINTER, INT),
        ("PQresultErrorMessage", TEXT, POINTER),
        ("PQcmdTuples", TEXT, POINTER),
        ("PQntuples", INT, POINTER),
        ("PQnfields", INT, POINTER),
        ("PQgetisnull", INT, POINTER, INT, INT),
        ("PQgetlength", INT, POINTER, INT, INT),
        ("PQgetvalue", POINTER, POINTER, INT, INT),
        ("PQclear", None, POINTER),
        ("PQfinish", None, POINTER),
    ]

    def __init__(self, **named):
        names = {"database": "dbname", "socket": "host"}
        at = {names.get(name, name): encode(value) for name, value in named.items() if value}
        keys = (TEXT * (len(at) + 1))(*[name.encode() for name in at], None)
        values = (TEXT * (len(at) + 1))(*at.values(), None)
        self.changed = 0
        self.handle = self.load().PQconnectdbParams(keys, values, 0)
        if self.library.PQstatus(self.handle) != 0:
            error = self.error()
            self.close()
            raise error

    def error(self):
        text = self.library.PQerrorMessage(self.handle).decode("utf-8", "replace")
        return ServerError("08000", text.strip())

    def query(self, sql, *parameters):
        if parameters:
            values = (TEXT * len(parameters))(*[encode(value) for value in parameters])
            result = self.library.PQexecParams(
                self.handle, encode(sql), len(parameters), None, values, None, None, 0
            )
        else:
            result = self.library.PQexec(self.handle, encode(sql))
        try:
            return self.rows(result)
        finally:
            self.library.PQclear(result)

    def rows(self, result):
        status = self.library.PQresultStatus(result)
        if status not in (self.COMMAND_OK, self.TUPLES_OK):
            code = self.library.PQresultErrorField(result, ord("C"))
            if not code:
                raise self.error()
            text = self.library.PQresultErrorMessage(result).decode("utf-8", "replace")
            raise ServerError(code.decode(), text.strip())
        self.changed = int(self.library.PQcmdTuples(result) or 0)
        width = range(self.library.PQnfields(result))
        height = range(self.library.PQntuples(result))
        return [tuple(self.cell(result, y, x) for x in width) for y in height]

    def cell(self, result, y, x):
        if self.library.PQgetisnull(result, y, x):
            return None
        place = self.library.PQgetvalue(result, y, x)
        return ctypes.string_at(place, self.library.PQgetlength(result, y, x))

    def close(self):
        if self.handle:
            self.library.PQfinish(self.handle)
        self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
