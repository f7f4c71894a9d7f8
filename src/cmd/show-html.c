/* SPDX-License-Identifier: MIT */
/*
 * A conversation as one page of HTML that needs nothing else: no network, no script, which its
 * policy forbids.  What was said comes as elements from views (as=html), where no byte of it is
 * markup; here is what stands around them.
 */
#include <stdio.h>

#include "fs/api/text.h"
#include "backend/base/cleanup.h"
#include "src/cmd/show.h"

static const char head[] =
	"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	"style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
	"<meta name=\"referrer\" content=\"no-referrer\">\n"
	"<meta name=\"color-scheme\" content=\"light dark\">\n<style>\n"
	":root{--paper:#fff;--ink:#1c1e21;--quiet:#5f6670;--line:#d9dde3;--person:#eef4ff;"
	"--code:#f5f6f8;--wrong:#b3261e}\n"
	"@media (prefers-color-scheme:dark){:root{--paper:#15171a;--ink:#e6e8eb;--quiet:#9aa3ad;"
	"--line:#32373e;--person:#1b2638;--code:#1e2126;--wrong:#ff8a80}}\n"
	"body{margin:0;background:var(--paper);color:var(--ink);"
	"font:16px/1.5 system-ui,sans-serif}\n"
	"main{max-width:52rem;margin:0 auto;padding:1rem}\n"
	"h1{font-size:1.25rem;overflow-wrap:anywhere}\n"
	"h2{margin:0 0 .3rem;font-size:.8rem;font-weight:normal;color:var(--quiet);"
	"overflow-wrap:anywhere}\n"
	"h2 b{color:var(--ink)}\n"
	".file{margin-top:2rem;font-size:1rem}\n"
	"article{padding:.7rem .9rem;border-top:1px solid var(--line)}\n"
	"article.user{background:var(--person);border-radius:.4rem}\n"
	".said{white-space:pre-wrap;overflow-wrap:anywhere}\n"
	"p,details{margin:.3rem 0;font:.85rem/1.45 ui-monospace,monospace;color:var(--quiet);"
	"overflow-wrap:anywhere}\n"
	".call::before{content:\"\\2192\\00a0\"}.result::before{content:\"\\2190\\00a0\"}\n"
	".thought{font-style:italic}.wrong{color:var(--wrong)}\n"
	"summary{cursor:pointer;display:inline}summary::after{content:\"\\00a0+\";"
	"font-weight:bold;color:var(--ink)}\n"
	"details[open]>summary::after{content:\"\\00a0\\2212\"}\n"
	"pre{margin:.4rem 0;padding:.6rem;background:var(--code);border-radius:.3rem;"
	"white-space:pre-wrap;overflow-wrap:anywhere;font:.85rem/1.45 ui-monospace,monospace}\n"
	"@media print{:root{--paper:#fff;--ink:#000;--quiet:#444;--line:#bbb;--person:#f2f2f2;"
	"--code:#f6f6f6}main{max-width:none;padding:0}h2{break-after:avoid}"
	"article{break-inside:auto}}\n"
	"</style>\n<title>";

static int print_text(const char *before, const char *text, const char *behind)
{
	_cleanup_(buf_done) struct buf html = { 0 };
	int r = text_html(bytes_str(text), &html);

	if (r < 0)
		return r;
	fputs(before, stdout);
	fwrite(html.data ? html.data : "", 1, html.size, stdout);
	fputs(behind, stdout);
	return 0;
}

int show_html_begin(const struct show *show)
{
	int r = print_text(head, show->path, "</title>\n</head>\n<body>\n<main>\n");

	return r < 0 ? r : print_text("<h1>", show->path, "</h1>\n");
}

int show_html_file(const char *path)
{
	return print_text("<h2 class=\"file\">", path, "</h2>\n");
}

void show_html_end(void)
{
	fputs("</main>\n</body>\n</html>\n", stdout);
}
