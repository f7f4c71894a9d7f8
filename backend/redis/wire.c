/* SPDX-License-Identifier: MIT */
#include "backend/redis/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"

enum {
	READ_SIZE = 64 * 1024,
	NESTED_MAX = 8,	      /* lists in lists */
	LENGTH_MAX = 1 << 29, /* of a text; a server sends no longer one */
	NUMBER_SIZE = 24,
};

struct wire {
	int fd;
	BIO_METHOD *method;
	BIO *bio; /* of the socket, or of TLS over it */
	struct buf in;
	size_t at; /* so far it was taken */
};

void wire_free(struct wire *wire)
{
	if (!wire)
		return;
	BIO_free_all(wire->bio);
	BIO_meth_free(wire->method);
	if (wire->fd >= 0)
		close(wire->fd);
	buf_done(&wire->in);
	free(wire);
}

static void wire_freep(struct wire **wire)
{
	wire_free(*wire);
}

int wire_fd(const struct wire *wire)
{
	return wire->fd;
}

bool wire_has(const struct wire *wire)
{
	return wire->at < wire->in.size || BIO_pending(wire->bio) > 0;
}

static int wire_wait(const struct wire *wire, short events, int64_t until)
{
	struct pollfd fd = { .fd = wire->fd, .events = events };
	int64_t left = until - tick_ms();
	int r = poll(&fd, 1, (int)(left < 0 ? 0 : MIN(left, INT64_C(86400000))));

	return r > 0 || (r < 0 && errno == EINTR) ? 0 : -ENOTCONN;
}

/* For what it wants before it goes on. */
static int wire_wait_again(const struct wire *wire, int64_t until)
{
	return !BIO_should_retry(wire->bio) ?
		       -ENOTCONN :
		       wire_wait(wire, BIO_should_write(wire->bio) ? POLLOUT : POLLIN, until);
}

/* Some bytes, at least one. */
static ssize_t wire_some(struct wire *wire, char *data, size_t size, int64_t until)
{
	for (;;) {
		int r = BIO_read(wire->bio, data, (int)size);

		if (r <= 0)
			r = wire_wait_again(wire, until);
		if (r != 0)
			return r;
	}
}

int wire_send(struct wire *wire, struct bytes bytes, int64_t until)
{
	while (bytes.size) {
		int r = BIO_write(wire->bio, bytes.data, (int)MIN(bytes.size, (size_t)1 << 30));

		if (r <= 0)
			r = wire_wait_again(wire, until);
		if (r < 0)
			return r;
		bytes = bytes_make(bytes.data + r, bytes.size - (size_t)r);
	}
	return 0;
}

/* Commands, and what replies are. */

void words_add(struct words *words, struct bytes word)
{
	if (words->error == 0)
		words->error = buf_printf(&words->buf, "$%zu\r\n", word.size);
	if (words->error == 0)
		words->error = buf_append_bytes(&words->buf, word);
	if (words->error == 0)
		words->error = buf_append_str(&words->buf, "\r\n");
	words->count++;
}

void words_str(struct words *words, const char *word)
{
	words_add(words, bytes_str(word));
}

void words_number(struct words *words, int64_t number)
{
	char text[24];

	words_add(words,
		  bytes_make(text, (size_t)snprintf(text, sizeof(text), "%" PRId64, number)));
}

void words_done(struct words *words)
{
	buf_done(&words->buf);
	*words = (struct words){ 0 };
}

int words_command(const struct words *const *all, size_t count, struct buf *buf)
{
	size_t words = 0;
	int r;

	for (size_t i = 0; i < count; i++)
		words += all[i]->count;
	r = buf_printf(buf, "*%zu\r\n", words);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = all[i]->error < 0 ? all[i]->error :
					buf_append_bytes(buf, buf_bytes(&all[i]->buf));
	return r;
}

