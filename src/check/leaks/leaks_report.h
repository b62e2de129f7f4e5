/* SPDX-License-Identifier: Apache-2.0 */
/* The memory debugger's report, as text. Code addresses are printed as "object(symbol+0x12) [path+0x1234]"; the part in
 * brackets is for addr2line, with which `cannon run` replaces it by the source line. */
#ifndef CANNON_CHECK_LEAKS_LEAKS_REPORT_H
#define CANNON_CHECK_LEAKS_LEAKS_REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "check/block_table.h"

/* The first words of every report. */
#define LEAKS_REPORT_BEGINS "Cannon: memory of process "

/* A free of an address that is not the start of a live block. */
typedef struct {
  uintptr_t address;
  void *site;
  enum { BAD_FREE_UNKNOWN, BAD_FREE_FREED, BAD_FREE_LIVE } kind;
  freed_record before; /* for FREED: the block that contained the address and was freed last */
} bad_free_record;

/* Writes a report of all blocks that are live now. The lists are sorted by size. No lock of the memory may be held. */
void leaks_report_write(FILE *out, const char *occasion, const bad_free_record bad[], size_t n_bad, uint64_t n_bad_all);

#endif
