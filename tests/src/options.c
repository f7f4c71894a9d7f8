/* SPDX-License-Identifier: MIT */
#include "src/user/options.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "backend/base/cleanup.h"

/* Parses onto the defaults; the case fails when it is refused. */
static struct options parsed(const char *text)
{
	struct options options = { 0 };
	char *why = NULL;
	int r = options_parse(&options, OPTIONS_MOUNT, text, &why);

	cr_assert_eq(r, 0, "%s: %s", text, why ? why : "no reason");
	return options;
}

/* Whether a text is refused with a sentence that holds the word. */
static bool refused(const char *text, const char *word)
{
	_cleanup_(options_done) struct options options = { 0 };
	_cleanup_(freep) char *why = NULL;

	return options_parse(&options, OPTIONS_MOUNT, text, &why) == -EINVAL && why &&
	       strstr(why, word);
}

Test(options, nothing_is_set_when_nothing_is_said)
{
	/* when */
	_cleanup_(options_done) struct options options = parsed("");

	/* then */
	cr_assert_not(options.tree.read_only || options.tree.strict || options.allow_other);
	cr_assert_not(options.tree.set_uid || options.tree.set_gid || options.tree.set_umask);
	cr_assert_eq(options.tree.max_size, 0);
	cr_assert_null(options.table);
	cr_assert_eq(options.extra.size, 0);
}

Test(options, every_word_between_commas_counts)
{
	/* when */
	_cleanup_(options_done) struct options options =
		parsed("ro,strict,exact,allow_other,auto_unmount,nonempty,debug");

	/* then */
	cr_assert(options.tree.read_only && options.tree.strict && options.tree.exact &&
		  options.allow_other);
	cr_assert(options.auto_unmount && options.nonempty && options.debug);
}

Test(options, what_is_said_last_counts)
{
	/* given */
	_cleanup_(options_done) struct options options = parsed("ro,uid=1,table=first");
	char *why = NULL;

	/* when */
	int r = options_parse(&options, OPTIONS_MOUNT, "rw,uid=2,table=second", &why);

	/* then */
	cr_assert_eq(r, 0);
	cr_assert_not(options.tree.read_only);
	cr_assert_eq(options.tree.uid, 2);
	cr_assert_str_eq(options.table, "second");
}

Test(options, a_comma_in_a_value_has_a_backslash_before_it)
{
	/* when */
	_cleanup_(options_done) struct options options =
		parsed(",view=role=user\\,last=2,,table=a\\b\\\\c\\,,strict");

	/* then */
	cr_assert_str_eq(options.view, "role=user,last=2");
	cr_assert_str_eq(options.table, "a\\b\\c,");
	cr_assert(options.tree.strict);
	cr_assert(refused("view=", "clauses"));
	cr_assert(refused("view", "clauses"));
	cr_assert(refused("view=last=2,role=user", "'role=user' is unknown"));
}

Test(options, ids_and_modes_tell_that_they_were_given)
{
	/* when */
	_cleanup_(options_done) struct options options = parsed("uid=0,gid=4294967294,umask=0027");

	/* then */
	cr_assert(options.tree.set_uid && options.tree.set_gid && options.tree.set_umask);
	cr_assert_eq(options.tree.uid, 0);
	cr_assert_eq(options.tree.gid, 4294967294);
	cr_assert_eq(options.tree.umask, 027);
}

Test(options, sizes_have_units)
{
	static const struct {
		const char *text;
		uint64_t size;
	} cases[] = {
		{ "max_size=4096", 4096 },     { "max_size=1K", 1024 },
		{ "max_size=3m", 3 << 20 },    { "max_size=2G", 2ULL << 30 },
		{ "max_size=1T", 1ULL << 40 }, { "max_size=9223372036854775807", INT64_MAX },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(options_done) struct options options = parsed(cases[i].text);

		cr_assert_eq(options.tree.max_size, cases[i].size, "%s", cases[i].text);
	}
}

