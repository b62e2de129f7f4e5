/* SPDX-License-Identifier: Apache-2.0 */
/* The page of `cannon model show --html`: model_page.html, followed by scripts with what pages share and with the
 * description of the model. */
#include "cli/model/model_command.h"
#include "cli/page.h"

/* The text of model_page.html, embedded from the source folder. */
__asm__(".pushsection .rodata\n"
        ".global model_page\n"
        "model_page: .incbin \"" MODEL_PAGE "\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char model_page[];

bool model_write_html(FILE *f, const char *path, const char *description) {
  cJSON *name = cJSON_CreateString(path);
  char *quoted = name ? cJSON_PrintUnformatted(name) : NULL;
  if (quoted) {
    page_begin(f, model_page);
    page_write_json(f, quoted);
    fputs(", ", f);
    page_write_json(f, description);
    fputs(");\n</script>\n", f);
  }
  cJSON_free(quoted);
  cJSON_Delete(name);
  return quoted && !ferror(f);
}
