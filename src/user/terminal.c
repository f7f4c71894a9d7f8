/* SPDX-License-Identifier: MIT */
#include "src/user/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "backend/base/utf8.h"
#include "src/user/say.h"

enum { NARROWEST = 20 };

int terminal_columns(int otherwise, int least)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	int found = columns ? atoi(columns) : 0;

	if (found <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		found = size.ws_col;
	return found > 0 ? MAX(found, least) : otherwise;
}

/* ---- A pager ---- */

static FILE *pager;

void pager_begin(void)
{
	static const char otherwise[] = "if command -v less >/dev/null 2>&1; then exec less; "
					"else exec cat; fi";
	const char *wanted = getenv("PAGER");

	if (!isatty(STDOUT_FILENO) || (wanted && strcmp(wanted, "cat") == 0))
		return;
	fflush(stdout);
	setenv("LESS", "FRX", false);
	/* As it is for every other program. */
	signal(SIGPIPE, SIG_DFL);
	pager = popen(wanted && *wanted ? wanted : otherwise, "we");
	signal(SIGPIPE, SIG_IGN);
	if (pager)
		dup2(fileno(pager), STDOUT_FILENO);
}

void pager_end(void)
{
	_cleanup_(closep) int nothing = -1;

	if (!pager)
		return;
	say_finish();
	nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (nothing < 0 || dup2(nothing, STDOUT_FILENO) < 0)
		close(STDOUT_FILENO);
	pclose(pager);
	pager = NULL;
}

/* ---- Lines ---- */

void paint_begin(struct paint *paint)
{
	const char *never = getenv("NO_COLOR"), *term = getenv("TERM");

	*paint = (struct paint){ 0 };
	if (!isatty(STDOUT_FILENO))
		return;
	paint->columns = MAX(terminal_columns(80, NARROWEST), NARROWEST);
	paint->colours = !(never && *never) && term && *term && strcmp(term, "dumb") != 0;
}

/* How a line begins, and what colours it has then. */
static const char *colour_of(struct bytes line)
{
	static const struct {
		const char *start;
		const char *colour;
	} colours[] = {
		{ "    -> ", "\033[36m" }, { "    <- ", "\033[2m" }, { "    <! ", "\033[31m" },
		{ "    ~ ", "\033[2m" },   { "    [", "\033[35m" },  { "    {", "\033[2m" },
		{ "==> ", "\033[1;35m" },
	};
	static const struct {
		const char *role;
		const char *colour;
	} roles[] = {
		{ "  user", "\033[1;32m" },
		{ "  assistant", "\033[1;34m" },
		{ "  tool", "\033[1;33m" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(colours); i++)
		if (bytes_starts_with(line, bytes_str(colours[i].start)))
			return colours[i].colour;
	if (!line.size || *line.data == ' ')
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
		if (memmem(line.data, line.size, roles[i].role, strlen(roles[i].role)))
			return roles[i].colour;
	return "\033[1m";
}

/* Columns that a character takes. */
static int width_of(const char *at, size_t size)
{
	static const struct {
		uint32_t first, last;
		int width;
	} ranges[] = {
		{ 0x300, 0x36f, 0 },	 { 0x1100, 0x115f, 2 },	  { 0x2e80, 0xa4cf, 2 },
		{ 0xac00, 0xd7a3, 2 },	 { 0xf900, 0xfaff, 2 },	  { 0xfe00, 0xfe0f, 0 },
		{ 0xfe30, 0xfe6f, 2 },	 { 0xff00, 0xff60, 2 },	  { 0xffe0, 0xffe6, 2 },
		{ 0x1f300, 0x1faff, 2 }, { 0x20000, 0x3fffd, 2 },
	};
	static const unsigned char masks[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	uint32_t code = (unsigned char)*at & masks[size];

	for (size_t i = 1; i < size; i++)
		code = code << 6 | ((unsigned char)at[i] & 0x3f);
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (code >= ranges[i].first && code <= ranges[i].last)
			return ranges[i].width;
	return 1;
}

/* How much of a line fits: to its last blank, if it has to be cut and there is one. */
static size_t fitting(struct bytes line, int columns)
{
	size_t size = 0, blank = 0;
	int column = 0;

	while (size < line.size) {
		struct bytes rest = bytes_make(line.data + size, line.size - size);
		size_t more = MAX(utf8_sequence(rest), 1);
		int width = *rest.data == '\t' ? 8 - column % 8 : width_of(rest.data, more);

		if (column + width > columns)
			return blank ? blank : MAX(size, more);
		column += width;
		size += more;
		if (*rest.data == ' ')
			blank = size;
	}
	return size;
}

static void print_line(const struct paint *paint, struct bytes line)
{
	const char *colour = paint->colours ? colour_of(line) : NULL;
	size_t blanks = 0, most = (size_t)paint->columns / 2;
	int columns;

	while (blanks < line.size && line.data[blanks] == ' ' && blanks < most)
		blanks++;
	columns = paint->columns - (int)blanks;
	line = bytes_make(line.data + blanks, line.size - blanks);
	if (colour)
		fputs(colour, stdout);
	do {
		size_t size = fitting(line, columns);

		printf("%*s", line.size ? (int)blanks : 0, "");
		fwrite(line.data, 1, size, stdout);
		line = bytes_make(line.data + size, line.size - size);
		if (!line.size && colour)
			fputs("\033[0m", stdout);
		putchar('\n');
	} while (line.size && !ferror(stdout));
}

int paint_text(struct paint *paint, struct bytes text)
{
	int r = 0;

	if (!paint->columns) {
		fwrite(text.data, 1, text.size, stdout);
		return 0;
	}
	while (r == 0 && text.size && !ferror(stdout)) {
		const char *end = memchr(text.data, '\n', text.size);
		size_t size = end ? (size_t)(end - text.data) : text.size;

		r = buf_append(&paint->line, text.data, size);
		size += end != NULL;
		text = bytes_make(text.data + size, text.size - size);
		if (r < 0 || !end)
			break;
		print_line(paint, buf_bytes(&paint->line));
		buf_clear(&paint->line);
	}
	return r;
}

void paint_end(struct paint *paint)
{
	if (paint->line.size)
		print_line(paint, buf_bytes(&paint->line));
	buf_done(&paint->line);
}
