/* The environment's variables that begin with CANNON_: one table (variables.def), by which their values are read,
 * checked and explained; `cannon run` reads its options by it, `cannon env --help` prints it.
 *
 * Reading may be done before main, and says nothing. A wrong value counts as none; it is told by variables_report,
 * which the library calls once, when it is first used. An empty value is none. Thread-safe, but for variable_reject. */
#ifndef CANNON_BASE_VARIABLES_H
#define CANNON_BASE_VARIABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sanitizer.h"
#include "base/size.h"

typedef enum {
#define VARIABLE(name, ...) VARIABLE_##name,
#define VARIABLE_ELSEWHERE(name)
#include "base/variables.def"
#undef VARIABLE
#undef VARIABLE_ELSEWHERE
  N_VARIABLES
} variable;

/* A sentence of a message, without an end. */
typedef struct {
  char text[512];
} variable_words;

const char *variable_name(variable v);    /* "CANNON_MEM" */
const char *variable_meaning(variable v); /* a few words */
variable_words variable_expected(variable v);

/* The value in the environment; NULL where there is none. */
const char *variable_text(variable v);

/* The number, the size, or the index of the word chosen; false where the environment has none, or a wrong one. */
bool variable_read(variable v, uint64_t *value);

/* Whether `text` is right for the variable, and its value as above. name: where the text is from, as "CANNON_MEM" or
 * "--mem"; *words: "NAME is 'text', which is too small, expected ...". */
bool variable_parse(variable v, const char *name, const char *text, uint64_t *value, variable_words *words);

/* For variables of kind OWN: the value has this wrong part. To be called by one thread, before variables_report. */
void variable_reject(variable v, const char *part);

/* Whether the environment's value is wrong, and *words as above. */
bool variable_is_bad(variable v, variable_words *words);

/* A line on stderr for each wrong value, with what happens then, and for each unknown name that begins with CANNON_. */
void variables_report(void);

/* The latter alone. */
void variables_report_unknown(void);

#endif