void reply_done(struct reply *reply)
{
	for (size_t i = 0; i < reply->count; i++)
		reply_done(&reply->items[i]);
	free(reply->items);
	buf_done(&reply->text);
	*reply = (struct reply){ 0 };
}

const struct reply *reply_at(const struct reply *reply, size_t i)
{
	static const struct reply nil = { 0 };

	return i < reply->count ? &reply->items[i] : &nil;
}

struct bytes reply_bytes(const struct reply *reply)
{
	if (reply->type != REPLY_TEXT && reply->type != REPLY_ERROR)
		return (struct bytes){ 0 };
	return buf_given(&reply->text);
}

int64_t reply_number(const struct reply *reply)
{
	return reply->type == REPLY_NUMBER ? reply->number :
	       reply->text.data		   ? strtoll(reply->text.data, NULL, 10) :
					     0;
}

bool reply_is(const struct reply *reply, const char *text)
{
	return reply->type == REPLY_TEXT && bytes_equal(buf_bytes(&reply->text), bytes_str(text));
}

/* Reading them. */

static int wire_fill(struct wire *wire, int64_t until)
{
	ssize_t size;

	if (wire->at) {
		buf_consume(&wire->in, wire->at);
		wire->at = 0;
	}
	if (buf_reserve(&wire->in, READ_SIZE) < 0)
		return -ENOMEM;
	size = wire_some(wire, wire->in.data + wire->in.size, READ_SIZE, until);
	if (size < 0)
		return (int)size;
	wire->in.size += (size_t)size;
	return 0;
}

/* A line without its end, borrowed until the next read. */
static int wire_line(struct wire *wire, int64_t until, struct bytes *ret_line)
{
	for (size_t seen = 0;;) {
		const char *from = wire->in.data + wire->at;
		size_t size = wire->in.size - wire->at;
		const char *end = size > seen ? memchr(from + seen, '\n', size - seen) : NULL;
		int r;

		if (end && end > from && end[-1] == '\r') {
			*ret_line = bytes_make(from, (size_t)(end - from) - 1);
			wire->at += (size_t)(end - from) + 1;
			return 0;
		}
		seen = size;
		r = size > READ_SIZE ? -EPROTO : wire_fill(wire, until);
		if (r < 0)
			return r;
	}
}

static int wire_exact(struct wire *wire, size_t size, int64_t until, struct buf *ret_text)
{
	int r = buf_reserve(ret_text, size + 1);

	while (r == 0 && ret_text->size < size) {
		size_t there = MIN(wire->in.size - wire->at, size - ret_text->size);
		ssize_t more = (ssize_t)there;

		if (there) {
			memcpy(ret_text->data + ret_text->size, wire->in.data + wire->at, there);
			wire->at += there;
		} else {
			more = wire_some(wire, ret_text->data + ret_text->size,
					 size - ret_text->size, until);
		}
		if (more < 0)
			return (int)more;
		ret_text->size += (size_t)more;
	}
	if (r == 0)
		ret_text->data[size] = '\0';
	while (r == 0 && wire->in.size - wire->at < 2)
		r = wire_fill(wire, until);
	wire->at += r == 0 ? 2 : 0;
	return r;
}

