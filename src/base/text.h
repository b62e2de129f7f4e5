/* Text that others wrote: names of processes, strings of other processes' files, fields of a user's tables. Shown as it
 * is, it could hold sequences that a terminal obeys, or bytes that are no UTF-8, which JSON and HTML don't allow.
 * Everything of that kind goes through here before it is printed or written. Thread-safe. */
#ifndef CANNON_BASE_TEXT_H
#define CANNON_BASE_TEXT_H

#include <stddef.h>

/* Writes the first n bytes of the text to `out`, as far as there is room, and ends them with 0. Control characters,
 * characters that change the direction of text or break lines, and what is no UTF-8 become "\x1b" and the like, a byte
 * each; the rest stays. No character is cut in two. Returns the length. room is at least 1. */
size_t text_safe(char *out, size_t room, const char *text, size_t n);

/* The same in place: of an array of `room` bytes, which needs no 0 at its end. */
void text_make_safe(char *text, size_t room);

#endif
