/* SPDX-License-Identifier: MIT */
#include "src/user/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "fs/base/layout.h"
#include "fs/base/ttl.h"
#include "backend/base/cleanup.h"
#include "src/user/units.h"

struct option_row;
typedef int option_fn(struct options *options, const struct option_row *row, const char *value);

/* An option: its name, its meaning, the form of its value. */
struct option_kind {
	option_fn *take;   /* -EINVAL: the value does not have this form */
	const char *value; /* in words; NULL: none */
	int base;	   /* of a number, which is between these; most: of a flag, what it is */
	uint64_t least, most;
	unsigned users; /* the commands besides mount that honour it; enum options_user */
};

struct option_row {
	const char *name; /* with a '=' when it has a value */
	const struct option_kind *kind;
	size_t place;	  /* of struct options */
	size_t given;	  /* offset of the bool that says that the option was given; 0: none */
	const char *help; /* NULL: not worth a line in the help */
};

static void *field_at(struct options *options, size_t place)
{
	return (char *)options + place;
}

/* With nothing behind it, to a field of 32 bits. */
static int take_number(struct options *options, const struct option_row *row, const char *value)
{
	const struct option_kind *kind = row->kind;
	uint64_t number;
	char *end;
	int r = units_number(value, kind->base, kind->most, &number, &end);

	if (r < 0 || *end || number < kind->least)
		return -EINVAL;
	*(uint32_t *)field_at(options, row->place) = (uint32_t)number;
	return 0;
}

static int take_flag(struct options *options, const struct option_row *row, const char *value)
{
	(void)value;
	*(bool *)field_at(options, row->place) = row->kind->most;
	return 0;
}

static int take_size(struct options *options, const struct option_row *row, const char *value)
{
	return units_size(value, field_at(options, row->place));
}

static int take_ttl(struct options *options, const struct option_row *row, const char *value)
{
	return ttl_parse(bytes_str(value), field_at(options, row->place));
}

/* For which "never" would be the contrary of what it says: that nothing is kept. */
static int take_duration(struct options *options, const struct option_row *row, const char *value)
{
	return duration_parse(bytes_str(value), field_at(options, row->place));
}

static int take_layout(struct options *options, const struct option_row *row, const char *value)
{
	return layouts_parse(value, field_at(options, row->place));
}

static int take_text(struct options *options, const struct option_row *row, const char *value)
{
	char **field = field_at(options, row->place);
	char *copy;

	if (!*value)
		return -EINVAL;
	copy = bytes_dup(bytes_str(value));
	if (!copy)
		return -ENOMEM;
	free(*field);
	*field = copy;
	return 0;
}

static int take_extra(struct options *options, const struct option_row *row, const char *value)
{
	struct buf *extra = &options->extra;

	(void)value;
	if (extra->size)
		extra->data[extra->size - 1] = ',';
	return buf_join(extra, bytes_str(row->name), BYTES("\0"));
}

static int take_privileged(struct options *options, const struct option_row *row, const char *value)
{
	options->privileged = row->name;
	return take_flag(options, row, value);
}

static const struct option_kind option_yes = { .take = take_flag, .most = true };
static const struct option_kind option_writers = { .take = take_flag,
						   .most = true,
						   .users = OPTIONS_WRITER };
static const struct option_kind option_no = { .take = take_flag, .most = false };
/* The kernel uses the highest number for "no id". */
static const struct option_kind option_id = { take_number, "a number (uid=1000)", 10,
					      .most = UINT32_MAX - 1 };
static const struct option_kind option_mode = { take_number, "an octal number (umask=027)", 8,
						.most = 0777 };
static const struct option_kind option_count = { take_number, "a number up to 1024", 10,
						 .most = 1024 };
static const struct option_kind option_threads = { take_number, "a number from 1 to 1024", 10,
						   .least = 1, .most = 1024 };
static const struct option_kind option_size = {
	.take = take_size, .value = "a number with K, M, G or T (max_size=2G)"
};
static const struct option_kind option_ttl = {
	.take = take_ttl, .value = "a time with s, m, h, d, w or y (ttl=30d), or never"
};
static const struct option_kind option_duration = {
	.take = take_duration, .value = "a time with s, m, h, d, w or y (trash=7d)"
};
static const struct option_kind option_layout = {
	.take = take_layout,
	.value = "agentscope, or some of agentscope2, claude, codex, gemini, opencode, pi and "
		 "strands with '+' between them"
};
static const struct option_kind option_table = { .take = take_text,
						 .value = "a name",
						 .users = OPTIONS_WRITER | OPTIONS_READER };
