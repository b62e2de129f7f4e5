/* The debugger's report, as text. Addresses of code are given as "object(symbol+0x12) [path+0x1234]"; what is in brackets
 * is for addr2line, and `cannon run` puts the line there. */
#ifndef CANNON_CHECK_LEAKS_REPORT_H
#define CANNON_CHECK_LEAKS_REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A free of what was no live block. */
typedef struct {
  uintptr_t address;
  void *site;
  char words[256]; /* what is known of the address */
} bad_free_record;

/* Writes all that is live now. The lists are sorted by size; not while a lock of the memory is held. */
void leaks_report_write(FILE *out, const char *occasion, const bad_free_record bad[], size_t n_bad, uint64_t n_bad_all);

/* Code as above. */
void leaks_describe(void *code, char *text, size_t bytes);

#endif
