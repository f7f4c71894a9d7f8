/* SPDX-License-Identifier: MIT */
/*
 * Stands between clients and a server, and makes the way there long, or breaks it.
 *
 *	proxy LISTEN CONTROL TARGET
 *
 * Each is a path (of a socket in the file system) or HOST:PORT with a number as HOST.  When it
 * listens, it says "ready" on the standard output.  CONTROL takes connections, and on each of them
 * commands, a line each; each is answered by a line, "ok" unless it is told otherwise here.
 *
 *	delay N         bytes arrive N microseconds later, in each direction (0)
 *	cut             all connections are closed now, without what is under way
 *	cut before [N]  at the Nth COMMIT from now (the first): its connection is closed, and the
 *	                bytes with the COMMIT never come to the server
 *	cut during [N]  they do, and the connection is closed at once
 *	cut after [N]   they do, and the connection is closed when the server has answered; the
 *	                answer never comes to the client
 *	cut answer N WORD
 *	                at the next question with WORD in it: the connection is closed when the
 *	                client has N bytes of the answer; one that is shorter comes to it whole
 *	hold            nothing goes through any more, whoever connects
 *	hold before|after [N]
 *	                as above, but what is not to come through waits, on that connection
 *	refuse          who connects is turned away
 *	most N          and so is who would be one more than N
 *	go              ends hold, refuse and most, and forgets what was to happen
 *	wait            answers when what was to happen at a COMMIT has happened
 *	counts          answers "connections N open N commits N trips N bytes N answers N"; a
 *	                trip is a question of a client, with all that it sends before the server
 *	                says something; answers are those that were cut
 *
 * A COMMIT is the word in what a client sends, in capitals; nothing encrypted can be looked into.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/base/tick.h"

enum {
	READ_SIZE = 256 * 1024,
	UNDER_WAY_MAX = 16 << 20, /* bytes of one direction, before no more are read */
	LINE_MAX_SIZE = 128,
};
static const char word[] = "COMMIT";
enum { WORD = sizeof(word) - 1 };

struct chunk {
	struct chunk *next;
	int64_t due; /* of tick_now() */
	size_t size, sent;
	char data[];
};

/* One direction. */
struct way {
	struct chunk *first, **end;
	size_t under_way;
	bool ended; /* nothing more comes in */
};

enum what { NOTHING, CUT, HOLD };
enum when { BEFORE, DURING, AFTER };

struct connection {
	int client, server;
	struct way up, down;
	char last[WORD]; /* bytes of what came up, where a word may begin */
	size_t n_last;
	bool answering; /* the server has said something since the client has */
	bool held_up, held_down;
	enum what after; /* when the server answers */
	bool cuts;	 /* what it answers, when the client has so many bytes more */
	size_t left;
	bool dead;
};

/* Who gives commands. */
struct master {
	int fd;
	char line[LINE_MAX_SIZE];
	size_t size;
	bool waits;
	bool dead;
};

static struct {
	const char *target;
	int64_t delay; /* nanoseconds */
	bool hold, refuse;
	size_t most;	/* connections at once; 0: any number */
	enum what what; /* at a COMMIT: */
	enum when when;
	unsigned long left; /* until that one */
	char question[32];  /* what is in it of which the answer is cut; "": none is */
	size_t answer;	    /* behind so many bytes */
	uint64_t connections, commits, trips, bytes, answers;
	struct connection **list;
	size_t count, room;
	struct master **masters;
	size_t n_masters, masters_room;
} proxy;

static void fail(const char *what)
{
	fprintf(stderr, "proxy: %s: %s\n", what, strerror(errno));
	exit(1);
}

union address {
	struct sockaddr any;
	struct sockaddr_un un;
	struct sockaddr_in in;
};

static socklen_t address_of(const char *text, union address *address)
{
	const char *colon = strrchr(text, ':');
	char host[64];

	memset(address, 0, sizeof(*address));
	if (*text == '/') {
		address->un.sun_family = AF_UNIX;
		if (strlen(text) >= sizeof(address->un.sun_path))
			errno = ENAMETOOLONG, fail(text);
		strcpy(address->un.sun_path, text);
		return sizeof(address->un);
	}
	if (!colon || (size_t)(colon - text) >= sizeof(host))
		errno = EINVAL, fail(text);
	snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
	address->in.sin_family = AF_INET;
	address->in.sin_port = htons((uint16_t)atoi(colon + 1));
	if (inet_pton(AF_INET, host, &address->in.sin_addr) != 1)
		errno = EINVAL, fail(text);
	return sizeof(address->in);
}