static const struct option_kind option_view = {
	.take = take_text, .value = "clauses with '\\,' between them (view=role=user\\,last=20)"
};
static const struct option_kind option_extra = { .take = take_extra };
static const struct option_kind option_privileged = { .take = take_privileged, .most = true };

#define FIELD(name) offsetof(struct options, name)

static const struct option_row option_rows[] = {
	{ "ro", &option_yes, FIELD(tree.read_only), 0,
	  "mount read-only; the store does not change" },
	{ "rw", &option_no, FIELD(tree.read_only), 0, NULL },
	{ "allow_other", &option_yes, FIELD(allow_other), 0,
	  "let other users use the mount, as far as modes allow" },
	{ "uid=", &option_id, FIELD(tree.uid), FIELD(tree.set_uid),
	  "show all files as owned by this user" },
	{ "gid=", &option_id, FIELD(tree.gid), FIELD(tree.set_gid),
	  "show all files as owned by this group" },
	{ "umask=", &option_mode, FIELD(tree.umask), FIELD(tree.set_umask),
	  "clear these bits (octal) in all modes" },
	{ "table=", &option_table, FIELD(table), 0,
	  "the table that has the rows, instead of agentscope_sessions" },
	{ "layout=", &option_layout, FIELD(layout), FIELD(set_layout),
	  "the layout of a new store, such as agentscope2 or claude+codex" },
	{ "strict", &option_writers, FIELD(tree.strict), 0,
	  "refuse bytes that are not JSON, instead of storing them beside the rows" },
	{ "exact", &option_writers, FIELD(tree.exact), 0,
	  "do not end the torn line of a writer that died" },
	{ "exclusive", &option_yes, FIELD(exclusive), 0, "refuse any second mount of the store" },
	{ "durable", &option_yes, FIELD(durable), 0,
	  "refuse a server that may lose committed data" },
	{ "max_size=", &option_size, FIELD(tree.max_size), FIELD(set_max_size),
	  "the size up to which the store may grow, such as 500M or 2G" },
	{ "quota=", &option_size, FIELD(tree.quota), FIELD(set_quota),
	  "how many bytes a session may hold, such as 100M, unless it has a quota of its own" },
	{ "pause=", &option_count, FIELD(tree.pause), FIELD(tree.set_pause),
	  "publish a save after its writer has paused for so many seconds; 0: at close only" },
	{ "ttl=", &option_ttl, FIELD(tree.ttl), FIELD(set_ttl),
	  "remove sessions that have not changed for this long, such as 30d" },
	{ "grace=", &option_duration, FIELD(tree.grace), FIELD(set_grace),
	  "how long such sessions can be restored (7d)" },
	{ "history=", &option_duration, FIELD(tree.history), FIELD(set_history),
	  "how long what is removed or replaced can be had back (7d); 0: not at all" },
	{ "history_size=", &option_size, FIELD(tree.history_size), FIELD(set_history_size),
	  "how many bytes of that are kept at the most; 0: a quarter of the store" },
	{ "view=", &option_view, FIELD(view), 0,
	  "show the store through a question, such as role=user\\,last=20" },
	{ "threads=", &option_threads, FIELD(threads), 0,
	  "the maximum number of threads that serve requests" },
	{ "auto_unmount", &option_yes, FIELD(auto_unmount), 0,
	  "unmount even if the daemon is killed" },
	{ "nonempty", &option_yes, FIELD(nonempty), 0,
	  "mount over files in DIR, which the mount hides" },
	{ "debug", &option_yes, FIELD(debug), 0, "the same as -d" },
	{ "noexec", &option_extra, 0, 0, "forbid the execution of files" },
	{ "allow_dev", &option_privileged, FIELD(allow_dev), 0,
	  "let device nodes have effect; only for root" },
	{ "allow_suid", &option_privileged, FIELD(allow_suid), 0,
	  "let set-id bits have effect; only for root" },
	{ "remount", &option_privileged, FIELD(remount), 0,
	  "change ro, rw and other flags of a mount; only for root" },
	{ "nodev", &option_yes, FIELD(nodev), 0, NULL },
	{ "nosuid", &option_yes, FIELD(nosuid), 0, NULL },
	{ "sync", &option_extra, 0, 0, NULL },
	{ "dirsync", &option_extra, 0, 0, NULL },
};

