/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and texts for people: "12.3 MiB", "4.56 ms". Each call returns one of at least eight static buffers in
 * turn, so that one printf can use several. Not thread-safe. */
#ifndef CANNON_CLI_FIGURES_H
#define CANNON_CLI_FIGURES_H

#include <stdint.h>

const char *format_bytes(uint64_t bytes);
const char *format_ns(uint64_t ns);
const char *format_rate(uint64_t bytes_per_s); /* in powers of 1000: "1.6 TB/s" */

/* A text that somebody else wrote, made safe to print (base/text.h) and cut after 1,023 bytes. */
const char *format_text(const char *text);

#endif