static int wire_reply(struct wire *wire, int64_t until, unsigned depth, struct reply *ret_reply)
{
	char number[NUMBER_SIZE] = "";
	struct bytes line;
	int64_t size;
	int r = wire_line(wire, until, &line);
	char type;

	if (r < 0)
		return r;
	if (!line.size || depth > NESTED_MAX)
		return -EPROTO;
	type = *line.data;
	line = bytes_make(line.data + 1, line.size - 1);
	memcpy(number, line.data, MIN(line.size, sizeof(number) - 1));
	size = strtoll(number, NULL, 10);
	switch (type) {
	case '+':
	case '-':
		ret_reply->type = type == '+' ? REPLY_TEXT : REPLY_ERROR;
		r = buf_append_bytes(&ret_reply->text, line);
		return r < 0 ? r : buf_printf(&ret_reply->text, "%s", "");
	case ':':
		ret_reply->type = REPLY_NUMBER;
		ret_reply->number = size;
		return 0;
	case '$':
		ret_reply->type = size < 0 ? REPLY_NIL : REPLY_TEXT;
		return size < 0		 ? 0 :
		       size > LENGTH_MAX ? -EPROTO :
					   wire_exact(wire, (size_t)size, until, &ret_reply->text);
	case '*':
		ret_reply->type = size < 0 ? REPLY_NIL : REPLY_LIST;
		if (size <= 0)
			return 0;
		ret_reply->items = calloc((size_t)size, sizeof(*ret_reply->items));
		if (!ret_reply->items)
			return -ENOMEM;
		for (; r == 0 && ret_reply->count < (size_t)size; ret_reply->count++)
			r = wire_reply(wire, until, depth + 1, &ret_reply->items[ret_reply->count]);
		return r;
	default:
		return -EPROTO;
	}
}

int wire_read(struct wire *wire, int64_t until, struct reply *ret_reply)
{
	struct reply reply = { 0 };
	int r = wire_reply(wire, until, 0, &reply);

	if (r < 0)
		reply_done(&reply);
	else
		*ret_reply = reply;
	return r == -EPROTO ? -ENOTCONN : r;
}

int wire_ask_str(struct wire *wire, int64_t until, struct reply *ret_reply, ...)
{
	_cleanup_(words_done) struct words words = { 0 };
	_cleanup_(buf_done) struct buf command = { 0 };
	const struct words *const all = &words;
	va_list list;
	int r;

	va_start(list, ret_reply);
	for (const char *word; (word = va_arg(list, const char *));)
		words_str(&words, word);
	va_end(list);
	r = words_command(&all, 1, &command);
	if (r == 0)
		r = wire_send(wire, buf_bytes(&command), until);
	return r < 0 ? r : wire_read(wire, until, ret_reply);
}

/* Connecting. */

static int connect_to(struct wire *wire, const struct sockaddr *address, socklen_t size, int family,
		      int64_t until)
{
	const int on = 1;
	socklen_t length = sizeof(int);
	int error = 0;

	wire->fd = descriptor_above(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (wire->fd < 0)
		return -errno;
	if (family != AF_UNIX) {
		setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		setsockopt(wire->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	}
	if (connect(wire->fd, address, size) == 0)
		return 0;
	if (errno != EINPROGRESS)
		return -errno;
	if (wire_wait(wire, POLLOUT, until) < 0)
		return -ETIMEDOUT;
	getsockopt(wire->fd, SOL_SOCKET, SO_ERROR, &error, &length);
	return -error;
}

static int connect_socket(struct wire *wire, const struct url *url, int64_t until)
{
	const char *path = url->socket ? url->socket : "/var/run/redis/redis-server.sock";
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	return connect_to(wire, (const struct sockaddr *)&address, sizeof(address), AF_UNIX, until);
}

static int connect_host(struct wire *wire, const char *host, unsigned port, int64_t until)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found, *one;
	char service[16];
	int r;

	snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &hints, &found) != 0)
		return -EHOSTUNREACH;
	for (r = -EHOSTUNREACH, one = found; one && r < 0; one = one->ai_next) {
		if (wire->fd >= 0)
			close(wire->fd);
		r = connect_to(wire, one->ai_addr, one->ai_addrlen, one->ai_family, until);
	}
	freeaddrinfo(found);
	return r;
}

static bool is_address(const char *host)
{
	struct in6_addr address;

	return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

static int tls_make(const struct url *url, SSL_CTX **ret_context, char **ret_why)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	bool made = context;

	if (made)
		SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	if (made && url->tls == URL_TLS_VERIFY) {
		SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
		made = (url->ca ? SSL_CTX_load_verify_locations(context, url->ca, NULL) :
				  SSL_CTX_set_default_verify_paths(context)) == 1;
	}
	*ret_context = context;
	return made ? 0 :
		      str_explain(ret_why, -EKEYREJECTED, "cannot use the certificates in %s",
				  url->ca ? url->ca : "the system's folder");
}

