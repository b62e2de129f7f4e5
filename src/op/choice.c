/* SPDX-License-Identifier: Apache-2.0 */
#include "op/choice.h"

#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 4))) static void choice_append(char *text, size_t bytes, const char *format, ...) {
  const size_t n = strlen(text);
  va_list args;
  va_start(args, format);
  vsnprintf(text + n, bytes - n, format, args);
  va_end(args);
}

void choice_describe(const executor *e, choice_text *text) {
  text->names[0] = text->reason[0] = '\0';
  for (int i = 0; i < e->n_choices; ++i) {
    const executor_choice *const c = e->choices[i];
    choice_append(text->names, sizeof text->names, "%s%s=%s", i ? "," : "", c->family, c->name);
    choice_append(text->reason, sizeof text->reason, "%s%s", i ? " | " : "", c->reason);
  }
}
