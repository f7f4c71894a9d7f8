/* SPDX-License-Identifier: MIT */
/*
 * A program that keeps sessions with libsessfs.  To build it where the library is installed:
 *
 *	cc -o session session.c $(pkg-config --cflags --libs sessfs)
 *
 *	$ ./session store.db list demo messages '{"role": "user"}' '{"role": "assistant"}'
 *	$ ./session store.db show demo messages
 *	{"role": "user"}
 *	{"role": "assistant"}
 */
#include <sessfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int save(struct sessfs *sessfs, char **words, int count)
{
	(void)count;
	return sessfs_save(sessfs, words[0], words[1], words[2], strlen(words[2]));
}

/* The whole list each time: the library finds out what is new. */
static int save_list(struct sessfs *sessfs, char **words, int count)
{
	size_t size = (size_t)count - 2;
	struct sessfs_item *items = calloc(size + 1, sizeof(*items));
	int r;

	if (!items)
		return -1;
	for (size_t i = 0; i < size; i++) {
		items[i].data = words[i + 2];
		items[i].size = strlen(words[i + 2]);
	}
	r = sessfs_save_list(sessfs, words[0], words[1], items, size);
	free(items);
	return r;
}

static int get(struct sessfs *sessfs, char **words, int count)
{
	char *json;
	int r = sessfs_get(sessfs, words[0], words[1], &json, NULL);

	(void)count;
	if (r < 0)
		return r;
	puts(json);
	free(json);
	return 0;
}

static int print_item(void *arg, size_t index, const char *data, size_t size)
{
	(void)arg;
	(void)index;
	fwrite(data, 1, size, stdout);
	putchar('\n');
	return 0;
}

static int show(struct sessfs *sessfs, char **words, int count)
{
	(void)count;
	return sessfs_get_list(sessfs, words[0], words[1], print_item, NULL);
}

static int print_session(void *arg, const char *session)
{
	(void)arg;
	puts(session);
	return 0;
}

static int sessions(struct sessfs *sessfs, char **words, int count)
{
	(void)words;
	(void)count;
	return sessfs_list_sessions(sessfs, print_session, NULL);
}

static int forget(struct sessfs *sessfs, char **words, int count)
{
	if (count == 1)
		return sessfs_delete_session(sessfs, words[0]);
	return sessfs_delete_key(sessfs, words[0], words[1]);
}

static const struct verb {
	const char *name;
	int least, most; /* words behind it */
	int (*run)(struct sessfs *sessfs, char **words, int count);
	const char *usage;
} verbs[] = {
	{ "save", 3, 3, save, "SESSION KEY JSON" },
	{ "list", 2, 1 << 20, save_list, "SESSION KEY [JSON...]" },
	{ "get", 2, 2, get, "SESSION KEY" },
	{ "show", 2, 2, show, "SESSION KEY" },
	{ "sessions", 0, 0, sessions, "" },
	{ "forget", 1, 2, forget, "SESSION [KEY]" },
};
enum { VERBS = sizeof(verbs) / sizeof(verbs[0]) };

static int run(const char *store, const struct verb *verb, char **words, int count)
{
	struct sessfs *sessfs;
	int r = sessfs_open(store, NULL, SESSFS_CREATE, &sessfs);

	if (r == 0) {
		r = verb->run(sessfs, words, count);
		if (r < 0)
			fprintf(stderr, "session: %s\n", sessfs_why());
		sessfs_close(sessfs);
	} else {
		fprintf(stderr, "session: %s\n", sessfs_why());
	}
	return r < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
	for (int i = 0; argc > 2 && i < VERBS; i++)
		if (strcmp(argv[2], verbs[i].name) == 0 && argc - 3 >= verbs[i].least &&
		    argc - 3 <= verbs[i].most)
			return run(argv[1], &verbs[i], argv + 3, argc - 3);
	for (int i = 0; i < VERBS; i++)
		fprintf(stderr, "usage: session STORE %s %s\n", verbs[i].name, verbs[i].usage);
	return 2;
}