/* What is sent is sent at once; the connection to the server is made before. */
static int prepare(int fd, int family)
{
	const int yes = 1;

	if (family == AF_INET)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	if (fd >= 0)
		fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static int listen_at(const char *text)
{
	const int yes = 1;
	union address address;
	socklen_t size = address_of(text, &address);
	int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (*text == '/')
		unlink(text);
	else
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (fd < 0 || bind(fd, &address.any, size) < 0 || listen(fd, 1024) < 0)
		fail(text);
	/* Whoever is to reach it, the server may run as another user. */
	if (*text == '/')
		chmod(text, 0777);
	return prepare(fd, AF_UNIX);
}

static int connect_to(const char *text)
{
	union address address;
	socklen_t size = address_of(text, &address);
	int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, &address.any, size) < 0) {
		close(fd);
		return -1;
	}
	return prepare(fd, address.any.sa_family);
}

static void way_done(struct way *way)
{
	while (way->first) {
		struct chunk *chunk = way->first;

		way->first = chunk->next;
		free(chunk);
	}
}

static void connection_free(struct connection *connection)
{
	way_done(&connection->up);
	way_done(&connection->down);
	closep(&connection->client);
	closep(&connection->server);
	free(connection);
}

static void way_add(struct way *way, const char *data, size_t size)
{
	struct chunk *chunk = malloc(sizeof(*chunk) + size);

	if (!chunk)
		fail("memory");
	*chunk = (struct chunk){ .due = tick_now() + proxy.delay, .size = size };
	memcpy(chunk->data, data, size);
	if (!way->first)
		way->end = &way->first;
	*way->end = chunk;
	way->end = &chunk->next;
	way->under_way += size;
}

/* How many words end in these bytes; those that began in the ones before, too. */
static unsigned count_words(struct connection *connection, const char *data, size_t size)
{
	_cleanup_(freep) char *all = malloc(connection->n_last + size);
	size_t total = connection->n_last + size;
	unsigned count = 0;
	char *at = all;

	if (!all)
		fail("memory");
	memcpy(all, connection->last, connection->n_last);
	memcpy(all + connection->n_last, data, size);
	while ((at = memmem(at, total - (size_t)(at - all), word, WORD))) {
		count++;
		at += WORD;
	}
	connection->n_last = MIN(total, (size_t)WORD - 1);
	memcpy(connection->last, all + total - connection->n_last, connection->n_last);
	return count;
}

/* Whether this is where something is to happen. */
static bool comes_up(unsigned words)
{
	proxy.commits += words;
	if (!words || proxy.what == NOTHING)
		return false;
	if (proxy.left > words) {
		proxy.left -= words;
		return false;
	}
	return true;
}

static void take_up(struct connection *connection, const char *data, size_t size)
{
	enum what what = NOTHING;

	proxy.trips += connection->answering;
	connection->cuts &= !connection->answering;
	connection->answering = false;
	if (*proxy.question && memmem(data, size, proxy.question, strlen(proxy.question))) {
		*proxy.question = '\0';
		connection->cuts = true;
		connection->left = proxy.answer;
	}
	if (comes_up(count_words(connection, data, size))) {
		what = proxy.what;
		proxy.what = NOTHING;
	}
	if (what == CUT && proxy.when == BEFORE) {
		connection->dead = true;
		return;
	}
	connection->held_up |= what == HOLD && proxy.when == BEFORE;
	way_add(&connection->up, data, size);
	if (what == CUT && proxy.when == DURING) {
		/* All of it, since that is what it is about. */
		fcntl(connection->server, F_SETFL, 0);
		for (struct chunk *chunk = connection->up.first; chunk; chunk = chunk->next)
			if (write(connection->server, chunk->data + chunk->sent,
				  chunk->size - chunk->sent) < 0)
				break;
		connection->dead = true;
	}
	if (what != NOTHING && proxy.when == AFTER)
		connection->after = what;
}

static void take_down(struct connection *connection, const char *data, size_t size)
{
	connection->answering = true;
	if (connection->after == CUT) {
		connection->dead = true;
		return;
	}
	connection->held_down |= connection->after == HOLD;
	connection->after = NOTHING;
	if (connection->cuts && size > connection->left) {
		size = connection->left;
		connection->down.ended = true;
		proxy.answers++;
	}
	connection->left -= connection->cuts ? size : 0;
	way_add(&connection->down, data, size);
}

static void take_in(struct connection *connection, bool up)
{
	static char data[READ_SIZE];
	struct way *way = up ? &connection->up : &connection->down;
	ssize_t size = read(up ? connection->client : connection->server, data, sizeof(data));

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (size <= 0) {
		way->ended = true;
		return;
	}
	proxy.bytes += (uint64_t)size;
	if (up)
		take_up(connection, data, (size_t)size);
	else
		take_down(connection, data, (size_t)size);
}

