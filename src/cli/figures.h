/* Figures for people: "12.3 MiB", "4.56 ms". Each call returns one of eight or more static buffers in turn, so that
 * one printf can have several; not for several threads. */
#ifndef CANNON_CLI_FIGURES_H
#define CANNON_CLI_FIGURES_H

#include <stdint.h>

const char *format_bytes(uint64_t bytes);
const char *format_ns(uint64_t ns);
const char *format_rate(uint64_t bytes_per_s); /* powers of 1000: "1.6 TB/s" */

/* What others wrote, made safe to show (base/text.h), of at most 1,023 bytes. */
const char *format_text(const char *text);

#endif
