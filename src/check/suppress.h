/* SPDX-License-Identifier: Apache-2.0 */
/* Suppressions: findings that are known and not told. A file has any number of them:
 *
 *   # A comment.
 *   [torch_npu keeps its pools]        a name, for the report
 *   kind = leak                        one of the kinds of finding.h
 *   message = *pool*                   the other keys are patterns as in shells, for the whole text
 *   object = * /libtorch_npu.so        (without the space) object, function and file are those of any one frame
 *
 * All keys that are given must fit; of object, function and file, one frame must fit all that are given. A pattern of a
 * file or object without a slash is for the last part of the path. Pure functions: no locks, any thread. */
#ifndef CANNON_CHECK_SUPPRESS_H
#define CANNON_CHECK_SUPPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { SUPPRESS_TEXT = 160 };

typedef struct {
  char name[SUPPRESS_TEXT];
  char kind[SUPPRESS_TEXT], message[SUPPRESS_TEXT]; /* "": not given */
  char object[SUPPRESS_TEXT], function[SUPPRESS_TEXT], file[SUPPRESS_TEXT];
  uint64_t n_used; /* how many findings it fitted */
} suppression;

/* Zeroes are an empty list. */
typedef struct {
  suppression *at;
  size_t n;
} suppressions;

typedef struct {
  const char *object, *function, *file; /* NULL: not known */
} suppress_frame;

typedef struct {
  const char *kind, *message;
  const suppress_frame *frame; /* of all its stacks */
  size_t n_frames;
} suppress_facts;

/* Adds a file's suppressions. False if a line is wrong: *line is its number, and *wrong says what is expected. */
bool suppress_read(suppressions *s, FILE *from, unsigned *line, const char **wrong);

/* Adds those of all files *.supp of a folder, which the installation ships; what is wrong there is left out. */
void suppress_read_folder(suppressions *s, const char *folder);

/* The first suppression that fits, which is counted; NULL: none. */
suppression *suppress_find(suppressions *s, const suppress_facts *facts);

void suppress_free(suppressions *s);

#endif
