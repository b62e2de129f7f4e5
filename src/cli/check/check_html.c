/* SPDX-License-Identifier: Apache-2.0 */
/* The page of `cannon run --report`: check_page.html, followed by a script with what pages share and with the findings
 * that it draws. */
#include "cli/check/check_report.h"
#include "cli/page.h"

/* The text of check_page.html, embedded from the source folder. */
__asm__(".pushsection .rodata\n"
        ".global check_page\n"
        "check_page: .incbin \"" CHECK_PAGE "\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char check_page[];

bool check_report_write_html(FILE *to, const cJSON *report) {
  char *json = cJSON_PrintUnformatted(report);
  if (!json) return false;
  page_begin(to, check_page);
  page_write_json(to, json);
  fputs(");\n</script>\n", to);
  cJSON_free(json);
  return !ferror(to);
}