static void send_due(struct connection *connection, struct way *way, int to)
{
	int64_t now = tick_now();

	while (way->first && way->first->due <= now) {
		struct chunk *chunk = way->first;
		ssize_t size = send(to, chunk->data + chunk->sent, chunk->size - chunk->sent,
				    MSG_NOSIGNAL);

		if (size < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (size < 0) {
			connection->dead = true;
			return;
		}
		chunk->sent += (size_t)size;
		way->under_way -= (size_t)size;
		if (chunk->sent < chunk->size)
			continue;
		way->first = chunk->next;
		free(chunk);
	}
	/* Who has hung up has said all. */
	if (!way->first && way->ended)
		connection->dead = true;
}

static void take_connection(int listener)
{
	struct connection *connection;
	int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int server = -1;

	if (client < 0)
		return;
	if (!proxy.refuse && (!proxy.most || proxy.count < proxy.most))
		server = connect_to(proxy.target);
	if (server < 0) {
		close(client);
		return;
	}
	connection = calloc(1, sizeof(*connection));
	if (!connection || ARRAY_ROOM(proxy.list, proxy.count, proxy.room) < 0)
		fail("memory");
	connection->client = prepare(client, AF_INET);
	connection->server = server;
	connection->answering = true;
	proxy.list[proxy.count++] = connection;
	proxy.connections++;
}

/* Commands */

static void answer(struct master *master, const char *text)
{
	if (write(master->fd, text, strlen(text)) < 0)
		master->dead = true;
}

static void cut_all(void)
{
	for (size_t i = 0; i < proxy.count; i++)
		proxy.list[i]->dead = true;
}

static void go(void)
{
	proxy.hold = proxy.refuse = false;
	proxy.most = 0;
	proxy.what = NOTHING;
	*proxy.question = '\0';
	for (size_t i = 0; i < proxy.count; i++) {
		struct connection *connection = proxy.list[i];

		connection->held_up = connection->held_down = connection->cuts = false;
		connection->after = NOTHING;
	}
}

/* Something is to happen, or is at a connection that waits for the server. */
static bool is_pending(void)
{
	bool pending = proxy.what != NOTHING;

	for (size_t i = 0; i < proxy.count; i++)
		pending |= !proxy.list[i]->dead && proxy.list[i]->after != NOTHING;
	return pending;
}

static bool plan(enum what what, const char *when, unsigned long which)
{
	static const char *const names[] = { "before", "during", "after" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(names[i], when) != 0 || (what == HOLD && i == DURING))
			continue;
		proxy.what = what;
		proxy.when = (enum when)i;
		proxy.left = which;
		return true;
	}
	return false;
}

static void obey(struct master *master, const char *line)
{
	char verb[16] = "", when[16] = "", question[32] = "", counts[256];
	unsigned long which = 1;
	int words = sscanf(line, "%15s %15s %lu %31s", verb, when, &which, question);
	bool known = true;

	if (strcmp(verb, "delay") == 0 && words == 2)
		proxy.delay = (int64_t)strtoull(when, NULL, 10) * 1000;
	else if (strcmp(verb, "cut") == 0 && words == 1)
		cut_all();
	else if (strcmp(verb, "cut") == 0 && words == 4 && strcmp(when, "answer") == 0) {
		proxy.answer = which;
		strcpy(proxy.question, question);
	} else if (strcmp(verb, "hold") == 0 && words == 1)
		proxy.hold = true;
	else if (strcmp(verb, "cut") == 0)
		known = plan(CUT, when, which);
	else if (strcmp(verb, "hold") == 0)
		known = plan(HOLD, when, which);
	else if (strcmp(verb, "most") == 0 && words == 2)
		proxy.most = strtoul(when, NULL, 10);
	else if (strcmp(verb, "refuse") == 0)
		proxy.refuse = true;
	else if (strcmp(verb, "go") == 0)
		go();
	else if (strcmp(verb, "wait") == 0)
		master->waits = true;
	else if (strcmp(verb, "counts") == 0) {
		snprintf(counts, sizeof(counts),
			 "connections %" PRIu64 " open %zu commits %" PRIu64 " trips %" PRIu64
			 " bytes %" PRIu64 " answers %" PRIu64 "\n",
			 proxy.connections, proxy.count, proxy.commits, proxy.trips, proxy.bytes,
			 proxy.answers);
		answer(master, counts);
		return;
	} else
		known = false;
	if (!master->waits)
		answer(master, known ? "ok\n" : "what?\n");
}

static void take_commands(struct master *master)
{
	ssize_t size = read(master->fd, master->line + master->size,
			    sizeof(master->line) - 1 - master->size);
	char *end;

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (size <= 0) {
		master->dead = true;
		return;
	}
	master->size += (size_t)size;
	while ((end = memchr(master->line, '\n', master->size))) {
		*end++ = '\0';
		obey(master, master->line);
		master->size -= (size_t)(end - master->line);
		memmove(master->line, end, master->size);
	}
}