Test(options, values_that_make_no_sense_are_refused_by_name)
{
	static const char *const cases[] = {
		"uid=",		  "uid=me",	    "uid=-1",
		"uid=4294967295", "uid=1x",	    "gid= 1",
		"umask=8",	  "umask=01000",    "uid",
		"threads=1025",	  "max_size=",	    "max_size=K",
		"max_size=1X",	  "max_size=1KB",   "max_size=-1",
		"max_size=1 K",	  "max_size=9999P", "table=",
		"table",	  "max_size=1.5G",
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_assert(refused(cases[i], cases[i]), "%s", cases[i]);
}

Test(options, a_size_that_no_file_can_have_is_refused)
{
	cr_assert(refused("max_size=8388608T", "max_size=8388608T"));
	cr_assert(refused("max_size=9223372036854775808", "max_size"));
}

Test(options, a_value_where_none_belongs_is_refused)
{
	cr_assert(refused("ro=1", "'ro=1' takes no value"));
	cr_assert(refused("noexec=1", "'noexec=1' takes no value"));
}

Test(options, an_unknown_word_is_refused_with_a_hint_to_the_help)
{
	cr_assert(refused("ro,nonsense=1,strict", "'nonsense=1'"));
	cr_assert(refused("nonsense", "sessfs help mount"));
	/* A known word with something behind it is another word. */
	cr_assert(refused("rox", "'rox'"));
	cr_assert(refused("uids=1", "'uids=1'"));
}

Test(options, words_of_fstab_change_nothing)
{
	/* when */
	_cleanup_(options_done) struct options options =
		parsed("rw,nosuid,nodev,suid,dev,exec,noatime,user,user=somebody,users,nofail,"
		       "_netdev,auto,noauto,defaults,x-systemd.automount,x-gvfs-show,comment=x,"
		       "loud,noiversion,nolazytime,nomand,norelatime,nostrictatime,"
		       "silent,mand,iversion,X-mount.mkdir=0750");

	/* then */
	cr_assert_not(options.tree.read_only);
	cr_assert_eq(options.extra.size, 0);
}

Test(options, what_only_root_may_say_is_noted)
{
	/* when */
	_cleanup_(options_done) struct options none = parsed("dev,suid,allow_other");
	_cleanup_(options_done) struct options some = parsed("allow_dev,allow_suid,nodev");

	/* then */
	cr_assert_null(none.privileged);
	cr_assert_not(none.allow_dev || none.allow_suid);
	cr_assert_str_eq(some.privileged, "allow_suid");
	cr_assert(some.allow_dev && some.nodev && some.allow_suid && !some.nosuid);
}

Test(options, words_for_the_kernel_are_handed_on)
{
	/* when */
	_cleanup_(options_done) struct options options = parsed("noexec,ro,dirsync");

	/* then */
	cr_assert_str_eq(options.extra.data, "noexec,dirsync");
}

Test(options, a_ttl_is_a_time_or_never)
{
	/* when */
	_cleanup_(options_done) struct options options = parsed("ttl=30d,grace=0");
	_cleanup_(options_done) struct options none = parsed("ttl=30d,ttl=never");

	/* then */
	cr_assert_eq(options.tree.ttl, 30LL * 86400 * 1000000000);
	cr_assert(options.set_grace && options.tree.grace == 0);
	cr_assert(none.tree.ttl == 0 && !none.set_grace);
	cr_assert(refused("ttl=30q", "'ttl=30q'"));
	cr_assert(refused("ttl=-1d", "'ttl=-1d'"));
	cr_assert(refused("ttl=999999999y", "ttl=30d"));
	cr_assert(refused("ttl", "'ttl'"));
	cr_assert(refused("history=never", "'history=never'"), "it is not for ever");
	cr_assert(refused("grace=never", "'grace=never'"));
}

Test(options, a_command_takes_those_that_it_can_honour)
{
	static const struct {
		enum options_user user;
		const char *text;
		const char *word; /* of the refusal; NULL: it is taken */
	} cases[] = {
		{ OPTIONS_READER, "table=t", NULL },
		{ OPTIONS_READER, "strict", "takes table=" },
		{ OPTIONS_READER, "ro", "is for mounts" },
		{ OPTIONS_READER, "noatime", "is for mounts" },
		{ OPTIONS_WRITER, "x-systemd.automount", "is for mounts" },
		{ OPTIONS_WRITER, "table=t,strict,exact", NULL },
		{ OPTIONS_WRITER, "max_size=1G", "takes table=, strict, exact" },
		{ OPTIONS_WRITER, "strict,ttl=1d", "'ttl=1d'" },
		{ OPTIONS_WRITER, "nonsense", "is unknown" },
		{ OPTIONS_MOUNT, "threads=0", "from 1" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_(options_done) struct options options = { 0 };
		_cleanup_(freep) char *why = NULL;
		int r = options_parse(&options, cases[i].user, cases[i].text, &why);

		cr_assert_eq(r, cases[i].word ? -EINVAL : 0, "%s: %d", cases[i].text, r);
		cr_assert(!cases[i].word || (why && strstr(why, cases[i].word)), "%s: %s",
			  cases[i].text, why ? why : "no reason");
	}
}
