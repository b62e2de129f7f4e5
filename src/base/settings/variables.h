/* SPDX-License-Identifier: Apache-2.0 */
/* The environment variables that begin with CANNON_. One table (variables.def) says how their values are read, checked
 * and explained; `cannon run` reads its options by it, and `cannon env --help` prints it.
 *
 * Reading is possible before main and prints nothing. An empty or wrong value counts as none. variables_report, which
 * the library calls once at its first use, reports wrong values. Thread-safe, except variable_reject. */
#ifndef CANNON_BASE_SETTINGS_VARIABLES_H
#define CANNON_BASE_SETTINGS_VARIABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sanitizer.h"
#include "base/size.h"

typedef enum {
#define VARIABLE(name, ...) VARIABLE_##name,
#define VARIABLE_ELSEWHERE(name)
#include "base/settings/variables.def"
#undef VARIABLE
#undef VARIABLE_ELSEWHERE
  N_VARIABLES
} variable;

/* A sentence of a message, without its full stop. */
typedef struct {
  char text[512];
} variable_words;

const char *variable_name(variable v);    /* "CANNON_MEM" */
const char *variable_meaning(variable v); /* a few words */
variable_words variable_expected(variable v);

/* The variable's value in the environment; NULL if there is none. */
const char *variable_text(variable v);

/* Reads a number, a size, or the index of the chosen word; false if the environment has no value, or a wrong one. */
bool variable_read(variable v, uint64_t *value);

/* Whether `text` is a right value for the variable; *value as in variable_read. name: where the text is from, such as
 * "CANNON_MEM" or "--mem". *words, if it is wrong: "NAME is 'text', which is too small, expected ...". */
bool variable_parse(variable v, const char *name, const char *text, uint64_t *value, variable_words *words);

/* Says that a variable of kind OWN has this wrong part. To be called by one thread, before variables_report. */
void variable_reject(variable v, const char *part);

/* Sets what a variable of kind OWN expects, where only the running library knows it. text: is kept. As
 * variable_reject. */
void variable_expect(variable v, const char *text);

/* Whether the environment's value is wrong; *words as in variable_parse. */
bool variable_is_bad(variable v, variable_words *words);

/* Prints a line on stderr for each wrong value, with what happens instead, and for each unknown name that begins with
 * CANNON_. */
void variables_report(void);

/* Prints the lines for unknown names only. */
void variables_report_unknown(void);

#endif