static void take_master(int listener)
{
	struct master *master = calloc(1, sizeof(*master));

	if (!master || ARRAY_ROOM(proxy.masters, proxy.n_masters, proxy.masters_room) < 0)
		fail("memory");
	master->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (master->fd < 0)
		free(master);
	else
		proxy.masters[proxy.n_masters++] = master;
}

/* The loop */

/* What to wait for at one end, which comes in one way and goes out the other. */
static struct pollfd look_at(int fd, const struct way *in, bool held_in, const struct way *out,
			     bool held_out, int64_t now, int64_t *next)
{
	struct pollfd polled = { .fd = fd };

	if (!in->ended && in->under_way < UNDER_WAY_MAX && !held_in)
		polled.events |= POLLIN;
	if (out->first && !held_out) {
		if (out->first->due <= now)
			polled.events |= POLLOUT;
		else
			*next = MIN(*next, out->first->due);
	}
	/* A hang-up would be told whether or not it is asked for. */
	if (!polled.events)
		polled.fd = -1;
	return polled;
}

static void sweep(void)
{
	size_t left = 0;

	for (size_t i = 0; i < proxy.count; i++) {
		if (proxy.list[i]->dead)
			connection_free(proxy.list[i]);
		else
			proxy.list[left++] = proxy.list[i];
	}
	proxy.count = left;
	left = 0;
	for (size_t i = 0; i < proxy.n_masters; i++) {
		struct master *master = proxy.masters[i];

		if (master->waits && !is_pending()) {
			master->waits = false;
			answer(master, "ok\n");
		}
		if (master->dead) {
			close(master->fd);
			free(master);
		} else {
			proxy.masters[left++] = master;
		}
	}
	proxy.n_masters = left;
}

/* What there is to wait for: the listeners, the masters, and two for each connection. */
static size_t gather(struct pollfd *polled, const int listeners[2], int64_t *next)
{
	int64_t now = tick_now();
	size_t n = 0;

	for (int i = 0; i < 2; i++)
		polled[n++] = (struct pollfd){ listeners[i], POLLIN, 0 };
	for (size_t i = 0; i < proxy.n_masters; i++)
		polled[n++] = (struct pollfd){ proxy.masters[i]->fd, POLLIN, 0 };
	for (size_t i = 0; i < proxy.count; i++) {
		const struct connection *one = proxy.list[i];
		bool up = proxy.hold || one->held_up, down = proxy.hold || one->held_down;

		polled[n++] = look_at(one->client, &one->up, up, &one->down, down, now, next);
		polled[n++] = look_at(one->server, &one->down, down, &one->up, up, now, next);
	}
	return n;
}

static void work(const struct pollfd *polled, size_t n_masters, size_t count)
{
	for (size_t i = 0; i < n_masters; i++)
		if (polled[2 + i].revents)
			take_commands(proxy.masters[i]);
	polled += 2 + n_masters;
	for (size_t i = 0; i < count; i++) {
		struct connection *one = proxy.list[i];
		const struct pollfd *client = &polled[2 * i], *server = client + 1;

		if (client->events & POLLIN && client->revents)
			take_in(one, true);
		if (!one->dead && server->events & POLLIN && server->revents)
			take_in(one, false);
		if (!one->dead && !proxy.hold && !one->held_up)
			send_due(one, &one->up, one->server);
		if (!one->dead && !proxy.hold && !one->held_down)
			send_due(one, &one->down, one->client);
	}
}

int main(int argc, char **argv)
{
	_cleanup_(freep) struct pollfd *polled = NULL;
	int listeners[2];

	if (argc != 4) {
		fprintf(stderr, "usage: proxy LISTEN CONTROL TARGET\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_TIMERSLACK, 1); /* a delay is as long as it is said */
	listeners[0] = listen_at(argv[1]);
	listeners[1] = listen_at(argv[2]);
	proxy.target = argv[3];
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		size_t n_masters = proxy.n_masters, count = proxy.count, n;
		int64_t next = INT64_MAX, wait;
		struct timespec limit;

		free(polled);
		polled = calloc(2 + n_masters + 2 * count, sizeof(*polled));
		if (!polled)
			fail("memory");
		n = gather(polled, listeners, &next);
		wait = next - tick_now();
		wait = MAX(wait, 0);
		limit = (struct timespec){ wait / 1000000000, wait % 1000000000 };
		if (ppoll(polled, n, next == INT64_MAX ? NULL : &limit, NULL) < 0 && errno != EINTR)
			fail("poll");
		work(polled, n_masters, count);
		if (polled[0].revents)
			take_connection(listeners[0]);
		if (polled[1].revents)
			take_master(listeners[1]);
		sweep();
	}
}
