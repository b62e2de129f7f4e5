/* SPDX-License-Identifier: Apache-2.0 */
/* Text from outside: names of processes, strings in files of other processes, fields of users' tables. It may hold
 * control sequences that a terminal would obey, or bytes that are not UTF-8, which JSON and HTML do not allow. All such
 * text passes through these functions before it is printed or written. Thread-safe. */
#ifndef CANNON_BASE_TEXT_H
#define CANNON_BASE_TEXT_H

#include <stddef.h>

/* Copies the first n bytes of the text to `out` as far as there is room, and adds a 0. Each byte of a control
 * character, of a character that changes the direction of text or breaks lines, or of invalid UTF-8 becomes "\x1b" or
 * the like; other characters stay. No character is cut in two. Returns the length. room is at least 1. */
size_t text_safe(char *out, size_t room, const char *text, size_t n);

/* The same in place, for an array of `room` bytes, which need not end with 0. */
void text_make_safe(char *text, size_t room);

#endif