/* Words of mount(8) and fstab(5) that change nothing here, with or without a value: mount(8) says
 * dev and suid for root unasked, reading never moves the access time, the kernel checks
 * permissions.  A '*' at the end stands for anything. */
/* clang-format off */
static const char *const option_ignored[] = {
	"async", "atime", "auto", "comment", "default_permissions", "defaults", "dev", "diratime",
	"exec", "group", "iversion", "lazytime", "loud", "mand", "_netdev", "noatime", "noauto",
	"nodiratime", "nofail", "noiversion", "nolazytime", "nomand", "norelatime",
	"nostrictatime", "nouser", "owner", "relatime", "silent", "strictatime", "suid", "user",
	"users", "x-*", "X-*",
};
/* clang-format on */

static int refuse_user(enum options_user user, const char *option, char **ret_why)
{
	struct buf why = { 0 };
	int r = buf_printf(&why, "the option '%s' is for mounts; this command takes", option);
	const char *between = " ";

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(option_rows); i++) {
		if (!(option_rows[i].kind->users & user))
			continue;
		r = buf_printf(&why, "%s%s", between, option_rows[i].name);
		between = ", ";
	}
	if (r < 0) {
		buf_done(&why);
		return -ENOMEM;
	}
	*ret_why = why.data;
	return -EINVAL;
}

/* Whether the name is that of this option; *ret_value is its value, or NULL when it has none. */
static bool name_fits(const char *name, const char *option, const char **ret_value)
{
	size_t size = strcspn(name, "=*");
	const char *behind = option + size;

	if (strncmp(name, option, size) != 0)
		return false;
	if (name[size] != '*' && *behind && *behind != '=')
		return false;
	*ret_value = *behind == '=' ? behind + 1 : NULL;
	return true;
}

static int take_option(struct options *options, enum options_user user, const char *option,
		       char **ret_why)
{
	const char *value;

	for (size_t i = 0; i < ARRAY_SIZE(option_rows); i++) {
		const struct option_row *row = &option_rows[i];
		int r;

		if (!name_fits(row->name, option, &value))
			continue;
		if (!((row->kind->users | OPTIONS_MOUNT) & user))
			return refuse_user(user, option, ret_why);
		if (value && !row->kind->value)
			return str_explain(ret_why, -EINVAL, "the option '%s' takes no value",
					   option);
		r = !value && row->kind->value ? -EINVAL : row->kind->take(options, row, value);
		if (r == -EINVAL)
			return str_explain(ret_why, -EINVAL,
					   "the option '%s' is not understood: it takes %s", option,
					   row->kind->value);
		if (r == 0 && row->given)
			*(bool *)field_at(options, row->given) = true;
		return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(option_ignored); i++)
		if (name_fits(option_ignored[i], option, &value))
			return user == OPTIONS_MOUNT ? 0 : refuse_user(user, option, ret_why);
	return str_explain(ret_why, -EINVAL,
			   "the option '%s' is unknown; 'sessfs help mount' lists the options",
			   option);
}

/* Cut the first option off, and the backslashes before commas and backslashes in it: libfuse and
 * mount(8) hand these on as they are. */
static char *next_option(char **rest)
{
	char *option = *rest, *to = option;
	const char *from = option;

	while (*from && *from != ',') {
		from += from[0] == '\\' && (from[1] == ',' || from[1] == '\\');
		*to++ = *from++;
	}
	*rest = option + (from - option) + (*from == ',');
	*to = '\0';
	return option;
}

int options_parse(struct options *options, enum options_user user, const char *text, char **ret_why)
{
	_cleanup_(freep) char *copy = bytes_dup(bytes_str(text));
	char *rest = copy;
	int r = copy ? 0 : -ENOMEM;

	while (r == 0 && *rest) {
		const char *option = next_option(&rest);

		if (*option)
			r = take_option(options, user, option, ret_why);
	}
	return r;
}

void options_done(struct options *options)
{
	free(options->table);
	free(options->view);
	buf_done(&options->extra);
	*options = (struct options){ 0 };
}

void options_print(void)
{
	printf("\n");
	for (size_t i = 0; i < ARRAY_SIZE(option_rows); i++) {
		if (option_rows[i].help)
			printf("  %-13s %s\n", option_rows[i].name, option_rows[i].help);
	}
}
