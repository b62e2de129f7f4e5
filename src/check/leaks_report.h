/* The debugger's report, as text. Addresses of code are given as "object(symbol+0x12) [path+0x1234]"; what is in
 * brackets is for addr2line, and `cannon run` puts the line there. */
#ifndef CANNON_CHECK_LEAKS_REPORT_H
#define CANNON_CHECK_LEAKS_REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "check/block_table.h"

/* What every report begins with. */
#define LEAKS_REPORT_BEGINS "Cannon: memory of process "

/* A free of what was no live block's start. */
typedef struct {
  uintptr_t address;
  void *site;
  enum { BAD_FREE_UNKNOWN, BAD_FREE_FREED, BAD_FREE_LIVE } kind;
  freed_record before; /* FREED: the block that held the address and was freed last */
} bad_free_record;

/* Writes all that is live now. The lists are sorted by size; not while a lock of the memory is held. */
void leaks_report_write(FILE *out, const char *occasion, const bad_free_record bad[], size_t n_bad, uint64_t n_bad_all);

#endif
