/* SPDX-License-Identifier: MIT */
#include "fs/views/question/values.h"

#include <string.h>
#include <time.h>

static const int64_t SECOND = 1000000000;

static bool is_digit(char byte)
{
	return byte >= '0' && byte <= '9';
}

bool number_read(struct bytes *text, int64_t *ret_number)
{
	int64_t number = 0;
	size_t i = 0;

	for (; i < text->size && is_digit(text->data[i]); i++)
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, text->data[i] - '0', &number))
			return false;
	if (i == 0)
		return false;
	*text = bytes_make(text->data + i, text->size - i);
	*ret_number = number;
	return true;
}

bool byte_read(struct bytes *text, char byte)
{
	if (!text->size || *text->data != byte)
		return false;
	*text = bytes_make(text->data + 1, text->size - 1);
	return true;
}

/* ---- Numbers with a unit ---- */

struct unit {
	char letter;
	int64_t size;
};

static const struct unit sizes[] = {
	{ 'K', INT64_C(1) << 10 }, { 'M', INT64_C(1) << 20 }, { 'G', INT64_C(1) << 30 }, { 0, 0 }
};
static const struct unit ages[] = {
	{ 's', 1 },	 { 'm', 60 },	    { 'h', 3600 }, { 'd', 86400 },
	{ 'w', 604800 }, { 'y', 31536000 }, { 0, 0 },
};

/* A number and the letter of a unit behind it. */
static bool amount_read(struct bytes text, const struct unit *unit, int64_t *ret_amount)
{
	int64_t number;

	if (!number_read(&text, &number) || text.size != 1)
		return false;
	while (unit->letter && unit->letter != *text.data)
		unit++;
	return unit->letter && !__builtin_mul_overflow(number, unit->size, ret_amount);
}

bool size_read(struct bytes text, int64_t *ret_size)
{
	struct bytes rest = text;

	if (amount_read(text, sizes, ret_size))
		return true;
	return number_read(&rest, ret_size) && !rest.size;
}

/* ---- Times ---- */

/* So many digits, as a number within these bounds. */
static bool field_read(struct bytes *text, size_t digits, int least, int most, int *ret_field)
{
	struct bytes field = bytes_make(text->data, digits);
	int64_t number;

	if (text->size < digits || !number_read(&field, &number) || field.size || number < least ||
	    number > most)
		return false;
	*text = bytes_make(text->data + digits, text->size - digits);
	*ret_field = (int)number;
	return true;
}

static bool date_read(struct bytes *text, struct tm *ret_tm)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	int year, month, day;
	bool leap;

	if (!field_read(text, 4, 0, 9999, &year) || !byte_read(text, '-') ||
	    !field_read(text, 2, 1, 12, &month) || !byte_read(text, '-') ||
	    !field_read(text, 2, 1, 31, &day))
		return false;
	leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
	*ret_tm = (struct tm){ .tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day };
	return day <= days[month - 1] + (leap && month == 2);
}

/* Digits behind the point of a second, in nanoseconds; more than nine are read and do not count. */
static bool fraction_read(struct bytes *text, int64_t *ret_fraction)
{
	int64_t unit = SECOND;
	size_t i = 0;

	*ret_fraction = 0;
	for (; i < text->size && is_digit(text->data[i]); i++) {
		unit /= 10;
		*ret_fraction += (text->data[i] - '0') * unit;
	}
	*text = bytes_make(text->data + i, text->size - i);
	return i > 0;
}

static bool clock_read(struct bytes *text, struct tm *tm, int64_t *ret_fraction)
{
	if (!field_read(text, 2, 0, 23, &tm->tm_hour) || !byte_read(text, ':') ||
	    !field_read(text, 2, 0, 59, &tm->tm_min))
		return false;
	if (!byte_read(text, ':'))
		return true;
	if (!field_read(text, 2, 0, 59, &tm->tm_sec))
		return false;
	return !byte_read(text, '.') || fraction_read(text, ret_fraction);
}

static bool moment_of(struct bytes text, int64_t *ret_ns)
{
	int64_t fraction = 0, ns;
	struct tm tm;

	if (!date_read(&text, &tm))
		return false;
	if ((byte_read(&text, 'T') || byte_read(&text, ' ')) && !clock_read(&text, &tm, &fraction))
		return false;
	byte_read(&text, 'Z');
	if (text.size || __builtin_mul_overflow((int64_t)timegm(&tm), SECOND, &ns))
		return false;
	return !__builtin_add_overflow(ns, fraction, ret_ns);
}

bool time_read(struct bytes text, struct question_time *ret_time)
{
	int64_t ns;

	if (amount_read(text, ages, &ns) && !__builtin_mul_overflow(ns, SECOND, &ns)) {
		*ret_time = (struct question_time){ QUESTION_AGO, ns };
		return true;
	}
	if (!moment_of(text, &ns))
		return false;
	*ret_time = (struct question_time){ QUESTION_AT, ns };
	return true;
}

/* ---- Percent-encoding ---- */

static int hex_value(char digit)
{
	if (is_digit(digit))
		return digit - '0';
	digit |= 0x20;
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

bool percent_decode(struct bytes text, struct buf *ret)
{
	for (size_t i = 0; i < text.size; i++) {
		char byte = text.data[i];

		if (byte == '%') {
			int high = text.size - i > 2 ? hex_value(text.data[i + 1]) : -1;
			int low = high < 0 ? -1 : hex_value(text.data[i + 2]);

			if (low < 0)
				return false;
			byte = (char)(high << 4 | low);
			i += 2;
		}
		ret->data[ret->size++] = byte;
	}
	return true;
}
