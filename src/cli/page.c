/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/page.h"

__asm__(".pushsection .rodata\n"
        ".global page_common\n"
        "page_common: .incbin \"" PAGE_COMMON "\"\n"
        ".byte 0\n"
        ".popsection\n");

void page_write_json(FILE *f, const char *json) {
  for (; *json; ++json) {
    if (*json == '<')
      fputs("\\u003c", f);
    else
      fputc(*json, f);
  }
}
