/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/page.h"

__asm__(".pushsection .rodata\n"
        ".global page_common\n"
        "page_common: .incbin \"" PAGE_COMMON "\"\n"
        ".byte 0\n"
        ".global page_style\n"
        "page_style: .incbin \"" PAGE_STYLE "\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char page_common[], page_style[];

void page_begin(FILE *f, const char *own) {
  fprintf(f, "%s<style>\n%s</style>\n<script>\n%s\nshow(", own, page_style, page_common);
}

void page_write_json(FILE *f, const char *json) {
  for (; *json; ++json) {
    if (*json == '<')
      fputs("\\u003c", f);
    else
      fputc(*json, f);
  }
}
