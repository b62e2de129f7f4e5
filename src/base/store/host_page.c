/* SPDX-License-Identifier: Apache-2.0 */
#include "base/store/host_page.h"

#if !defined(__x86_64__)
#  include <unistd.h>

unsigned host_page_shift = 12;

/* Runs before other constructors of the library, which may make heaps. */
__attribute__((constructor(101))) static void host_page_read(void) {
  host_page_shift = (unsigned)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
}
#endif
