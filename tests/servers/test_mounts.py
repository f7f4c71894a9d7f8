#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""What mounts of stores in files are asked for, asked of stores on a server: cases of tests/mount,
each with databases of its own on the server of the run.

  SESSFS_TEST_KIND     mysql (if not given), postgresql or redis
  SESSFS_MOUNTS_CASES  all: not only those that are named here
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import resp  # noqa: E402
import servers  # noqa: E402
from servers import harness  # noqa: E402
import test_compact  # noqa: E402
import test_events  # noqa: E402
import test_files  # noqa: E402
import test_lines  # noqa: E402
import test_posix  # noqa: E402
import test_search  # noqa: E402
import test_stress  # noqa: E402
import test_views  # noqa: E402
import test_views_documents  # noqa: E402
import test_views_items  # noqa: E402

KIND = os.environ.get("SESSFS_TEST_KIND", "mysql")
MODULES = (
    test_compact,
    test_events,
    test_files,
    test_lines,
    test_posix,
    test_search,
    test_stress,
    test_views,
    test_views_documents,
    test_views_items,
)

# What a server cannot be asked for: it does not say how much room it has, and its ids have 255
# characters at the most in AgentScope's table on MariaDB, whose packets have 16 MiB.
ROOM = {
    "test_statvfs_tells_the_room_of_the_medium",
    "test_statvfs_is_the_same_everywhere_and_follows_what_is_written",
    "test_more_than_there_is_cannot_be_allocated",
    "test_space_that_is_not_there_is_not_allocated",
}
# Its index is not beside it.
BESIDE = {
    "test_random_words_are_found_as_grep_finds_them",
    "test_rows_of_sql_that_nobody_has_taken_in",
    "test_an_index_that_is_not_what_was_left_is_made_anew",
    "test_an_index_that_its_disk_has_damaged_is_made_anew",
    "test_what_is_no_index_is_left_alone",
    "test_a_store_that_nobody_may_write_beside",
    "test_a_store_of_the_same_name_has_another_index",
    "test_who_is_killed_leaves_nothing_wrong",
    "test_without_a_place_beside_the_store_it_is_in_the_cache",
    "test_the_first_time_takes_little_memory_and_shows_how_far_it_is",
}
# They use what SQLite alone has: its functions, a store in UTF-16, any text as a time; or that
# nothing is said of a server that does not sync.
SQLITE = {
    "test_lines_of_no_known_time_are_asked_for_by_none",
    "test_the_command_without_a_mount",
    "test_random_questions_show_what_a_reference_says",
    "test_what_cannot_be_told_of_another_mount_is_lost",
}
# Ten thousand questions and more, one after the other.
LONG = {
    "test_a_listing_beside_endless_renames_ends",
}
OTHERS = {
    "mysql": ROOM | BESIDE | SQLITE | LONG | {
        "test_names_that_are_too_long_are_refused_and_the_longest_work",
        "test_paths_reach_path_max_and_trees_go_deeper",
        "test_a_key_may_be_as_long_as_a_path",
        "test_a_line_of_100_megabytes_comes_back_the_same",
        "test_a_line_above_the_limit_of_the_store_is_refused_before_it_is_taken",
    },
    "postgresql": ROOM | BESIDE | SQLITE | LONG | {
        "test_a_line_above_the_limit_of_the_store_is_refused_before_it_is_taken",
    },
    # Its rows have no times.
    "redis": ROOM | BESIDE | SQLITE | LONG
    | {"test_the_score_is_bm25", "test_who_asks_says_which"},
}[KIND]

