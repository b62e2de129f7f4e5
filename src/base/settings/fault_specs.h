/* SPDX-License-Identifier: Apache-2.0 */
/* Specifications of failures to inject: the text of CANNON_FAIL and of --fail.
 *
 *   list    SPEC, with ',' or ';' between; empty ones are skipped
 *   SPEC    PLACE[:NAME]:WHEN     NAME: an operator, without "aclnn", where the place takes one (faults.def)
 *   WHEN    N                     the Nth one that matches, counted from 1 in each process
 *           N+                    that and all later ones
 *           p=P[,seed=S]          each with probability P, 0 to 1; the draws depend on S (0) and the number alone
 *   or the word "count"           counts what could fail, and injects nothing
 *
 * A comma is no end of a specification where "seed=" follows it. Pure functions; used by the library and the tools. */
#ifndef CANNON_BASE_SETTINGS_FAULT_SPECS_H
#define CANNON_BASE_SETTINGS_FAULT_SPECS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
#define FAULT_PLACE(name, ...) FAULT_##name,
#include "base/settings/faults.def"
#undef FAULT_PLACE
  N_FAULT_PLACES
} fault_place;

enum { FAULT_MAX_SPECS = 64, FAULT_NAME_BYTES = 64, FAULT_TEXT_BYTES = 112, FAULT_BAD_BYTES = 64 };

typedef struct {
  fault_place place;
  char name[FAULT_NAME_BYTES]; /* "": any operator */
  uint64_t number;             /* 0: by probability */
  bool onwards;                /* all later ones too */
  double probability;
  uint64_t seed;
  char text[FAULT_TEXT_BYTES]; /* as it was given, for messages */
} fault_spec;

typedef struct {
  int n; /* 0, and not an error: nothing is injected, but all is counted */
  fault_spec spec[FAULT_MAX_SPECS];
} fault_list;

/* Reads a list. False if a part is wrong: bad is the first such, and the others are taken. */
bool fault_parse(const char *text, fault_list *list, char bad[FAULT_BAD_BYTES]);

/* Whether the spec makes the number-th matching event fail. */
bool fault_chooses(const fault_spec *spec, uint64_t number);

const char *fault_word(fault_place place);    /* "alloc" */
const char *fault_counted(fault_place place); /* which calls are counted */
const char *fault_failure(fault_place place); /* what the program sees */
bool fault_takes_name(fault_place place);

/* The place of a word of n characters; N_FAULT_PLACES: there is none. */
fault_place fault_place_of(const char *word, unsigned long n);

#endif
