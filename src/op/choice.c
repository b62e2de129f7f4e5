/* SPDX-License-Identifier: Apache-2.0 */
#include "op/choice.h"

#include "base/text_append.h"

void choice_describe(const executor *e, choice_text *text) {
  text->names[0] = text->reason[0] = '\0';
  for (int i = 0; i < e->n_choices; ++i) {
    const executor_choice *const c = e->choices[i];
    text_append(text->names, sizeof text->names, "%s%s=%s", i ? "," : "", c->family, c->name);
    text_append(text->reason, sizeof text->reason, "%s%s", i ? " | " : "", c->reason);
  }
}