# Each about something that the store does by itself: those in which others take part, which are
# played on both servers;
SHARED = {
    "test_names_of_any_bytes_are_kept",
    "test_renaming_a_session_or_a_folder_moves_the_keys_of_its_rows",
    "test_the_piece_of_a_killed_writer_joins_the_file",
    "test_views_of_two_mounts",
    "test_other_programs_at_the_rows",
    "test_beside_another_mount",
    "test_appenders_compactors_and_readers_of_two_mounts_at_once",
    "test_items_on_two_mounts",
    "test_documents_of_two_mounts_and_of_sql",
    "test_changes_by_sql",
    "test_changes_by_another_mount",
    "test_what_other_mounts_and_sql_append_is_told_once_and_in_order",
}
# those of one mount, which are played on one of the SQL servers, and in a soak on both;
ALONE = [
    "test_sessions_of_any_name_hold_their_files",
    "test_names_whose_keys_collide_both_work_and_deleting_one_leaves_the_other",
    "test_renames_behave_as_on_a_local_filesystem",
    "test_state_files_become_ordinary_and_ordinary_files_become_state_by_rename",
    "test_exchanging_two_sessions_exchanges_their_rows",
    "test_modes_owners_times_and_attributes_survive_mounting_again",
    "test_sparse_files_tell_where_their_data_is",
    "test_links_to_files_of_every_kind_count_and_share_an_inode",
    "test_what_is_unlinked_and_open_is_still_a_whole_file",
    "test_holes_are_found_from_everywhere",
    "test_the_last_lines",
    "test_lines_by_when_they_were_made",
    "test_the_version_of_a_list_moves_with_each_change_but_an_append",
    "test_a_question_of_a_version_is_stale_when_that_has_moved",
    "test_what_comes_meanwhile_stays_behind",
]
# and those that take seconds, which are for a soak.
LENGTHY = {
    "test_random_operations_on_lists_equal_those_on_a_local_filesystem",
    "test_items_that_hold_all_words",
    "test_who_asks_says_which",
    "test_what_is_told_of_a_hit",
    "test_whatever_changes_is_known_to_who_asks",
}
CHOSEN = SHARED | set(ALONE[KIND == "postgresql" :: 2])
if harness.SOAK or KIND == "redis":
    CHOSEN |= set(ALONE)
if harness.SOAK:
    CHOSEN |= LENGTHY - OTHERS


class Mount(harness.Mount):
    """SQL is said as another client of the server says it."""

    def ask(self, query, *parameters):
        if KIND == "redis":
            raise harness.Skip("it speaks SQL")
        if KIND == "postgresql":
            for number in range(len(parameters)):
                query = query.replace("?", f"${number + 1}", 1)
        with self.box.bases[self.store].connect() as client:
            return client.query(query, *parameters)

    def sql(self, query, parameters=()):
        """Numbers, or statements that return nothing."""
        return [tuple(map(int, row)) for row in self.ask(query, *parameters)]

    def rows(self, session, key):
        if KIND == "redis":
            return self.box.bases[self.store].rows(session, key)
        where = "session_id = ? AND state_key = ? ORDER BY item_index"
        query = f"SELECT state_data FROM {harness.TABLE} WHERE {where}"
        return [row[0] for row in self.ask(query, session, key)]

    def stamps(self, session, key):
        where = "session_id = ? AND state_key = ? ORDER BY item_index"
        query = f"SELECT item_index, created_at, updated_at FROM {harness.TABLE} WHERE {where}"
        return self.ask(query, session, key)

    def keys(self):
        query = f"SELECT DISTINCT session_id, state_key FROM {harness.TABLE} ORDER BY 1, 2"
        return self.ask(query)


class Keys:
    """Those of one store on Redis."""

    def __init__(self, server, prefix):
        self.server, self.prefix = server, prefix
        self.url = server.url(prefix=prefix)

    def rows(self, session, key):
        place = self.prefix + f"{session}:{key}"
        if key.endswith(":_hash"):
            place = place[: -len(":_hash")] + ":list:_hash"
        with self.server.connect() as client:
            single = client("GET", place)
            items = [single] if single is not None else client("LRANGE", place + ":list", 0, -1)
        return items


class Box(harness.Box):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.bases = {}
        self.server = None

    def new_store(self):
        if KIND == "redis":
            self.server = self.server or resp.start(self)
            base = Keys(self.server, f"store{len(self.bases)}:")
        else:
            self.server = self.server or servers.start(self, KIND)
            base = self.server.database()
        self.bases[base.url] = base
        return base.url


def cases():
    everything = os.environ.get("SESSFS_MOUNTS_CASES") == "all"
    for module in MODULES:
        for name, function in vars(module).items():
            wanted = name in CHOSEN or (everything and name not in OTHERS)
            if name.startswith("test_") and wanted and callable(function):
                yield name, function


def main():
    harness.Mount, harness.Box = Mount, Box
    chosen = list(cases())
    assert len(dict(chosen)) == len(chosen), "two cases of one name"
    try:
        (resp if KIND == "redis" else servers).need(KIND)
    except harness.Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    servers.main(dict(chosen))


if __name__ == "__main__":
    main()
