/* SPDX-License-Identifier: Apache-2.0 */
/* The host's page: the smallest piece of memory that the kernel maps, protects or takes back, and so the unit in
 * which the memory of devices is charged and shared. Not to be confused with the pages of CANN's interface
 * (memory/rules.h).
 *
 * * x86-64 has pages of 4 KiB, and there the size is a constant. Kernels of other processors are built for 4, 16 or
 * 64 KiB; there it is read when the library is loaded. At most 2 MiB. */
#ifndef CANNON_BASE_STORE_HOST_PAGE_H
#define CANNON_BASE_STORE_HOST_PAGE_H

#include "base/status.h"

#if defined(__x86_64__)
enum { PAGE_SHIFT = 12 };
#else
extern INTERNAL unsigned host_page_shift;
#  define PAGE_SHIFT host_page_shift
#endif
#define PAGE_BYTES (1 << PAGE_SHIFT)

#endif