/* OpenSSL's own way to write to a socket raises SIGPIPE when the server has gone. */
static int socket_write(BIO *bio, const char *data, int size)
{
	int r = (int)send((int)BIO_get_fd(bio, NULL), data, (size_t)size, MSG_NOSIGNAL);

	BIO_clear_retry_flags(bio);
	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(bio);
	return r;
}

static int socket_attach(struct wire *wire)
{
	const BIO_METHOD *plain = BIO_s_socket();

	wire->method = BIO_meth_new(BIO_TYPE_SOCKET, "socket");
	if (!wire->method)
		return -ENOMEM;
	BIO_meth_set_write(wire->method, socket_write);
	BIO_meth_set_read(wire->method, BIO_meth_get_read(plain));
	BIO_meth_set_ctrl(wire->method, BIO_meth_get_ctrl(plain));
	BIO_meth_set_create(wire->method, BIO_meth_get_create(plain));
	BIO_meth_set_destroy(wire->method, BIO_meth_get_destroy(plain));
	wire->bio = BIO_new(wire->method);
	if (!wire->bio)
		return -ENOMEM;
	BIO_set_fd(wire->bio, wire->fd, BIO_NOCLOSE);
	return 0;
}

static int tls_begin(struct wire *wire, const struct url *url, const char *host, int64_t until,
		     char **ret_why)
{
	SSL_CTX *context;
	SSL *ssl = NULL;
	int r = tls_make(url, &context, ret_why);
	BIO *over = r == 0 ? BIO_new_ssl(context, 1) : NULL;

	SSL_CTX_free(context);
	if (!over)
		return r < 0 ? r : -ENOMEM;
	wire->bio = BIO_push(over, wire->bio);
	BIO_get_ssl(over, &ssl);
	SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	if (url->tls == URL_TLS_VERIFY &&
	    (is_address(host) ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) :
				SSL_set1_host(ssl, host)) != 1)
		return -ENOMEM;
	if (!is_address(host))
		SSL_set_tlsext_host_name(ssl, host);
	while (r == 0) {
		if (BIO_do_handshake(over) == 1)
			return 0;
		r = wire_wait_again(wire, until);
	}
	if (SSL_get_verify_result(ssl) != X509_V_OK)
		return str_explain(ret_why, -EKEYREJECTED,
				   "the certificate of %s is not trusted: %s", host,
				   X509_verify_cert_error_string(SSL_get_verify_result(ssl)));
	return str_explain(ret_why, -EPROTO,
			   "%s does not speak TLS: write tls=off for a server without", host);
}

int wire_open(const struct url *url, const char *host, unsigned port, int64_t until,
	      struct wire **ret_wire, char **ret_why)
{
	_cleanup_(wire_freep) struct wire *wire = calloc(1, sizeof(*wire));
	int r;

	if (!wire)
		return -ENOMEM;
	wire->fd = -1;
	r = host ? connect_host(wire, host, port, until) : connect_socket(wire, url, until);
	if (r < 0)
		return str_explain(ret_why, r, "cannot connect to %s: %s",
				   host	       ? host :
				   url->socket ? url->socket :
						 "the server's socket",
				   strerror(-r));
	r = socket_attach(wire);
	if (r == 0 && host && url->tls != URL_TLS_OFF)
		r = tls_begin(wire, url, host, until, ret_why);
	if (r == 0)
		*ret_wire = steal_ptr(wire);
	return r;
}

int wire_prepare(const struct url *url, char **ret_why)
{
	SSL_CTX *context = NULL;
	int r = url->tls == URL_TLS_OFF ? 0 : tls_make(url, &context, ret_why);

	SSL_CTX_free(context);
	return r;
}
